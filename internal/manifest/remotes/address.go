package remotes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Address is what an entry of a kustomization names elsewhere.
type Address struct {
	// URI is what is fetched: one file over HTTP, or the whole of a git repository, since folders of it refer to their neighbours.
	URI  string
	File bool
	// Dir is the folder of the repository.
	Dir string
	// name is that of the folder in which what was fetched is mounted.
	name string
}

var (
	version = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+.][0-9A-Za-z.+-]*)?$`)
	commit  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	digest  = regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`)
	// unfit are the characters that the name of a mounted folder has not.
	unfit = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// parse reads an entry as kustomize reads it: a file over HTTP, or host/owner/repository/folder?ref=. moving allows what may move.
func parse(entry string, moving bool) (Address, error) {
	text := strings.TrimSpace(entry)
	if len(text) > maxEntry {
		return Address{}, fmt.Errorf("is longer than %d bytes: correct it", maxEntry)
	}
	rest, forced := cutFold(text, "git::")
	if _, found := cutFold(rest, "github.com/"); found {
		rest = "https://" + rest
	}
	u, err := url.Parse(rest)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return Address{}, errors.New("is fetched over https alone, without credentials: write https://host/owner/repository/folder?ref=, " +
			"or the https address of a file")
	case u.User != nil:
		return Address{}, errors.New("has credentials in it, and none are sent on: leave them out, or copy what it names into the repository")
	}
	if !forced && isFile(u) {
		return parseFile(rest, u, moving)
	}
	return parseGit(u, moving)
}

// cutFold cuts a prefix in any case.
func cutFold(text, prefix string) (string, bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

// isFile says that an address names a manifest.
func isFile(u *url.URL) bool {
	switch strings.ToLower(path.Ext(u.Path)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func parseFile(text string, u *url.URL, moving bool) (Address, error) {
	if !moving && !digest.MatchString(u.Fragment) && !versioned(u.Path) {
		return Address{}, errors.New("may name another content tomorrow: write #sha256: and its digest behind it, or an address with " +
			"a version such as v1.2.3 or a commit in its path")
	}
	return Address{URI: text, File: true}, nil
}

// versioned says that a path names a version or a commit.
func versioned(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if version.MatchString(part) || commit.MatchString(part) {
			return true
		}
	}
	return strings.Contains(p, "/refs/tags/")
}

func parseGit(u *url.URL, moving bool) (Address, error) {
	repository, dir := split(strings.TrimPrefix(u.Path, "/"))
	if repository == "" {
		return Address{}, errors.New("names no repository: write https://host/owner/repository/folder?ref=")
	}
	if dir = path.Clean(strings.Trim(dir, "/")); !fs.ValidPath(dir) {
		return Address{}, errors.New("leaves its repository: correct the folder")
	}
	query := u.Query()
	ref := query.Get("ref")
	if ref == "" {
		ref = query.Get("version")
	}
	if ref == "" && !moving {
		return Address{}, errors.New("names no version of its repository: write ?ref= and a tag or a commit behind it")
	}
	out := Address{URI: "git::" + u.Scheme + "://" + u.Host + "/" + repository, Dir: dir}
	if ref != "" {
		out.URI += "?ref=" + url.QueryEscape(ref)
	}
	out.name = unfit.ReplaceAllString(u.Host+"/"+repository+"/"+ref, "_")
	return out, nil
}

// split cuts a path into a repository and a folder of it, as kustomize does: behind _git/NAME, at //, behind .git, or else behind two
// parts.
func split(p string) (repository, dir string) {
	if before, after, found := strings.Cut(p, "_git/"); found {
		name, dir, _ := strings.Cut(after, "/")
		return before + "_git/" + name, dir
	}
	if repository, dir, found := strings.Cut(p, "//"); found {
		return repository, dir
	}
	if before, after, found := strings.Cut(p+"/", ".git/"); found {
		return before + ".git", after
	}
	parts := strings.SplitN(p, "/", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return "", ""
	}
	if len(parts) == 3 {
		dir = parts[2]
	}
	return path.Join(parts[0], parts[1]), dir
}

// shown is an entry in a message: neither what may be a credential nor what else is asked of a server.
func shown(entry string) string {
	text, query, _ := strings.Cut(strings.TrimSpace(entry), "?")
	if before, after, found := strings.Cut(text, "://"); found {
		host, rest, _ := strings.Cut(after, "/")
		text = before + "://" + host[strings.LastIndex(host, "@")+1:] + "/" + rest
	}
	if values, err := url.ParseQuery(query); err == nil && values.Get("ref") != "" {
		text += "?ref=" + values.Get("ref")
	}
	return text[:min(len(text), maxShown)]
}

// maxEntry bounds an entry that is fetched, in bytes, as that of a repository of a KfDef is, and maxShown one in a message.
const maxEntry, maxShown = 2048, 300
