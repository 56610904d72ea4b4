package source

import (
	"io/fs"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"oras.land/oras-go/v2/registry"
)

// Kind is how a source is fetched.
type Kind string

const (
	// KindArchive is a gzipped tar over HTTP.
	KindArchive Kind = "Archive"
	// KindGit is a git repository over HTTP or SSH.
	KindGit Kind = "Git"
	// KindOCI is an artifact in a registry.
	KindOCI Kind = "OCI"
	// KindFile is one file over HTTP (Request.File).
	KindFile Kind = "File"
)

// URI is a URI that can be fetched.
type URI struct {
	Kind Kind
	// Digest is the sha256 of the archive in lower-case hexadecimal; empty if the URI pins none.
	Digest string
	// Ref is the branch, tag, full ref or commit of a git repository, or the tag or digest of an artifact. It is empty
	// for a repository's default branch.
	Ref string
	// Dir is the folder of a git repository that is wanted, empty for all of it.
	Dir string

	// address is what is connected to. Its query may be a secret.
	address url.URL
}

// String is the URI without its query, fit for messages.
func (u URI) String() string {
	a := u.address
	a.User, a.RawQuery, a.ForceQuery, a.Fragment = nil, "", false, ""
	return a.String()
}

const maxURI = 2048

var (
	forced    = regexp.MustCompile(`^([A-Za-z0-9]+)::(.+)$`)
	scpLike   = regexp.MustCompile(`^([A-Za-z0-9._-]+)@([A-Za-z0-9.-]+):([^:]+)$`)
	userName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	hostName  = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	lastLabel = regexp.MustCompile(`(^|\.)(0[xX][0-9a-fA-F]*|[0-9]+)$`)
	gitRef    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}$`)
	gitPath   = regexp.MustCompile(`^/[A-Za-z0-9._~][A-Za-z0-9._~/+-]*$`)
	sha256Hex = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

func uriError(remedy, format string, args ...any) *Error {
	return terminal(ReasonURIInvalid, remedy, format, args...)
}

// ParseURI reads a URI as users of kfctl write it: an http or https URL of a gzipped tar, `git::<url>//<folder>?ref=`,
// `github.com/<owner>/<repository>`, `git@<host>:<path>`, `ssh://`, and besides `oci://<registry>/<repository>:<tag>`.
// An archive is pinned by `#sha256:<hex>` or by `?checksum=sha256:<hex>`, which is not sent on. Files of the operator,
// other schemes and credentials in the URI are refused with an *Error that quotes nothing but hosts.
func ParseURI(text string) (URI, error) {
	if len(text) > maxURI || !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable) {
		return URI{}, uriError("write the URL of an archive",
			"the URI is longer than %d bytes, or holds spaces or control characters", maxURI)
	}
	if m := forced.FindStringSubmatch(text); m != nil {
		switch getter, rest := strings.ToLower(m[1]), m[2]; getter {
		case "git":
			return parseGit(rest)
		case "http", "https":
			if scheme, _, _ := strings.Cut(rest, "://"); strings.EqualFold(scheme, getter) {
				return ParseURI(rest)
			}
			return URI{}, uriError("leave out the part before the URL", "the URI asks for one scheme by another")
		case "file":
			return URI{}, localRefused()
		default:
			return URI{}, uriError("use https, git or oci", "sources of the kind %q are not supported", getter)
		}
	}
	if scpLike.MatchString(text) || strings.HasPrefix(text, "github.com/") {
		return parseGit(text)
	}
	scheme, _, ok := strings.Cut(text, ":")
	switch strings.ToLower(scheme) {
	case "http", "https":
		return parseArchive(text)
	case "ssh":
		return parseGit(text)
	case "oci":
		return parseOCI(text)
	case "file":
		return URI{}, localRefused()
	}
	if !ok || !strings.Contains(text, "://") {
		return URI{}, localRefused()
	}
	return URI{}, uriError("use https, git or oci", "the URI has a scheme that is not supported")
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.IsSpace(r) || r == utf8.RuneError
}

func localRefused() *Error {
	return uriError("serve the archive over https, or put it into a ConfigMap",
		"files and folders of the operator are not read")
}

// parse reads an absolute URL and checks the parts that all kinds share.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return nil, uriError("write scheme://host/path", "the URI is no URL with a host")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.User != nil && u.Scheme != "ssh" {
		return nil, uriError("put credentials into a Secret", "the URI holds credentials, which everybody can read there")
	}
	return u, checkHostPort(u)
}

func checkHostPort(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.Zone() != "":
		return uriError("leave out the zone", "the URI has an address with a zone")
	case err == nil:
	case !hostName.MatchString(host):
		return uriError("check the host", "the URI has no valid host")
	case lastLabel.MatchString(host):
		// Some resolvers and proxies read 2130706433 and 0x7f.1 as addresses, past every check of addresses.
		return uriError("write the address with four decimal numbers", "the host %q is a number", host)
	}
	if n, err := strconv.Atoi(port); (port != "" || strings.HasSuffix(u.Host, ":")) && (err != nil || n < 1 || n > 65535) {
		return uriError("check the port", "the URI has no valid port")
	}
	return nil
}

func parseArchive(text string) (URI, error) {
	u, err := parse(text)
	if err != nil {
		return URI{}, err
	}
	lower := strings.ToLower(u.Path)
	switch {
	case strings.Contains(lower, ".tar.gz//") || strings.Contains(lower, ".tgz//"):
		return URI{}, uriError("name the folder in the path of the application",
			"a folder within an archive is no part of its URI")
	case strings.HasSuffix(lower, ".git"):
		return URI{}, uriError("write git:: before the URL", "the URI is a git repository, but asks for an archive")
	}
	digest, err := takeDigest(u)
	return URI{Kind: KindArchive, Digest: digest, address: *u}, err
}

// takeDigest takes the pinned digest out of the URL, which then is what the server is to see.
func takeDigest(u *url.URL) (string, error) {
	const remedy = "write #sha256: and 64 hexadecimal digits"
	var digests, query []string
	if u.Fragment != "" {
		digests = append(digests, u.Fragment)
	}
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		value, isChecksum := strings.CutPrefix(part, "checksum=")
		if !isChecksum {
			// The order stays as it is: a signature may cover it.
			query = append(query, part)
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			return "", uriError(remedy, "the checksum in the URI cannot be read")
		}
		digests = append(digests, value)
	}
	u.Fragment, u.RawFragment, u.RawQuery = "", "", strings.Join(query, "&")
	out := ""
	for _, d := range digests {
		hex := strings.ToLower(strings.TrimPrefix(d, "sha256:"))
		if !sha256Hex.MatchString(hex) || (out != "" && out != hex) {
			return "", uriError(remedy, "the URI pins its content by something else than one sha256")
		}
		out = hex
	}
	return out, nil
}

// parseGit reads what stands for a git repository, with or without the forced prefix.
func parseGit(text string) (URI, error) {
	if rest, ok := strings.CutPrefix(text, "github.com/"); ok {
		if text = github(rest); text == "" {
			return URI{}, uriError("write github.com/owner/repository", "the URI names no repository")
		}
	} else if m := scpLike.FindStringSubmatch(text); m != nil {
		text = "ssh://" + m[1] + "@" + m[2] + "/" + strings.TrimPrefix(m[3], "/")
	}
	u, err := parse(text)
	if err != nil {
		if strings.HasPrefix(strings.ToLower(text), "file:") || !strings.Contains(text, "://") {
			return URI{}, localRefused()
		}
		return URI{}, err
	}
	if u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh" {
		return URI{}, uriError("use https or ssh", "git over %q is not supported", u.Scheme)
	}
	if err := checkUser(u); err != nil {
		return URI{}, err
	}
	out := URI{Kind: KindGit}
	if out.Ref, err = takeRef(u); err != nil {
		return URI{}, err
	}
	if before, dir, ok := strings.Cut(u.Path, "//"); ok {
		u.Path, u.RawPath = before, ""
		out.Dir = strings.Trim(path.Clean("/"+dir), "/")
		if strings.Contains("/"+dir+"/", "/../") || (out.Dir != "" && !fs.ValidPath(out.Dir)) {
			return URI{}, uriError("name a folder of the repository", "the folder after // leaves the repository")
		}
	}
	// The path becomes part of a command on an SSH server: no quote, no option.
	if !gitPath.MatchString(u.Path) || strings.Contains(u.Path+"/", "/../") || strings.Contains(u.Path, "/-") {
		return URI{}, uriError("check the path", "the URI has no valid path of a repository")
	}
	out.address = *u
	return out, nil
}

// github is the URL of a repository that is written as on GitHub's pages: github.com/owner/repository[/folder]. It is
// empty where the repository is missing.
func github(rest string) string {
	rest, query, hasQuery := strings.Cut(rest, "?")
	repository, dir, hasDir := strings.Cut(rest, "//")
	parts := strings.SplitN(strings.Trim(repository, "/"), "/", 3)
	if len(parts) < 2 {
		return ""
	}
	if len(parts) == 3 && !hasDir {
		dir, hasDir = parts[2], true
	}
	out := "https://github.com/" + strings.TrimSuffix(strings.Join(parts[:2], "/"), ".git") + ".git"
	if hasDir {
		out += "//" + dir
	}
	if hasQuery {
		out += "?" + query
	}
	return out
}

func checkUser(u *url.URL) error {
	if u.Scheme != "ssh" {
		return nil
	}
	if u.User == nil {
		u.User = url.User("git")
	}
	if _, has := u.User.Password(); has || !userName.MatchString(u.User.Username()) {
		return uriError("put the key into a Secret", "the URI holds more than the name of a user")
	}
	return nil
}

// takeRef takes the ref out of the query, which may hold nothing else: sshkey, for one, would be a secret.
func takeRef(u *url.URL) (string, error) {
	if u.Fragment != "" {
		return "", uriError("pin a repository by ?ref=<commit>", "a digest in the URI is for archives")
	}
	query, err := url.ParseQuery(u.RawQuery)
	u.RawQuery, u.ForceQuery = "", false
	if err != nil || len(query) > 1 || (len(query) == 1 && len(query["ref"]) != 1) {
		return "", uriError("leave ref alone in the query", "the query holds something else than one ref")
	}
	ref := query.Get("ref")
	if ref != "" && (!gitRef.MatchString(ref) || strings.Contains(ref, "..")) {
		return "", uriError("name a branch, a tag or a commit", "the ref is not valid")
	}
	return ref, nil
}

func parseOCI(text string) (URI, error) {
	u, err := parse(text)
	if err != nil {
		return URI{}, err
	}
	digest, err := takeDigest(u)
	if err != nil {
		return URI{}, err
	}
	ref, err := registry.ParseReference(u.Host + u.Path)
	if err != nil || u.RawQuery != "" {
		return URI{}, uriError("write oci://registry/repository:tag, or @sha256: and a digest",
			"the URI names no artifact")
	}
	return URI{Kind: KindOCI, Digest: digest, Ref: ref.ReferenceOrDefault(), address: *u}, nil
}
