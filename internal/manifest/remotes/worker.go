package remotes

import (
	"errors"
	"strings"

	"mlkeeper.dev/internal/manifest/worker"
)

// kind is the kind of the workers that look for addresses.
const kind = "addresses"

func init() { worker.Serve(kind, work) }

// job is what a worker does: it resolves the addresses of a KfDef as far as they were fetched.
type job struct {
	// Repos are the names of the trees of the repositories.
	Repos        []string
	Applications []Application
	FileName     string
	Moving       bool
	Fetched      []fetched
	// Given says of applications, by their place, that they are given up.
	Given map[int]bool
}

// fetched is what was fetched: a tree of the parent, or why there is none.
type fetched struct{ URI, Tree, Error string }

// The methods by which a worker tells what it does.
const (
	// methodBegin says that it begins with an application, methodMissing which entries are to be fetched before the rest can be told.
	methodBegin, methodMissing = "begin", "missing"
	// methodFailed says why an application cannot be resolved.
	methodFailed = "failed"
	// methodWritten sends a file in place of one of a repository, methodLinked says that one is a file that was fetched, and
	// methodMounted that a folder is a repository that was fetched.
	methodWritten, methodLinked, methodMounted = "written", "linked", "mounted"
)

// maxError bounds the text of a failure, in bytes.
const maxError = 4 << 10

// failure is why an application cannot be resolved. URI is what could not be fetched; empty where it is another cause.
type failure struct {
	Application int
	Error, URI  string
}

// written is a file in place of one of a repository.
type written struct {
	Repo, Path string
	Content    []byte
}

// placed is what was fetched as a file or a folder of a repository.
type placed struct{ Repo, Path, URI string }

// fetchError is why something could not be fetched.
type fetchError struct{ uri, text string }

func (e *fetchError) Error() string { return e.text }

// work is the life of a worker.
func work(c *worker.Parent) error {
	var j job
	if err := c.Read(&j); err != nil {
		return err
	}
	r := &resolver{fileName: j.FileName, moving: j.Moving, fetched: map[string]result{}, missing: map[string]bool{}}
	for _, f := range j.Fetched {
		if f.Error != "" {
			r.fetched[f.URI] = result{err: &fetchError{f.URI, f.Error}}
			continue
		}
		r.fetched[f.URI] = result{tree: c.Tree(f.Tree)}
	}
	trees := map[string]*tree{}
	for _, name := range j.Repos {
		trees[name] = r.tree(c.Tree(repoTree(name)))
	}
	var failed []failure
	for i, a := range j.Applications {
		if j.Given[i] || trees[a.Repo] == nil {
			continue
		}
		if _, err := worker.Call[bool](c, methodBegin, i); err != nil {
			return err
		}
		if err := c.NextStep(); err != nil {
			return err
		}
		if err := trees[a.Repo].resolveAll(a.Dirs); err != nil {
			text := err.Error() // It may quote what a file has, of any length.
			f := failure{Application: i, Error: strings.ToValidUTF8(text[:min(len(text), maxError)], "")}
			if cause := new(fetchError); errors.As(err, &cause) {
				f.URI = cause.uri
			}
			failed = append(failed, f)
		}
	}
	if len(r.entries) > 0 {
		_, err := worker.Call[bool](c, methodMissing, r.entries)
		return err
	}
	return tell(c, trees, failed)
}

// resolveAll resolves the addresses that folders reach. What is yet to be fetched is none of its errors.
func (t *tree) resolveAll(dirs []string) error {
	for _, dir := range dirs {
		if err := t.resolve(dir); err != nil && !errors.Is(err, errMissing) {
			return err
		}
	}
	return nil
}

// tell sends what became of everything.
func tell(c *worker.Parent, trees map[string]*tree, failed []failure) error {
	for _, f := range failed {
		if _, err := worker.Call[bool](c, methodFailed, f); err != nil {
			return err
		}
	}
	for name, t := range trees {
		for at, content := range t.files.written {
			if _, err := worker.Call[bool](c, methodWritten, written{name, at, content}); err != nil {
				return err
			}
		}
		for at, uri := range t.linked {
			if _, err := worker.Call[bool](c, methodLinked, placed{name, at, uri}); err != nil {
				return err
			}
		}
		for uri, at := range t.names {
			if _, err := worker.Call[bool](c, methodMounted, placed{name, at, uri}); err != nil {
				return err
			}
		}
	}
	return nil
}
