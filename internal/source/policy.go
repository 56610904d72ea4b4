package source

import "strings"

// Policy is what an administrator asks of all sources. The content of a source becomes objects that are applied with the rights of the
// custom resource's ServiceAccount, so whoever can change it on its way has these rights.
type Policy struct {
	// AllowHTTP allows plain http for content that is not pinned, from sources that no Mapping sends there.
	AllowHTTP bool
	// RequireDigest refuses what is not pinned: by a digest, or as a commit of git.
	RequireDigest bool
}

// check refuses a source that the policy does not allow. pinned says that the request names the content itself, mapped that the
// administrator chose the server.
func (p Policy) check(u URI, pinned, mapped bool) error {
	switch {
	case pinned:
		return nil
	case p.RequireDigest:
		return terminal(ReasonDigestRequired, "pin it by "+u.pin(), "the content is not pinned, which --source-require-digest asks for")
	case u.address.Scheme == "http" && !mapped && !p.AllowHTTP:
		return terminal(ReasonInsecureTransport, "use https, pin the content by "+u.pin()+", or ask an administrator for --source-allow-http",
			"content that is not pinned is not fetched over plain http, where anybody on the way can change it")
	}
	return nil
}

// pin is how a user pins content of this kind.
func (u URI) pin() string {
	switch u.Kind {
	case KindGit:
		return "?ref= and the 40 digits of a commit"
	case KindOCI:
		return "@sha256: and its digest in place of the tag"
	}
	return "#sha256: and the digest of the archive, or that of a chart in its field digest"
}

// pinned says that the URI names one content for ever.
func (u URI) pinned() bool {
	switch {
	case u.Digest != "":
		return true
	case u.Kind == KindGit:
		return commitHash.MatchString(u.Ref)
	}
	return u.Kind == KindOCI && strings.HasPrefix(u.Ref, "sha256:")
}
