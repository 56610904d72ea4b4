package kustomize

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// inside cleans a path that must stay in its folder; what names the path in an error.
func inside(what, p string) (string, error) {
	switch {
	case strings.ContainsFunc(p, unicode.IsControl), strings.Contains(p, `\`):
		return "", fmt.Errorf("%s %q has a character that a path cannot have: correct it", what, p)
	case path.IsAbs(p):
		return "", fmt.Errorf("%s %q is absolute: make it relative to the top of the repository", what, p)
	case p != "" && !filepath.IsLocal(p):
		return "", fmt.Errorf("%s %q leaves the repository: correct it", what, p)
	}
	return path.Clean(p), nil
}

// folderName refuses a name that kfctl could not have made a folder of without leaving its own.
func folderName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s has no name: give it one", what)
	}
	clean, err := inside(what, name)
	if err == nil && clean == "." {
		err = fmt.Errorf("%s %q is no name: give it another", what, name)
	}
	return err
}

// address is how kustomize knows one: by a scheme, or by a user for ssh.
var address = regexp.MustCompile(`^[a-z][a-z0-9+.-]*(://|@)`)

// remotePrefixes are how kustomize knows an address without a double slash behind its scheme.
var remotePrefixes = []string{"git::", "gh:", "http:", "https:", "github.com/", "github.com:"}

// IsRemote says that kustomize would fetch p, over http or with git, before it looks for a file or folder of that name. It is
// wider than kustomize's own test, so that a form which that one learns later is refused all the same: whoever renders replaces an address
// by a path first.
func IsRemote(p string) bool {
	lower := strings.ToLower(strings.TrimSpace(p))
	for _, prefix := range remotePrefixes {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	return address.MatchString(lower)
}

var errRemote = errors.New("is an address, and MLKeeper fetches nothing while it renders: " +
	"copy what it names into the repository and refer to it by its path")
