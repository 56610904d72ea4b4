package source

import (
	"context"
	"errors"
	"strings"

	"github.com/Masterminds/semver/v3"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

const (
	// maxTags bounds the tags of a repository of a registry, of which the newest is looked for.
	maxTags = 20_000
	// maxTagPage bounds one page of them, in bytes, and maxTag one of them, which has no more in a registry (OCI's distribution-spec).
	maxTagPage, maxTag = 4 << 20, 128
)

// IsRange says that a version of a chart is a range, in which newer ones may appear.
func IsRange(version string) bool { return !exact(version) }

// InRange says that a chart has the version that is asked for, or one in the range that is.
func InRange(want, version string) bool { return newestIn(want, []string{version}) == 0 }

// exact says that a version of a chart is one, and no range.
func exact(version string) bool { return chartVersion.MatchString(version) }

// rangeOf is a range of versions as Helm reads it; nil for what is none.
func rangeOf(version string) *semver.Constraints {
	out, err := semver.NewConstraint(version)
	if err != nil || strings.TrimSpace(version) == "" {
		return nil
	}
	return out
}

// newestIn finds a version in a list: the one that is wanted, or the newest in the range that is; -1 for none. Versions before a release
// are in a range only if it names one, as with Helm.
func newestIn(want string, have []string) int {
	if exact(want) {
		for i, version := range have {
			if version != "" && strings.TrimPrefix(version, "v") == strings.TrimPrefix(want, "v") {
				return i
			}
		}
		return -1
	}
	in, found := rangeOf(want), -1
	var newest *semver.Version
	for i, version := range have {
		v, err := semver.NewVersion(version)
		if err == nil && in.Check(v) && (newest == nil || v.GreaterThan(newest)) {
			newest, found = v, i
		}
	}
	return found
}

// errEnough ends a listing.
var errEnough = errors.New("enough")

// fetchTagged brings a chart of a registry, whose versions are tags: in one, + is written _.
func (s *Store) fetchTagged(ctx context.Context, r ChartRequest) (*Artifact, error) {
	at := strings.TrimSuffix(r.Repository, "/") + "/" + r.Name
	request := func(version string) Request {
		return Request{
			URI: at + ":" + strings.ReplaceAll(version, "+", "_"), Digest: r.Digest, Auth: r.Auth, Before: r.Before, verify: r.Verify,
		}
	}
	if exact(r.Version) {
		return s.Fetch(ctx, request(r.Version))
	}
	key := s.chartKey(r)
	version, err := s.newestTag(ctx, request("0"), r)
	if err != nil {
		return s.before(ctx, request("0"), "", key, describe(err).at(r.Name+" "+r.Version+" of "+shown(r.Repository)))
	}
	artifact, err := s.Fetch(ctx, request(version))
	if err == nil && artifact.Stale == nil {
		s.remember(key, meta{ID: artifact.ID, Digest: artifact.Digest, Revision: artifact.Revision})
	}
	return artifact, err
}

// newestTag finds the newest version in a range among the tags of a repository.
func (s *Store) newestTag(ctx context.Context, request Request, r ChartRequest) (string, error) {
	u, mapped, err := s.resolve(request)
	if err == nil {
		err = s.options.Policy.check(u, false, mapped)
	}
	if err != nil {
		return "", err
	}
	if err := s.begin(); err != nil {
		return "", err
	}
	defer s.running.Done()
	ctx, cancel := context.WithTimeout(ctx, s.options.Limits.Total)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	origin := u.address
	origin.Scheme = "https"
	client, err := s.newSession(ctx, &origin, r.Auth)
	if err != nil {
		return "", err
	}
	defer client.close()
	client.gate.body = maxTagPage
	ref, err := registry.ParseReference(origin.Host + origin.Path)
	if err != nil {
		return "", uriError("write the oci:// address that the charts are under", "the repository is none of a registry")
	}
	repository := &remote.Repository{Reference: ref}
	repository.Client = &auth.Client{Client: client.Client, Cache: auth.NewCache(), Credential: credential(origin.Host, r.Auth)}
	var versions []string
	err = repository.Tags(ctx, "", func(page []string) error {
		for _, tag := range page {
			if len(tag) <= maxTag {
				versions = append(versions, strings.ReplaceAll(tag, "_", "+"))
			}
		}
		if len(versions) > maxTags {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return "", tooLarge("the repository has more than %d tags", maxTags)
	case err != nil:
		return "", ociError(err, client)
	}
	if i := newestIn(r.Version, versions); i >= 0 {
		return versions[i], nil
	}
	return "", terminal(ReasonNotFound, "choose one that it has", "the repository has no version %s of chart %s", r.Version, r.Name)
}
