package source

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // packs end in one
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/server"
	"github.com/go-git/go-git/v5/storage/memory"
)

// repository is one in memory.
type repository struct {
	t       testing.TB
	storage *memory.Storage
}

func newRepository(t testing.TB) *repository {
	return &repository{t: t, storage: memory.NewStorage()}
}

func (r *repository) store(o interface {
	Encode(plumbing.EncodedObject) error
},
) plumbing.Hash {
	r.t.Helper()
	raw := r.storage.NewEncodedObject()
	if err := o.Encode(raw); err != nil {
		r.t.Fatal(err)
	}
	return r.raw(raw)
}

func (r *repository) raw(o plumbing.EncodedObject) plumbing.Hash {
	hash, err := r.storage.SetEncodedObject(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return hash
}

func (r *repository) blob(text string) plumbing.Hash {
	o := r.storage.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, _ := o.Writer()
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return r.raw(o)
}

func (r *repository) tree(entries ...object.TreeEntry) plumbing.Hash {
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return cmp.Compare(a.Name, b.Name) })
	return r.store(&object.Tree{Entries: entries})
}

func (r *repository) entry(name, text string) object.TreeEntry {
	return object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: r.blob(text)}
}

func (r *repository) dir(name string, entries ...object.TreeEntry) object.TreeEntry {
	return object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: r.tree(entries...)}
}

func (r *repository) commit(tree plumbing.Hash) plumbing.Hash {
	return r.store(&object.Commit{TreeHash: tree, Message: "m"})
}

func (r *repository) ref(name string, hash plumbing.Hash) {
	if err := r.storage.SetReference(plumbing.NewHashReference(plumbing.ReferenceName(name), hash)); err != nil {
		r.t.Fatal(err)
	}
}

// sample fills the repository with a default branch, another one, and tags of both kinds.
func (r *repository) sample() (first, second plumbing.Hash) {
	first = r.commit(r.tree(
		r.entry("README.md", "read me"), r.dir("kfdef", r.entry("a.yaml", "a: 1"), r.dir("deep", r.entry("b.yaml", "b: 1"))),
		object.TreeEntry{Name: "run.sh", Mode: filemode.Executable, Hash: r.blob("#!")},
		object.TreeEntry{Name: "link", Mode: filemode.Symlink, Hash: r.blob("/etc/passwd")},
		object.TreeEntry{Name: "module", Mode: filemode.Submodule, Hash: plumbing.NewHash(strings.Repeat("1", 40))}))
	second = r.commit(r.tree(r.entry("second", "2")))
	tag := r.store(&object.Tag{Name: "v2", Target: second, TargetType: plumbing.CommitObject})
	r.ref("refs/heads/main", first)
	r.ref("refs/heads/next", second)
	r.ref("refs/heads/v1", second)
	r.ref("refs/heads/"+second.String(), first)
	r.ref("refs/tags/v1", first)
	r.ref("refs/tags/v2", tag)
	if err := r.storage.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, "refs/heads/main")); err != nil {
		r.t.Fatal(err)
	}
	return first, second
}

// session is the server's side of a fetch from the repository.
func (r *repository) session() transport.UploadPackSession {
	at := &transport.Endpoint{Protocol: "file", Path: "/r"}
	s, err := server.NewServer(server.MapLoader{at.String(): storer.Storer(r.storage)}).NewUploadPackSession(at, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// handler serves the repository over HTTP, as far as this package asks.
func (r *repository) handler(packs *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		s := r.session()
		if strings.HasSuffix(q.URL.Path, "/info/refs") {
			refs, err := s.AdvertisedReferencesContext(q.Context())
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			refs.Prefix = [][]byte{[]byte("# service=git-upload-pack"), {}}
			_ = refs.Encode(w)
			return
		}
		packs.Add(1)
		want := packp.NewUploadPackRequest()
		if err := want.Decode(q.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer, err := s.UploadPack(q.Context(), want)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = answer.Encode(w)
	}
}

var sampled = map[string]string{"README.md": "read me", "kfdef/a.yaml": "a: 1", "kfdef/deep/b.yaml": "b: 1", "run.sh": "#!"}

func TestGitRepositoriesAreFetched(t *testing.T) {
	r := newRepository(t)
	first, second := r.sample()
	var packs atomic.Int32
	web := serve(t, false, r.handler(&packs))
	s := open(t, nil)
	uri := "git::" + web.URL + "/o/r.git"
	next := map[string]string{"second": "2"}
	for _, c := range []struct {
		tail, revision string
		commit         plumbing.Hash
		want           map[string]string
		skipped        int
	}{
		{"", "HEAD", first, sampled, 2},
		{"?ref=main", "main", first, sampled, 2},
		{"?ref=refs/heads/next", "refs/heads/next", second, next, 0},
		{"?ref=v1", "v1", first, sampled, 2},
		{"?ref=v2", "v2", second, next, 0},
		{"?ref=" + second.String(), "commit", second, next, 0},
		{"//kfdef", "HEAD", first, map[string]string{"a.yaml": "a: 1", "deep/b.yaml": "b: 1"}, 0},
		{"//kfdef/deep/?ref=main", "main", first, map[string]string{"b.yaml": "b: 1"}, 0},
	} {
		for range 2 {
			a, err := fetch(t, s, Request{URI: uri + c.tail})
			if err != nil {
				t.Fatalf("%s: %v", c.tail, err)
			}
			wantContents(t, a, c.want)
			if a.Digest != c.commit.String() || a.Revision != c.revision+"@"+a.Digest || a.Skipped != c.skipped || !sha256Hex.MatchString(a.ID) {
				t.Errorf("%s: %+v", c.tail, a)
			}
		}
	}
	if packs.Load() != 5 {
		t.Errorf("%d packs for two commits, an annotated tag and two folders", packs.Load())
	}
	for tail, reason := range map[string]string{
		"?ref=none": ReasonNotFound, "//none": ReasonNotFound, "//README.md": ReasonNotFound, "?ref=" + strings.Repeat("0", 39) + "1": "",
	} {
		_, err := fetch(t, s, Request{URI: uri + tail})
		if reason == "" {
			reason = ReasonServerError
			wantError(t, err, Transient, reason)
			continue
		}
		wantError(t, err, Terminal, reason)
	}
	// Another server's word for the same commit is another tree.
	elsewhere := serve(t, false, r.handler(&packs))
	a, err := fetch(t, s, Request{URI: uri})
	b, otherErr := fetch(t, s, Request{URI: "git::" + elsewhere.URL + "/o/r.git"})
	if err != nil || otherErr != nil || a.ID == b.ID || a.Digest != b.Digest {
		t.Errorf("%+v, %v; %+v, %v", a, err, b, otherErr)
	}
	// A commit is asked for once; nobody need be there afterwards.
	web.Close()
	if _, err := fetch(t, s, Request{URI: uri + "?ref=" + second.String()}); err != nil {
		t.Error(err)
	}
	_, err = fetch(t, s, Request{URI: uri})
	wantError(t, err, Transient, ReasonUnreachable)
}

func TestGitServersThatFail(t *testing.T) {
	r := newRepository(t)
	r.sample()
	var packs atomic.Int32
	good := r.handler(&packs)
	empty := newRepository(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  Class
		reason string
	}{
		"404":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, Terminal, ReasonNotFound},
		"401":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, Terminal, ReasonUnauthorized},
		"500":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, Transient, ReasonServerError},
		"a page":  {static([]byte("<html>s3cret")), Terminal, ReasonRejected},
		"no refs": {empty.handler(&packs), Terminal, ReasonNotFound},
		"endless refs": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("001e# service=git-upload-pack\n0000003c" + strings.Repeat("1", 40) + " HEAD\x00ofs-delta\n"))
			endless(w, "0044"+strings.Repeat("1", 40)+" refs/heads/x1234567890\n")
		}, Terminal, ReasonTooLarge},
		"429 for the pack":  {failing(good, func(w http.ResponseWriter) { w.WriteHeader(429) }), Transient, ReasonServerError},
		"no pack":           {failing(good, func(w http.ResponseWriter) { w.WriteHeader(200) }), Terminal, ReasonNotFound},
		"text for the pack": {failing(good, func(w http.ResponseWriter) { _, _ = w.Write([]byte("0008NAK\ns3cret")) }), Terminal, ReasonArchiveInvalid},
		"much before the pack": {failing(good, func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(strings.Repeat(line("ACK "+strings.Repeat("1", 40)+"\n"), 5000) + "s3cret"))
		}), Terminal, ReasonRejected},
		"an endless pack": {failing(good, func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("0008NAK\nPACK\x00\x00\x00\x02\x00\x00\x00\x01\xbf\xff\xff\x0f"))
			z := zlib.NewWriter(w)
			noise := make([]byte, 1<<21)
			_, _ = rand.Read(noise)
			_, _ = z.Write(noise)
		}), Terminal, ReasonTooLarge},
		"a pack that is cut": {failing(good, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(append([]byte("0008NAK\n"), packOf(entryOf(3, []byte("x")))[:14]...))
		}), Transient, ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			web := serve(t, false, c.answer)
			s := open(t, func(o *Options) { o.Limits.Archive = 1 << 20 })
			_, err := fetch(t, s, Request{URI: "git::" + web.URL + "/r.git"})
			wantError(t, err, c.class, c.reason)
			wantEmpty(t, s)
		})
	}
}

// TestABranchThatMovesMeanwhileIsAskedForAgain has a server that lists a branch and has given up its commit when the pack is asked for. A commit
// that the URI names is not given a moment later either.
func TestABranchThatMovesMeanwhileIsAskedForAgain(t *testing.T) {
	r := newRepository(t)
	first, _ := r.sample()
	var packs atomic.Int32
	good := r.handler(&packs)
	moved := true
	web := serve(t, false, func(w http.ResponseWriter, q *http.Request) {
		if moved && q.Method != http.MethodGet {
			_, _ = w.Write([]byte(line("ERR upload-pack: not our ref " + first.String())))
			return
		}
		good(w, q)
	})
	s := open(t, nil)
	for _, tail := range []string{"", "?ref=main", "?ref=v1"} {
		_, err := fetch(t, s, Request{URI: "git::" + web.URL + "/r.git" + tail})
		wantError(t, err, Transient, ReasonServerError)
	}
	_, err := fetch(t, s, Request{URI: "git::" + web.URL + "/r.git?ref=" + first.String()})
	wantError(t, err, Terminal, ReasonNotFound)
	moved = false
	a, err := fetch(t, s, Request{URI: "git::" + web.URL + "/r.git?ref=main"})
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, sampled)
}

func endless(w interface{ Write([]byte) (int, error) }, text string) {
	for range 1 << 18 {
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
	}
}

// failing serves the refs, but another answer for the pack.
func failing(good http.HandlerFunc, answer func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			good(w, r)
			return
		}
		answer(w)
	}
}

func TestGitCredentialsStayWithTheirOrigin(t *testing.T) {
	r := newRepository(t)
	r.sample()
	var packs atomic.Int32
	var stray atomic.Value
	good := r.handler(&packs)
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if text := q.Header.Get("Authorization"); text != "" {
			stray.Store(text)
		}
		good(w, q)
	}))
	other.StartTLS()
	defer other.Close()
	origin := serve(t, true, func(w http.ResponseWriter, q *http.Request) {
		if _, password, _ := q.BasicAuth(); password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasPrefix(q.URL.Path, "/moved") {
			http.Redirect(w, q, other.URL+q.URL.RequestURI(), http.StatusFound)
			return
		}
		good(w, q)
	})
	s := open(t, nil)
	auth := Auth{Username: "me", Password: "s3cret", CA: append(caOf(origin), caOf(other)...)}
	for _, path := range []string{"/r.git", "/moved/r.git"} {
		if _, err := fetch(t, s, Request{URI: "git::" + origin.URL + path, Auth: auth}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if stray.Load() != nil {
		t.Errorf("another host saw %v", stray.Load())
	}
	auth.Password = "wrong"
	_, err := fetch(t, s, Request{URI: "git::" + origin.URL + "/r.git", Auth: auth})
	wantError(t, err, Terminal, ReasonUnauthorized)
}

// entryOf is an object of a pack, of one of git's numbered kinds.
func entryOf(kind byte, content []byte, before ...byte) []byte {
	size := len(content)
	out := []byte{kind<<4 | byte(size&0xf)}
	for size >>= 4; size > 0; size >>= 7 {
		out[len(out)-1] |= 0x80
		out = append(out, byte(size&0x7f))
	}
	out = append(out, before...)
	var zip bytes.Buffer
	w := zlib.NewWriter(&zip)
	_, _ = w.Write(content)
	_ = w.Close()
	return append(out, zip.Bytes()...)
}

func packOf(entries ...[]byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(entries)))
	for _, e := range entries {
		out = append(out, e...)
	}
	sum := sha1.Sum(out) //nolint:gosec // packs end in one
	return append(out, sum[:]...)
}

// numbers are two numbers as a delta begins with.
func numbers(list ...uint64) []byte {
	var out []byte
	for _, n := range list {
		out = binary.AppendUvarint(out, n)
	}
	return out
}

func TestPacks(t *testing.T) {
	base := []byte("0123456789")
	hash := plumbing.ComputeHash(plumbing.BlobObject, base)
	blob := entryOf(3, base)
	// Copy ten bytes from the start, then two more.
	delta := append(numbers(10, 12), 0x90, 10, 2, 'a', 'b')
	offset := byte(len(blob))
	// A delta of a few bytes that makes a megabyte of ten: copied over and over.
	bomb := numbers(10, 100_000)
	for range 10_000 {
		bomb = append(bomb, 0x90, 10)
	}
	for name, c := range map[string]struct {
		data   []byte
		reason string
		limits Limits
	}{
		"a delta by offset":            {packOf(blob, entryOf(6, delta, offset)), "", Limits{}},
		"a delta by name":              {packOf(blob, entryOf(7, delta, hash[:]...)), "", Limits{}},
		"a delta before its base":      {packOf(entryOf(7, delta, hash[:]...), blob), ReasonArchiveInvalid, Limits{}},
		"a delta of itself":            {packOf(blob, entryOf(6, delta, 0)), ReasonArchiveInvalid, Limits{}},
		"a delta of nothing":           {packOf(blob, entryOf(6, delta, offset-1)), ReasonArchiveInvalid, Limits{}},
		"a delta of another base":      {packOf(blob, entryOf(6, append(numbers(11, 12), delta[2:]...), offset)), ReasonArchiveInvalid, Limits{}},
		"a delta that ends early":      {packOf(blob, entryOf(6, delta[:4], offset)), ReasonArchiveInvalid, Limits{}},
		"a delta without sizes":        {packOf(blob, entryOf(6, []byte{0xff, 0xff}, offset)), ReasonArchiveInvalid, Limits{}},
		"a delta with endless sizes":   {packOf(blob, entryOf(6, bytes.Repeat([]byte{0xff}, 20), offset)), ReasonArchiveInvalid, Limits{}},
		"a delta that makes too much":  {packOf(blob, entryOf(6, numbers(10, 1<<34), offset)), ReasonTooLarge, Limits{}},
		"a delta that makes much":      {packOf(blob, entryOf(6, bomb, offset)), ReasonTooLarge, Limits{File: 50_000}},
		"deltas that make much":        {packOf(blob, entryOf(6, bomb, offset), entryOf(7, bomb, hash[:]...)), ReasonTooLarge, Limits{Unpacked: 150_000}},
		"an object larger than files":  {packOf(entryOf(3, make([]byte, 1000))), ReasonTooLarge, Limits{File: 999}},
		"more than it says":            {packOf(append([]byte{0x30 | 5}, blob[1:]...)), ReasonArchiveInvalid, Limits{}},
		"less than it says":            {packOf(append([]byte{0x30 | 11}, blob[1:]...)), ReasonArchiveInvalid, Limits{}},
		"an unknown kind":              {packOf(entryOf(5, base)), ReasonArchiveInvalid, Limits{}},
		"more objects than entries":    {packOf(blob, blob, blob), ReasonTooLarge, Limits{Entries: 1}},
		"fewer objects than announced": {packOf(blob)[:12+len(blob)], "", Limits{}},
		"a wrong checksum":             {append(packOf(blob)[:12+len(blob)], make([]byte, 20)...), ReasonArchiveInvalid, Limits{}},
		"another version":              {[]byte("PACK\x00\x00\x00\x09\x00\x00\x00\x00"), ReasonArchiveInvalid, Limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Limits: c.limits}
			o.setDefaults()
			p, err := newPack(filepath.Join(t.TempDir(), "objects"), o.Limits)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			err = p.read(context.Background(), bytes.NewReader(c.data))
			switch {
			case strings.HasPrefix(name, "fewer"):
				wantError(t, err, Transient, ReasonUnreachable)
			case c.reason != "":
				wantError(t, err, Terminal, c.reason)
			case err != nil:
				t.Fatal(err)
			default:
				made := plumbing.ComputeHash(plumbing.BlobObject, []byte("0123456789ab"))
				if content, err := p.content(p.byHash[made]); err != nil || string(content) != "0123456789ab" {
					t.Errorf("%q, %v", content, err)
				}
			}
			if p.end > o.Limits.Unpacked {
				t.Errorf("%d bytes were written", p.end)
			}
		})
	}
}

func TestTreesOfGitThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		entries func(r *repository) []object.TreeEntry
		reason  string
	}{
		"a way out":    {func(r *repository) []object.TreeEntry { return []object.TreeEntry{r.entry("..", "x")} }, ReasonArchiveInvalid},
		"a folder out": {func(r *repository) []object.TreeEntry { return []object.TreeEntry{r.dir("..", r.entry("x", "x"))} }, ReasonArchiveInvalid},
		"nothing":      {func(*repository) []object.TreeEntry { return nil }, ReasonArchiveInvalid},
		"links alone": {func(r *repository) []object.TreeEntry {
			return []object.TreeEntry{{Name: "l", Mode: filemode.Symlink, Hash: r.blob("x")}}
		}, ReasonArchiveInvalid},
		"a file twice": {func(r *repository) []object.TreeEntry {
			return []object.TreeEntry{r.entry("x", "1"), r.dir("x", r.entry("y", "2"))}
		}, ReasonArchiveInvalid},
		"a tree's bomb": {bombOf, ReasonTooLarge},
		"a deep tree":   {deepOf, ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.ref("refs/heads/main", r.commit(r.tree(c.entries(r)...)))
			var packs atomic.Int32
			web := serve(t, false, r.handler(&packs))
			s := open(t, func(o *Options) { o.Limits.Entries = 2000 })
			_, err := fetch(t, s, Request{URI: "git::" + web.URL + "/r.git?ref=main"})
			wantError(t, err, Terminal, c.reason)
			wantEmpty(t, s)
		})
	}
}

// bombOf holds ten times a folder that holds ten times a folder, and so on: ten objects, ten thousand million files.
func bombOf(r *repository) []object.TreeEntry {
	entries := []object.TreeEntry{r.entry("f", "x")}
	for range 10 {
		same := r.tree(entries...)
		entries = nil
		for i := range 10 {
			entries = append(entries, object.TreeEntry{Name: fmt.Sprint(i), Mode: filemode.Dir, Hash: same})
		}
	}
	return entries
}

func deepOf(r *repository) []object.TreeEntry {
	e := r.entry("f", "x")
	for range maxDepth + 1 {
		e = r.dir("d", e)
	}
	return []object.TreeEntry{e}
}

// TestRealGit fetches from the real server's side of git: shallow, with deltas and a sideband, which go-git's lacks.
func TestRealGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("the server's side needs git: %v", err)
	}
	bare := filepath.Join(t.TempDir(), "r.git")
	work := t.TempDir()
	run := func(dir string, args ...string) string {
		t.Helper()
		c := exec.Command(git, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run(work, "init", "-q", "-b", "main")
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "line %d: %x\n", i, i*i*i)
	}
	want := map[string]string{}
	for i := range 5 {
		name := fmt.Sprintf("d/%d.yaml", i)
		want[name] = long.String() + fmt.Sprint(i)
		if err := os.MkdirAll(filepath.Join(work, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(want[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		run(work, "add", ".")
		run(work, "commit", "-q", "-m", name)
		run(work, "tag", "-a", "-m", "t", fmt.Sprintf("v%d", i))
	}
	old, head := run(work, "rev-parse", "HEAD~2"), run(work, "rev-parse", "HEAD")
	run(work, "clone", "-q", "--bare", work, bare)
	run(bare, "repack", "-adfq")
	web := serve(t, false, (&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}).ServeHTTP)
	s := open(t, nil)
	uri := "git::" + web.URL + "/r.git"
	for _, tail := range []string{"", "?ref=main", "?ref=v4", "?ref=" + head} {
		a, err := fetch(t, s, Request{URI: uri + tail})
		if err != nil {
			t.Fatalf("%s: %v", tail, err)
		}
		wantContents(t, a, want)
		if a.Digest != head {
			t.Errorf("%s: %+v", tail, a)
		}
	}
	a, err := fetch(t, s, Request{URI: uri + "//d?ref=v2"})
	if err != nil || a.Digest != old || a.Files != 3 {
		t.Errorf("%+v, %v", a, err)
	}
	_, err = fetch(t, s, Request{URI: uri + "?ref=" + strings.Repeat("1", 40)})
	wantError(t, err, Terminal, ReasonNotFound)
	_, err = fetch(t, s, Request{URI: "git::" + web.URL + "/none.git"})
	wantError(t, err, Terminal, ReasonNotFound)
}
