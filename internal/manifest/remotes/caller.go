package remotes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"mlkeeper.dev/internal/manifest/worker"
)

// ErrUnavailable says that nothing could be resolved through no fault of the repositories.
var ErrUnavailable = worker.ErrUnavailable

// oneTime is the processor time that an application may take, allTime that of all of a KfDef, with each look at them.
const oneTime, allTime = 10 * time.Second, 30 * time.Second

// Input is what is resolved: the addresses that the applications of one KfDef reach.
type Input struct {
	// Namespace is what the turns of the workers are counted for.
	Namespace string
	// Repos are the repositories by their names.
	Repos        map[string]fs.FS
	Applications []Application
	// Fetch brings what an address names: the tree of a repository, or a tree with the file under FileName. It is called once for each.
	Fetch    func(Address) (fs.FS, error)
	FileName string
	// Moving allows addresses whose content may change, such as branches.
	Moving bool
	// Workers are the processes that look into the kustomizations; nil for those that all share who name none.
	Workers *worker.Pool
}

// Application is where the kustomizations of an application begin. Of one whose repository there is none nothing is resolved.
type Application struct {
	Repo string
	Dirs []string
}

// Output is what became of an Input.
type Output struct {
	// Repos are the repositories with paths in place of the addresses that were resolved, and with what these name.
	Repos map[string]fs.FS
	// Errors say of applications, by their place, why they cannot be resolved.
	Errors map[int]error
}

// Resolve has workers look for addresses, and fetches what they name between one look and the next: no worker waits for a server. The
// error is ErrUnavailable, or of a worker that cannot say what is wrong.
func Resolve(ctx context.Context, in Input) (*Output, error) {
	r := &resolution{in: in, answers: map[string]result{}, given: map[int]error{}}
	for {
		missing, err := r.look(ctx)
		switch {
		case err != nil && (errors.Is(err, ErrUnavailable) || r.one < 0):
			return nil, err
		case err != nil:
			r.giveUp(err)
		case len(missing) == 0:
			return r.output()
		}
		for _, entry := range missing {
			if err := r.fetch(entry); err != nil {
				return nil, err
			}
		}
	}
}

// resolution is an Input that is being resolved.
type resolution struct {
	in Input
	// answers are what became of fetching, by the URI.
	answers map[string]result
	// given are the applications that are given up, and why; one is that which the last worker was at, -1 for none.
	given map[int]error
	one   int
	// spent is the processor time of the workers before, and used that of this one.
	spent, used time.Duration
	// said is what the last worker told.
	said said
}

// said is what a worker told.
type said struct {
	missing         []string
	failed          []failure
	written         []written
	linked, mounted []placed
}

// repoTree is the name of the tree of a repository, which is none of what was fetched.
func repoTree(name string) string { return "repository " + name }

// look has a worker resolve what is known, and returns the entries that are to be fetched before it can tell the rest.
func (r *resolution) look(ctx context.Context) (missing []string, err error) {
	j := job{Applications: r.in.Applications, FileName: r.in.FileName, Moving: r.in.Moving, Given: map[int]bool{}}
	trees := map[string]fs.FS{}
	for name, repo := range r.in.Repos {
		if repo != nil {
			trees[repoTree(name)], j.Repos = repo, append(j.Repos, name)
		}
	}
	for i, uri := range slices.Sorted(maps.Keys(r.answers)) {
		f := fetched{URI: uri, Tree: strconv.Itoa(i)}
		if answer := r.answers[uri]; answer.err != nil {
			f.Error = answer.err.Error()
		} else {
			trees[f.Tree] = answer.tree
		}
		j.Fetched = append(j.Fetched, f)
	}
	for i := range r.given {
		j.Given[i] = true
	}
	r.said, r.one, r.used = said{}, -1, 0
	handlers := map[string]worker.Handler{
		methodBegin:   keep(r, func(i int) { r.one = i }),
		methodMissing: keep(r, func(entries []string) { r.said.missing = entries }),
		methodFailed:  keep(r, func(f failure) { r.said.failed = append(r.said.failed, f) }),
		methodWritten: keep(r, func(w written) { r.said.written = append(r.said.written, w) }),
		methodLinked:  keep(r, func(p placed) { r.said.linked = append(r.said.linked, p) }),
		methodMounted: keep(r, func(p placed) { r.said.mounted = append(r.said.mounted, p) }),
	}
	worker.Trees(trees, handlers)
	pool := r.in.Workers
	if pool == nil {
		pool = worker.Default
	}
	left := max(time.Second, (allTime - r.spent).Truncate(time.Second))
	err = pool.Run(ctx, worker.Job{
		Kind: kind, Namespace: r.in.Namespace, Input: j, Handlers: handlers, StepTime: min(oneTime, left), TotalTime: left,
	})
	r.spent += r.used
	return r.said.missing, err
}

// keep takes in what a worker tells.
func keep[A any](r *resolution, f func(A)) worker.Handler {
	return worker.Handle(func(run *worker.Run, a A) (bool, error) {
		r.used = run.Used()
		f(a)
		return true, nil
	})
}

// giveUp ends the application that took too much, and all where they have taken all that a KfDef may.
func (r *resolution) giveUp(err error) {
	if limited := new(worker.LimitError); errors.As(err, &limited) {
		r.spent += limited.Took - r.used
	}
	r.given[r.one] = fmt.Errorf("%w: split it, or try kustomize build on its files", err)
	if r.spent < allTime {
		return
	}
	for i := range r.in.Applications {
		if r.given[i] == nil {
			r.given[i] = &worker.LimitError{
				What: fmt.Sprintf("looking for addresses takes more than %s of processor time, all that a KfDef has: split it", allTime),
			}
		}
	}
}

// fetch fetches what an entry names. What may be fetched is decided here, whatever a worker says.
func (r *resolution) fetch(entry string) error {
	a, err := parse(entry, r.in.Moving)
	_, known := r.answers[a.URI]
	if err != nil || known || len(r.answers) >= maxFetched {
		return fmt.Errorf("bug: a worker would have %q fetched", shown(entry))
	}
	tree, err := r.in.Fetch(a)
	r.answers[a.URI] = result{tree, err}
	return nil
}

// output puts together what the last worker told.
func (r *resolution) output() (*Output, error) {
	out := &Output{Repos: maps.Clone(r.in.Repos), Errors: r.given}
	overlays := map[string]*overlay{}
	of := func(name, at string) (*overlay, error) {
		if r.in.Repos[name] == nil || !fs.ValidPath(at) {
			return nil, fmt.Errorf("bug: a worker writes %q of repository %q", at, name)
		}
		if overlays[name] == nil {
			overlays[name] = newOverlay(r.in.Repos[name])
			out.Repos[name] = overlays[name]
		}
		return overlays[name], nil
	}
	for _, w := range r.said.written {
		o, err := of(w.Repo, w.Path)
		if err != nil {
			return nil, err
		}
		o.written[w.Path] = w.Content
	}
	for _, p := range r.said.linked {
		o, err := of(p.Repo, p.Path)
		if err != nil {
			return nil, err
		}
		tree := r.answers[p.URI].tree
		info, err := fs.Stat(tree, r.in.FileName)
		if err != nil {
			return nil, err
		}
		o.linked[p.Path] = link{tree, r.in.FileName, info.Size()}
	}
	for _, p := range r.said.mounted {
		o, err := of(p.Repo, p.Path)
		if err != nil {
			return nil, err
		}
		o.mounts[p.Path] = r.answers[p.URI].tree
	}
	for _, f := range r.said.failed {
		out.Errors[f.Application] = &Error{text: f.Error, cause: r.answers[f.URI].err}
	}
	return out, nil
}

// Error is why an application cannot be resolved, with the cause where something cannot be fetched.
type Error struct {
	text  string
	cause error
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap is the error of the fetch.
func (e *Error) Unwrap() error { return e.cause }
