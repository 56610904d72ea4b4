package source

import (
	"fmt"
	"slices"
	"strings"
)

// Mapping sends URIs that begin with From to what begins with To, as the flag --source-map FROM=TO asks. Both are
// beginnings of URLs, without git::, and both or neither end in a slash. From matches whole segments of a path only.
type Mapping struct{ From, To string }

// ParseMapping reads FROM=TO and says what is wrong with it.
func ParseMapping(text string) (Mapping, error) {
	from, to, ok := strings.Cut(text, "=")
	m := Mapping{From: from, To: to}
	if !ok {
		return m, fmt.Errorf("%q is no mapping: write FROM=TO, both beginnings of URLs", text)
	}
	return m, m.check()
}

func (m Mapping) check() error {
	for _, end := range []string{m.From, m.To} {
		scheme, rest, ok := strings.Cut(end, "://")
		if !ok || rest == "" || !slices.Contains([]string{"https", "http", "oci", "ssh"}, scheme) {
			return fmt.Errorf("%q is no end of a mapping: write the beginning of a URL with https, http, oci or ssh and a host", end)
		}
	}
	// Else https://a/=https://b would ask for https://bx where https://a/x was named.
	if strings.HasSuffix(m.From, "/") != strings.HasSuffix(m.To, "/") {
		return fmt.Errorf("%s=%s ends in a slash on one side only: write it on both sides or on none", m.From, m.To)
	}
	return nil
}

// apply returns the rest of a URL behind From.
func (m Mapping) apply(address string) (string, bool) {
	rest, ok := strings.CutPrefix(address, m.From)
	if !ok {
		return "", false
	}
	// https://github.com must not match https://github.com.example, but a repository of a registry its tags.
	ends := "/?"
	if strings.HasPrefix(m.From, "oci://") && strings.Count(m.From, "/") > 2 {
		ends = "/:@"
	}
	return rest, rest == "" || strings.HasSuffix(m.From, "/") || strings.ContainsRune(ends, rune(rest[0]))
}

// rewrite sends a URI to where the longest mapping that matches sends it. The pinned digest, the ref and the folder stay
// as the user wrote them. mapped says whether there is one.
func rewrite(maps []Mapping, u URI) (out URI, mapped bool, err error) {
	address := u.address.String()
	var best *Mapping
	for i, m := range maps {
		if _, ok := m.apply(address); ok && (best == nil || len(m.From) > len(best.From)) {
			best = &maps[i]
		}
	}
	if best == nil {
		return u, false, nil
	}
	rest, _ := best.apply(address)
	target := best.To + rest
	if u.Kind == KindGit && !strings.HasPrefix(best.To, "oci://") {
		target = "git::" + target
	}
	out, err = ParseURI(target)
	if err != nil {
		return URI{}, true, describe(err).at("the mapped URI")
	}
	if u.Digest != "" {
		out.Digest = u.Digest
	}
	if out.Kind == KindGit {
		out.Ref, out.Dir = u.Ref, u.Dir
	}
	return out, true, nil
}
