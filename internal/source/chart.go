package source

import (
	"context"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// ChartRequest is a chart of a repository.
type ChartRequest struct {
	// Repository is an http(s) address whose index.yaml lists the charts, or the oci:// address that they are under.
	Repository string
	// Name and Version are those of the chart. The version is one, or a range such as 1.x or >=1.2 <2, which is the newest one in it.
	Name, Version string
	// Digest is the sha256 of the archive in hexadecimal; empty where the repository says it.
	Digest string
	Auth   Auth
	// Verify asks for a signature; nil where what the repository gives is trusted.
	Verify *Verify
	// Before allows what the repository gave the last time, if it cannot be asked now: Artifact.Stale then says why.
	Before bool
}

var (
	chartName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,250}[a-zA-Z0-9])?$`)
	// chartVersion are semantic versions; in a registry + is written _.
	chartVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// FetchChart brings a chart of a repository, with the same limits as Fetch. The digest that the index of the repository names
// is checked; a chart whose digest the request names is asked for once. Errors are *Error.
func (s *Store) FetchChart(ctx context.Context, r ChartRequest) (*Artifact, error) {
	r.Digest = strings.ToLower(strings.TrimPrefix(r.Digest, "sha256:"))
	if err := checkChart(r); err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Repository, "oci://") {
		return s.fetchTagged(ctx, r)
	}
	key := s.chartKey(r)
	if m, e := s.known(key); e != nil && r.Digest != "" && r.Digest == m.ID {
		if a, err := s.artifact(ctx, e, m); !gone(err) {
			return a, err
		}
	} else if e != nil {
		s.unpin(e)
	}
	artifact, err := s.fetchListed(ctx, r)
	if err != nil {
		return s.before(ctx, Request{Before: r.Before}, r.Digest, key, describe(err).at(r.Name+" "+r.Version+" of "+shown(r.Repository)))
	}
	if artifact.Stale == nil {
		s.remember(key, meta{ID: artifact.ID, Digest: artifact.Digest, Revision: artifact.Revision})
	}
	return artifact, nil
}

func checkChart(r ChartRequest) error {
	switch {
	case !chartName.MatchString(r.Name):
		return uriError("write the name of the chart as the repository has it", "the name of the chart is not valid")
	case len(r.Version) > 128 || !exact(r.Version) && rangeOf(r.Version) == nil:
		return uriError("write one version such as 1.15.0, or a range such as 1.x", "the version of the chart is not valid")
	case r.Digest != "" && !exact(r.Version):
		return uriError("write the version that the digest is of", "a digest is that of one version, and not of a range")
	case r.Digest != "" && !sha256Hex.MatchString(r.Digest):
		return uriError("give the sha256 of the archive, in 64 hexadecimal digits", "the digest of the chart is not valid")
	}
	return r.Verify.fits(r.Repository)
}

// shown is an address without what may be a secret.
func shown(repository string) string {
	before, _, _ := strings.Cut(repository, "?")
	return before
}

// chartKey names a chart of a repository for someone's credentials, as sourceKey does a source.
func (s *Store) chartKey(r ChartRequest) string {
	return s.keyed(struct {
		Repository, Name, Version string
		Auth                      Auth
		Verify                    *Verify `json:",omitempty"`
	}{r.Repository, r.Name, r.Version, r.Auth, r.Verify})
}

// fetchListed finds the chart in the index of its repository, and fetches it.
func (s *Store) fetchListed(ctx context.Context, r ChartRequest) (*Artifact, error) {
	u, mapped, err := s.resolve(Request{URI: strings.TrimSuffix(r.Repository, "/") + "/index.yaml"})
	if err == nil {
		err = s.options.Policy.check(u, r.Digest != "", mapped)
	}
	if err != nil {
		return nil, err
	}
	if u.Kind != KindArchive {
		return nil, uriError("write the https address that index.yaml is under, or one of oci://", "the repository is none of charts")
	}
	link, digest, err := s.lookUp(ctx, u, r)
	if err != nil {
		return nil, err
	}
	base := u.address
	base.Path = strings.TrimSuffix(base.Path, "index.yaml")
	at, err := base.Parse(link)
	if err != nil {
		return nil, invalid("the index of the repository names no address of the chart")
	}
	request := Request{URI: at.String(), Digest: r.Digest, Before: r.Before}
	if request.Digest == "" {
		request.Digest = digest
	}
	if sameOrigin(at, &base) {
		request.Auth = r.Auth
	} else {
		// The credentials are the repository's; the CA and the proxy are how the author reaches the network.
		request.Auth = Auth{CA: r.Auth.CA, Proxy: r.Auth.Proxy}
	}
	if r.Verify != nil {
		signed, err := s.signedDigest(ctx, at, request.Auth, r.Verify)
		if err != nil {
			return nil, err
		}
		if request.Digest != "" && request.Digest != signed {
			return nil, badSignature("the archive that is signed has the sha256 %s, not %s", signed, request.Digest)
		}
		request.Digest = signed
	}
	return s.Fetch(ctx, request)
}

// listed finds a chart in an index.
func listed(raw []byte, r ChartRequest) (link, digest string, err error) {
	var index struct {
		Entries map[string][]struct {
			Version string   `json:"version"`
			Digest  string   `json:"digest"`
			URLs    []string `json:"urls"`
		} `json:"entries"`
	}
	if err := yaml.Unmarshal(raw, &index); err != nil {
		return "", "", terminal(ReasonArchiveInvalid, "check the address of the repository", "the repository's index.yaml is no index of charts")
	}
	versions, ok := index.Entries[r.Name]
	if !ok {
		return "", "", terminal(ReasonNotFound, "check the name", "the repository has no chart %s", r.Name)
	}
	have := make([]string, 0, len(versions))
	for _, one := range versions {
		if len(one.URLs) == 0 {
			one.Version = ""
		}
		have = append(have, one.Version)
	}
	if i := newestIn(r.Version, have); i >= 0 {
		digest = strings.ToLower(strings.TrimPrefix(versions[i].Digest, "sha256:"))
		if !sha256Hex.MatchString(digest) {
			digest = ""
		}
		return versions[i].URLs[0], digest, nil
	}
	return "", "", terminal(ReasonNotFound, "choose one that it has", "the repository has no version %s of chart %s", r.Version, r.Name)
}
