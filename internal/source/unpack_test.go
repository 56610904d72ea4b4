package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchives shows what is unpacked, and how, of archives that kfctl unpacked in other ways or not at all.
func TestArchives(t *testing.T) {
	for name, c := range map[string]struct {
		members []member
		want    map[string]string
		skipped int
	}{
		"a single folder at the top is stripped, the global header is no entry": {
			members: []member{{name: "pax_global_header", kind: tar.TypeXGlobalHeader, body: "c"}, folder("m-1/"), folder("m-1/d/"), file("m-1/d/a.yaml", "a")},
			want:    map[string]string{"d/a.yaml": "a"},
		},
		"a flat archive is not stripped, README first or not": {
			members: []member{file("README.md", "r"), folder("kfdef/"), file("kfdef/a.yaml", "a")},
			want:    map[string]string{"README.md": "r", "kfdef/a.yaml": "a"},
		},
		"several folders are not stripped": {
			members: []member{file("a/x", "1"), file("b/x", "2")},
			want:    map[string]string{"a/x": "1", "b/x": "2"},
		},
		"a single file is not stripped": {members: []member{file("a.yaml", "a")}, want: map[string]string{"a.yaml": "a"}},
		"folders without entries are made": {
			members: []member{file("m/a/b/c.yaml", "c"), file("m/a/d.yaml", "d")},
			want:    map[string]string{"a/b/c.yaml": "c", "a/d.yaml": "d"},
		},
		"entries that begin with a dot": {
			members: []member{folder("./"), folder("./m/"), file("./m/.hidden", "h"), file("./m//x/./y", "y")},
			want:    map[string]string{".hidden": "h", "x/y": "y"},
		},
		"links, devices and pipes are skipped, not followed": {
			members: []member{
				{name: "m/passwd", kind: tar.TypeSymlink, link: "/etc/passwd"},
				{name: "m/out", kind: tar.TypeSymlink, link: "../../.."},
				file("m/out/planted", "p"),
				{name: "m/hard", kind: tar.TypeLink, link: "m/a.yaml"},
				{name: "m/null", kind: tar.TypeChar},
				{name: "m/disk", kind: tar.TypeBlock},
				{name: "m/pipe", kind: tar.TypeFifo},
				file("m/a.yaml", "a"),
			},
			want: map[string]string{"a.yaml": "a", "out/planted": "p"}, skipped: 6,
		},
		"a later entry replaces an earlier one": {members: []member{file("m/a", "long text"), file("m/a", "2")}, want: map[string]string{"a": "2"}},
		"an empty file":                         {members: []member{file("m/a", "")}, want: map[string]string{"a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			data := tarball(t, c.members...)
			a, err := s.Unpack(context.Background(), "ConfigMap ns/n", data)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			wantContents(t, a, c.want)
			if a.Skipped != c.skipped || a.Files != len(c.want) || a.ID != sumOf(data) || a.Digest != "sha256:"+a.ID || a.Size <= 0 {
				t.Errorf("%+v", a)
			}
			_ = filepath.WalkDir(s.options.Dir, func(name string, _ fs.DirEntry, err error) error {
				if info, statErr := os.Lstat(name); err != nil || statErr != nil || info.Mode()&^(fs.ModeDir|0o700) != 0 {
					t.Errorf("%s has the mode %v, %v", name, info.Mode(), statErr)
				}
				return nil
			})
		})
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	good := forge(t)
	zipped := func(data []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(data)
		_ = w.Close()
		return out.Bytes()
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 0xff
	for name, c := range map[string]struct {
		data   []byte
		reason string
	}{
		"no bytes":            {nil, ReasonArchiveInvalid},
		"one byte":            {[]byte{0x1f}, ReasonArchiveInvalid},
		"no gzip":             {[]byte("text"), ReasonArchiveInvalid},
		"a page":              {[]byte("<!DOCTYPE html><html>log in</html>"), ReasonArchiveInvalid},
		"a zip":               {[]byte("PK\x03\x04aaaa"), ReasonArchiveInvalid},
		"a header alone":      {good[:10], ReasonArchiveInvalid},
		"cut":                 {good[:len(good)/2], ReasonArchiveInvalid},
		"a wrong checksum":    {flipped, ReasonArchiveInvalid},
		"more behind it":      {append(bytes.Clone(good), "text"...), ReasonArchiveInvalid},
		"no tar":              {zipped([]byte(strings.Repeat("text", 1000))), ReasonArchiveInvalid},
		"an empty tar":        {tarball(t), ReasonArchiveInvalid},
		"nothing at all":      {zipped(nil), ReasonArchiveInvalid},
		"folders alone":       {tarball(t, folder("a/"), folder("a/b/")), ReasonArchiveInvalid},
		"links alone":         {tarball(t, member{name: "a", kind: tar.TypeSymlink, link: "b"}), ReasonArchiveInvalid},
		"a way out":           {tarball(t, file("../x", "x")), ReasonArchiveInvalid},
		"a way out inside":    {tarball(t, file("m/a/../../../x", "x")), ReasonArchiveInvalid},
		"dots that stay":      {tarball(t, file("m/a/../x", "x")), ReasonArchiveInvalid},
		"an absolute path":    {tarball(t, file("/etc/x", "x")), ReasonArchiveInvalid},
		"a folder outside":    {tarball(t, folder("../x/"), file("a", "")), ReasonArchiveInvalid},
		"a link outside":      {tarball(t, member{name: "../x", kind: tar.TypeSymlink, link: "y"}), ReasonArchiveInvalid},
		"a file as a folder":  {tarball(t, file("a", "1"), file("a/b", "2")), ReasonArchiveInvalid},
		"a folder as a file":  {tarball(t, file("a/b", "1"), file("a", "2")), ReasonArchiveInvalid},
		"no name":             {tarball(t, file(".", "1")), ReasonArchiveInvalid},
		"a control character": {tarball(t, file("a\x1bb", "1")), ReasonArchiveInvalid},
		"no UTF-8":            {tarball(t, file("a\xff", "1")), ReasonArchiveInvalid},
		"a long name":         {tarball(t, file(strings.Repeat("x", 256), "1")), ReasonArchiveInvalid},
		"a long path":         {tarball(t, file(strings.Repeat("xxxxxxxxx/", 103)+"x", "1")), ReasonTooLarge},
		"a deep path":         {tarball(t, file(strings.Repeat("x/", 64)+"x", "1")), ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			_, err := s.Unpack(context.Background(), "ConfigMap ns/n", c.data)
			wantError(t, err, Terminal, c.reason)
			if err != nil && !strings.HasPrefix(err.Error(), "ConfigMap ns/n: ") {
				t.Errorf("does not say what it is about: %v", err)
			}
			wantEmpty(t, s)
		})
	}
}

// wantEmpty says that a failure left nothing behind, in the store or beside it.
func wantEmpty(t *testing.T, s *Store) {
	t.Helper()
	left, err := os.ReadDir(s.options.Dir)
	if err != nil || len(left) != 1 || left[0].Name() != lockName || s.size != 0 || len(s.entries) != 0 {
		t.Errorf("left behind: %v, %d bytes, %v", left, s.size, err)
	}
	around, err := os.ReadDir(filepath.Dir(s.options.Dir))
	if err != nil || len(around) != 1 {
		t.Errorf("beside the store: %v, %v", around, err)
	}
}

func TestBombs(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20)
	var many, wide []member
	for i := range 60 {
		many = append(many, file(fmt.Sprintf("m/%d", i), "x"))
		wide = append(wide, file(strings.Repeat(fmt.Sprintf("%d/", i), 20)+"x", "x"))
	}
	for name, c := range map[string]struct {
		members []member
		limits  Limits
	}{
		"more bytes than all may have":   {[]member{file("a", zeros), file("b", zeros)}, Limits{Unpacked: 1 << 20}},
		"one file larger than it may be": {[]member{file("a", zeros)}, Limits{File: 1 << 19}},
		"a ratio that no text has":       {[]member{file("a", strings.Repeat(zeros, 17))}, Limits{}},
		"a ratio of skipped entries": {[]member{
			{name: "a", kind: tar.TypeSymlink, link: "b"}, file("a", strings.Repeat(zeros, 17)),
		}, Limits{Ratio: 2}},
		"more entries than it may have":     {many, Limits{Entries: 50}},
		"more folders than it may have":     {wide, Limits{Entries: 500}},
		"more skipped than it may have":     {[]member{{name: "a", kind: tar.TypeSymlink, link: "b"}, file("x", "x")}, Limits{Entries: 1}},
		"an archive larger than it may be":  {[]member{file("a", "x")}, Limits{Archive: 20}},
		"global headers beyond all entries": {[]member{{name: "g", kind: tar.TypeXGlobalHeader, body: "c"}, {name: "g", kind: tar.TypeXGlobalHeader, body: "c"}}, Limits{Entries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(o *Options) { o.Limits = c.limits })
			_, err := s.Unpack(context.Background(), "x", tarball(t, c.members...))
			wantError(t, err, Terminal, ReasonTooLarge)
			wantEmpty(t, s)
		})
	}
	// Just within the limits is no bomb.
	s := open(t, func(o *Options) { o.Limits = Limits{File: 1 << 20, Entries: 62} })
	for _, data := range [][]byte{tarball(t, file("a", zeros)), tarball(t, many...)} {
		a, err := s.Unpack(context.Background(), "x", data)
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
}

// TestPathsAreBounded fills a tree with few files whose paths would take all memory, and with as many that have short ones.
func TestPathsAreBounded(t *testing.T) {
	o := Options{}
	o.setDefaults()
	for _, folder := range []string{strings.Repeat(strings.Repeat("f", maxName)+"/", 3), "f/"} {
		to, err := newTree(filepath.Join(t.TempDir(), "content"), o.Limits)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; err == nil && i < maxPaths/maxName/3; i++ {
			err = to.add(fmt.Sprint(folder, i), strings.NewReader(""))
		}
		if err = errors.Join(err, to.close()); len(folder) > maxName {
			wantError(t, err, Terminal, ReasonTooLarge)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestSparseFilesAreBounded unpacks an archive of two small blocks that stand for 60 MiB of zeros.
func TestSparseFilesAreBounded(t *testing.T) {
	h := make([]byte, 512)
	for at, text := range map[int]string{
		0: "hole", 100: "0000644\x00", 108: "0000000\x00", 116: "0000000\x00", 124: "00000000000\x00", 136: "00000000000\x00", 156: "S",
		257: "ustar  \x00", 386: "00360000000\x00" + "00000000000\x00", 483: "00360000000\x00", 148: "        ",
	} {
		copy(h[at:], text)
	}
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	archive := repack(append(h, make([]byte, 1024)...))
	s := open(t, nil)
	_, err := s.Unpack(context.Background(), "x", archive)
	wantError(t, err, Terminal, ReasonTooLarge)
	wantEmpty(t, s)
	a, err := open(t, func(o *Options) { o.Limits.Ratio = 1 << 20 }).Unpack(context.Background(), "x", archive)
	if err != nil {
		t.Fatalf("the archive of this test is not sparse: %v", err)
	}
	a.Close()
}

func TestUnpackEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := open(t, nil)
	_, err := s.Unpack(ctx, "x", forge(t))
	wantError(t, err, Transient, ReasonUnreachable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is no cancellation", err)
	}
	wantEmpty(t, s)
}

func FuzzUnpack(f *testing.F) {
	f.Add(forge(f))
	f.Add(tarball(f, member{name: "m/l", kind: tar.TypeSymlink, link: "/"}, file("m/l/x", "x"), file("../x", "x")))
	f.Add(tarball(f, file("a", "1"), file("a/b", "2")))
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := open(t, func(o *Options) { o.Limits = Limits{Unpacked: 1 << 20, Entries: 200} })
		// The fuzzer finds paths sooner where it need not get a checksum right.
		for _, archive := range [][]byte{data, repack(data)} {
			a, err := s.Unpack(context.Background(), "x", archive)
			if err != nil {
				if e := new(Error); !errors.As(err, &e) || e.Class != Terminal {
					t.Fatalf("%v", err)
				}
				continue
			}
			if a.Files == 0 || len(contents(t, a)) != a.Files {
				t.Errorf("%d files: %v", a.Files, contents(t, a))
			}
			a.Close()
		}
		around, err := os.ReadDir(filepath.Dir(s.options.Dir))
		if err != nil || len(around) != 1 {
			t.Errorf("beside the store: %v, %v", around, err)
		}
	})
}

// repack takes bytes for a tar.
func repack(data []byte) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write(data)
	_ = zip.Close()
	return out.Bytes()
}
