package source

import (
	"errors"
	"strings"
	"testing"
)

// TestURIs goes through the table of the reference on KfDef, section 2.1, and beyond it what is refused.
func TestURIs(t *testing.T) {
	hex := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"https://github.com/kubeflow/manifests/archive/v1.2.0.tar.gz": "Archive https://github.com/kubeflow/manifests/archive/v1.2.0.tar.gz",
		"https://github.com/kubeflow/manifests/tarball/master":        "Archive https://github.com/kubeflow/manifests/tarball/master",
		"HTTP://Example.COM/Path/x.tgz":                               "Archive http://example.com/Path/x.tgz",
		"https://example.com:8443/a.tar.gz?token=s3cret&b=1":          "Archive https://example.com:8443/a.tar.gz?token=s3cret&b=1",
		"https://[2001:db8::1]:8443/a":                                "Archive https://[2001:db8::1]:8443/a",
		"https://192.0.2.7/a":                                         "Archive https://192.0.2.7/a",
		"http::http://example.com/a.tar.gz":                           "Archive http://example.com/a.tar.gz",
		"https://example.com/a?z=1&checksum=sha256:" + hex + "&b=2":   "Archive https://example.com/a?z=1&b=2 digest=" + hex,
		"https://example.com/a?checksum=sha256%3A" + hex:              "Archive https://example.com/a digest=" + hex,
		"https://example.com/a#sha256:" + strings.ToUpper(hex):        "Archive https://example.com/a digest=" + hex,
		"git::https://example.com/o/r.git?ref=v1.2":                   "Git https://example.com/o/r.git ref=v1.2",
		"git::https://example.com/o/r.git//sub/dir?ref=main":          "Git https://example.com/o/r.git ref=main dir=sub/dir",
		"git::ssh://git@example.com:2222/o/r.git":                     "Git ssh://git@example.com:2222/o/r.git",
		"git::git@example.com:o/r.git//d":                             "Git ssh://git@example.com/o/r.git dir=d",
		"git@github.com:o/r.git?ref=x":                                "Git ssh://git@github.com/o/r.git ref=x",
		"ssh://example.com/o/r":                                       "Git ssh://git@example.com/o/r",
		"github.com/o/r":                                              "Git https://github.com/o/r.git",
		"github.com/o/r.git?ref=v1":                                   "Git https://github.com/o/r.git ref=v1",
		"github.com/o/r/sub/dir?ref=v1":                               "Git https://github.com/o/r.git ref=v1 dir=sub/dir",
		"github.com/o/r//sub":                                         "Git https://github.com/o/r.git dir=sub",
		"git::github.com/o/r":                                         "Git https://github.com/o/r.git",
		"oci://ghcr.io/o/r:v1":                                        "OCI oci://ghcr.io/o/r:v1 ref=v1",
		"oci://localhost:5000/r":                                      "OCI oci://localhost:5000/r ref=latest",
		"oci://ghcr.io/o/r@sha256:" + hex:                             "OCI oci://ghcr.io/o/r@sha256:" + hex + " ref=sha256:" + hex,
		"oci://ghcr.io/o/r:v1#sha256:" + hex:                          "OCI oci://ghcr.io/o/r:v1 digest=" + hex + " ref=v1",
	} {
		u, err := ParseURI(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := string(u.Kind) + " " + u.address.String()
		for name, value := range map[string]string{" digest=": u.Digest} {
			if value != "" {
				got += name + value
			}
		}
		if u.Ref != "" {
			got += " ref=" + u.Ref
		}
		if u.Dir != "" {
			got += " dir=" + u.Dir
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
		if strings.Contains(u.String(), "s3cret") {
			t.Errorf("%s tells its query", u)
		}
	}
}

func TestURIsThatAreRefused(t *testing.T) {
	hex := strings.Repeat("0a", 32)
	for _, text := range []string{
		"", " ", "file:/x.tar.gz", "file:///x.tar.gz", "file:///dir", "FILE:///dir", "/x/tree", "/x.tar.gz", "./x", "../x", "x/tree", "x.tar.gz", "~/x",
		"git::file:///r", "git::/r", "git::./r", "file::/x", "s3::https://s3.amazonaws.com/b/s3cret", "gcs::https://x/s3cret", "hg::https://x/y",
		"s3://b/k", "git://example.com/r.git", "git::git://example.com/r", "ftp://example.com/x", "http::file:///x", "http::https://example.com/x",
		"javascript:alert(1)", "https:example.com/x", "https:///x", "https://", "https://example.com:0/x", "https://example.com:99999/x",
		"https://example.com:/x", "https://exa mple.com/", "https://example.com/\x00", "https://example.com/\n", "https://example.com/\u00a0x",
		"https://user:s3cret@example.com/x", "https://s3cret@example.com/x", "git::https://user:s3cret@example.com/r.git", "ssh://u:s3cret@example.com/r",
		"oci://u:s3cret@example.com/r:1", "https://2130706433/x", "https://0x7f.1/x", "https://127.1/x", "https://example.0x10/x", "https://127.0.0.01/x",
		"https://[fe80::1%25eth0]/x", "https://-x/", "https://ex%41mple.com/", "https://bücher.example/x",
		"https://example.com/a.tar.gz//sub", "https://example.com/a.tgz//sub", "https://example.com/o/r.git",
		"https://example.com/a?checksum=md5:00", "https://example.com/a?checksum=file:///etc/passwd", "https://example.com/a?checksum=%zz",
		"https://example.com/a?checksum=", "https://example.com/a#s3cret", "https://example.com/a#sha256:" + hex[:63], "https://example.com/a#sha512:" + hex,
		"https://example.com/a?checksum=" + hex + "#sha256:" + strings.Repeat("b", 64),
		"git::https://example.com/r.git?ref=a&sshkey=s3cret", "git::https://example.com/r.git?sshkey=s3cret", "git::https://example.com/r.git?ref=a&ref=b",
		"git::https://example.com/r.git?ref=-x", "git::https://example.com/r.git?ref=a..b", "git::https://example.com/r.git?ref=a%20b",
		"git::https://example.com/r.git//../x", "git::https://example.com/r.git//a/../../x", "git::https://example.com/../r.git",
		"git::https://example.com/r'x", "git::ssh://git@example.com/-oProxyCommand=x", "git@example.com:-x", "git@-x:r", "ssh://-x@example.com/r",
		"git::https://example.com/r.git#sha256:" + hex, "git::https://example.com", "github.com/", "github.com/o", "git::git::https://example.com/r",
		"oci://example.com", "oci://example.com/UPPER:1", "oci://example.com/r:1?x=s3cret", "oci://example.com/r@md5:00", "oci://example.com/../r:1",
		"https://example.com/" + strings.Repeat("x", maxURI),
	} {
		u, err := ParseURI(text)
		if err == nil {
			t.Errorf("%q is taken for %s %s", text, u.Kind, u)
			continue
		}
		wantError(t, err, Terminal, ReasonURIInvalid)
	}
}

func TestMappings(t *testing.T) {
	maps := []Mapping{
		{"https://github.com/", "https://mirror.example/gh/"},
		{"https://github.com/kubeflow/", "https://kf.example/"},
		{"https://github.com/pinned/a.tar.gz", "oci://registry.example/pinned:v1"},
		{"https://plain.example", "http://other.example:8080"},
		{"oci://ghcr.io/o/r", "oci://registry.example/r"},
		{"https://broken.example", "https://127.1"},
	}
	hex := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"https://github.com/o/a.tar.gz?x=1":                "https://mirror.example/gh/o/a.tar.gz?x=1",
		"https://github.com/kubeflow/m/archive/a.tar.gz":   "https://kf.example/m/archive/a.tar.gz",
		"github.com/o/r?ref=v1":                            "https://mirror.example/gh/o/r.git",
		"https://github.com/pinned/a.tar.gz#sha256:" + hex: "oci://registry.example/pinned:v1",
		"https://github.com.evil.example/a":                "https://github.com.evil.example/a",
		"https://plain.example/a":                          "http://other.example:8080/a",
		"https://plain.example.evil.example/a":             "https://plain.example.evil.example/a",
		"https://plain.example:8443/a":                     "https://plain.example:8443/a",
		"oci://ghcr.io/o/r:v2":                             "oci://registry.example/r:v2",
		"oci://ghcr.io/o/rest:v2":                          "oci://ghcr.io/o/rest:v2",
		"https://broken.example/a":                         "",
	} {
		u, err := ParseURI(text)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := rewrite(maps, u)
		if (err != nil) != (want == "") || (err == nil && got.address.String() != want) {
			t.Errorf("%s: %s, %v; want %s", text, got.address.String(), err, want)
		}
		if err == nil && (got.Digest != u.Digest || (got.Kind == KindGit && (got.Ref != u.Ref || got.Dir != u.Dir))) {
			t.Errorf("%s: loses what the user pinned: %+v", text, got)
		}
	}
	for _, text := range []string{"", "https://a.example", "https://a.example=", "=https://a.example", "https://a.example/=https://b.example", "file:///a=https://b", "https://=https://b"} {
		if m, err := ParseMapping(text); err == nil {
			t.Errorf("%q is taken for %+v", text, m)
		}
	}
	if m, err := ParseMapping("https://a.example/=https://b.example/"); err != nil || m.To != "https://b.example/" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := New(Options{Dir: t.TempDir(), Map: []Mapping{{From: "x", To: "y"}}}); err == nil {
		t.Error("a store takes a mapping that is none")
	}
}

func FuzzParseURI(f *testing.F) {
	for _, text := range []string{
		"https://github.com/kubeflow/manifests/archive/v1.2.0.tar.gz?a=1#sha256:" + strings.Repeat("0", 64), "git::https://example.com/o/r.git//d?ref=x",
		"git@github.com:o/r.git", "github.com/o/r/d", "oci://ghcr.io/o/r:v1", "http::http://x/y", "file:///x", "https://u:p@[::1]:1/x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseURI(text)
		if err != nil {
			if e := new(Error); !errors.As(err, &e) || e.Class != Terminal || e.Reason != ReasonURIInvalid {
				t.Fatalf("%v", err)
			}
			return
		}
		if u.address.Hostname() == "" || strings.Contains(u.String(), "?") || strings.Contains(u.Dir, "..") && strings.HasPrefix(u.Dir, "..") {
			t.Errorf("%q gives %s with the folder %q", text, u, u.Dir)
		}
		if _, password := u.address.User.Password(); password || (u.Kind != KindGit && u.address.User != nil) {
			t.Errorf("%q keeps credentials", text)
		}
		if u.Kind == KindGit && strings.ContainsAny(u.address.Path+u.Ref, "'\\\n$`") {
			t.Errorf("%q puts %q into a command", text, u.address.Path)
		}
		// What is asked for reads as the same again.
		again := u.address.String()
		if u.Kind == KindGit {
			again = "git::" + again
		}
		v, err := ParseURI(again)
		if err != nil || v.address.String() != u.address.String() || v.Kind != u.Kind {
			t.Errorf("%q gives %s, which gives %s, %v", text, again, v.address.String(), err)
		}
	})
}
