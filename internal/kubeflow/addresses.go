package kubeflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/remotes"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// RemoteBases says which addresses in kustomizations are fetched.
type RemoteBases string

const (
	// PinnedBases are those whose content does not move: a tag or a commit, a version, or a digest. They are the default.
	PinnedBases RemoteBases = "pinned"
	// AnyBases are all.
	AnyBases RemoteBases = "any"
	// NoBases are none: an application that refers to an address fails.
	NoBases RemoteBases = "none"
)

// Check says what is wrong with the value of the flag.
func (r RemoteBases) Check() error {
	switch r {
	case "", PinnedBases, AnyBases, NoBases:
		return nil
	}
	return fmt.Errorf("%q is no kind of addresses: write %s, %s or %s", string(r), PinnedBases, AnyBases, NoBases)
}

// resolving resolves the addresses of one rendering.
type resolving struct {
	bases RemoteBases
	// values are those of the variables.
	values variables
	run    *rendering.Run[Content]
	// workers are the processes that look at the applications; nil for those that all share who name none.
	workers *worker.Pool
}

// resolve decides the rendering, and has what the kustomizations of the applications refer to by address fetched where it is that of
// kustomize. An application of which something cannot be fetched fails alone.
func (r resolving) resolve(ctx context.Context, cr *kubeflowv1.KfDef) *plan.Problem {
	content, trees := &r.run.Result.Content, treesOf(r.run)
	in := inputOf(cr, r.values, trees, r.workers)
	var problem *plan.Problem
	content.Rendering, content.Why, problem = renderingOf(ctx, cr, r.run.Last, in)
	if problem != nil || content.Rendering != renderingKustomize || r.bases == NoBases {
		return problem
	}
	from := remotes.Input{
		Namespace: cr.Namespace, Repos: trees, FileName: source.FileName, Moving: r.bases == AnyBases, Workers: r.workers,
		Fetch: func(a remotes.Address) (fs.FS, error) { return r.fetch(ctx, a) },
	}
	for _, a := range in.Applications {
		from.Applications = append(from.Applications, remotes.Application{Repo: a.Repo, Dirs: append([]string{a.Path}, a.Components...)})
	}
	resolved, err := remotes.Resolve(ctx, from)
	if err != nil {
		return notRendered(err)
	}
	for i, a := range in.Applications {
		// One that is not rendered needs no addresses.
		if err := resolved.Errors[i]; err != nil && firstOf(cr.Spec.Applications, i) == i {
			r.failed(i, a.Name, err)
		}
	}
	for i := range r.run.Trees {
		r.run.Trees[i] = resolved.Repos[r.run.Result.Sources[i].Name]
	}
	return nil
}

// treesOf are the repositories of a run by their names.
func treesOf(run *rendering.Run[Content]) map[string]fs.FS {
	out := map[string]fs.FS{}
	for i, tree := range run.Trees {
		out[run.Result.Sources[i].Name] = tree
	}
	return out
}

// fetch brings what an address names, and notes what that was. No credentials are sent: those of a repository are for its server.
func (r resolving) fetch(ctx context.Context, a remotes.Address) (fs.FS, error) {
	result := r.run.Result
	artifact, err := r.run.Fetch(ctx, source.Request{URI: a.URI, File: a.File, Fixed: r.bases != AnyBases, Before: true})
	if err != nil {
		result.Fetched = append(result.Fetched, rendering.Revision{Name: a.URI, Digest: err.Error()})
		return nil, err
	}
	result.Fetched = append(result.Fetched, rendering.Revision{Name: a.URI, Digest: artifact.Digest})
	if artifact.Stale != nil && result.Failure == nil {
		result.Failure = problemOf("spec.applications", "", artifact.Stale)
	}
	return artifact.FS(), nil
}

// failed notes why the addresses of an application cannot be resolved.
func (r resolving) failed(i int, name string, err error) {
	content := &r.run.Result.Content
	problem := problemOf(fmt.Sprintf("spec.applications[%d]", i), name, err)
	if content.Unresolved == nil {
		content.Unresolved = map[int]plan.Problem{}
	}
	content.Unresolved[i] = *problem
	noteLimit(r.run.Result, err)
	// With it the fetch is tried again, and the condition says what nothing newer is applied for.
	if problem.Reason != reasonApplicationFailed && r.run.Result.Failure == nil {
		r.run.Result.Failure = problem
	}
}

// problemOf says why an address cannot be fetched, or what is wrong with it. The message names the address and where it is.
func problemOf(field, name string, err error) *plan.Problem {
	if fetch := new(source.Error); !errors.As(err, &fetch) {
		return &plan.Problem{Class: plan.Terminal, Reason: reasonApplicationFailed, Field: field, Value: name, Message: err.Error()}
	}
	problem := rendering.Source{Name: name, Origin: origin.Origin{Field: field}}.Problem(err)
	problem.Message = strings.TrimSuffix(err.Error(), ": "+problem.Remedy)
	return problem
}

// told says that the failure of a result is that of an application, which tells it.
func told(result *Result) bool {
	for _, p := range result.Content.Unresolved {
		if result.Failure != nil && p == *result.Failure {
			return true
		}
	}
	return false
}
