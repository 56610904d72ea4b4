package kustomize

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

const (
	flatFile  = "-- app/kustomization.yaml --\nresources: [a.yaml]\n"
	mergedToo = "-- old/base/kustomization.yaml --\nresources: []\n"
	anObject  = "\n-- app/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
	neighbour = "-- beside/kustomization.yaml --\nresources: []\n-- beside/p.yaml --\n{}\n"
)

// old adds an application that kfctl merges from a base.
func old(in *Input) {
	in.Applications = append(in.Applications, Application{Name: "old", Repo: "manifests", Path: "old", HasConfig: true, HasRepoRef: true})
}

// TestDetect holds which KfDefs are rendered as by kfctl: every one that it could have rendered, whatever it lost while it did.
func TestDetect(t *testing.T) {
	below := func(text string) string {
		return "-- app/kustomization.yaml --\nresources: [sub]\n-- app/sub/kustomization.yaml --\nresources: []\n" + text + "\n"
	}
	cases := map[string]struct {
		files  string
		change func(*Input)
		want   Rendering
		why    string
	}{
		"flat and old":           {files: flatFile + anObject, want: Kfctl, why: "could render every application"},
		"merged from a base":     {files: mergedToo + flatFile + anObject, change: old, want: Kfctl, why: "has old/base/kustomization.yaml"},
		"overlays":               {files: flatFile + anObject, change: func(in *Input) { in.Applications[0].Overlays = []string{"o"} }, want: Kfctl, why: `"app" has overlays`},
		"parameters":             {files: flatFile + anObject, change: func(in *Input) { parameters("a=b")(&in.Applications[0]) }, want: Kfctl, why: `"app" has parameters`},
		"had by kfctl":           {files: flatFile + anObject, change: func(in *Input) { in.KfctlRan = true }, want: Kfctl, why: "kfctl's operator"},
		"stacks":                 {files: "-- app/kustomization.yaml --\nresources: [../beside]\n" + neighbour, change: stacks, want: Kfctl, why: "kubeflow-apps"},
		"no such path":           {files: "-- b --\n", want: Kfctl, why: "could render"},
		"nothing to render":      {files: "-- app/kustomization.yml --\nresources: [../beside]\n" + neighbour, want: Kfctl, why: "could render"},
		"a path that is nowhere": {files: "-- app/kustomization.yaml --\nresources: [../nowhere]\n", want: Kfctl, why: "could render"},
		// kfctl read the kustomization at the top itself, and dropped what it did not know.
		"fields at the top":            {files: flatFile + "labels: [{pairs: {a: b}}]\nsortOptions: {order: fifo}" + anObject, want: Kfctl, why: "could render"},
		"components at the top":        {files: flatFile + "components: [../beside]" + anObject + neighbour, want: Kfctl, why: "could render"},
		"the folder of another":        {files: "-- app/kustomization.yaml --\nresources: [../old/base]\n" + mergedToo, change: func(in *Input) { old(in); in.Applications[1].Path = "gone" }, want: Kfctl, why: "could render"},
		"a folder beside":              {files: "-- app/kustomization.yaml --\nresources: [../beside]\n" + neighbour, want: Kustomize, why: `"app" refers to "../beside" in app`},
		"a folder beside, in an older": {files: "-- app/kustomization.yaml --\nbases: [../beside]\n" + neighbour, want: Kustomize, why: `"../beside"`},
		"a file beside":                {files: flatFile + "patches: [{path: ../beside/p.yaml}]" + anObject + neighbour, want: Kustomize, why: `"../beside/p.yaml"`},
		"a folder beside, below":       {files: below("bases: [../../beside]") + neighbour, want: Kustomize, why: `"../../beside" in app/sub`},
		"a field below":                {files: below("labels: [{pairs: {a: b}}]"), want: Kustomize, why: "uses labels in app/sub/kustomization.yaml"},
		"replacements below":           {files: below("replacements: []"), want: Kustomize, why: "uses replacements"},
		"a field in another case":      {files: below("nameprefix: x-"), want: Kfctl, why: "could render"},
		"nothing in a field below":     {files: below("labels: "), want: Kfctl, why: "could render"},
		"a component below":            {files: below("kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1"), want: Kustomize, why: "kind Component"},
		"components of its own":        {files: flatFile + anObject, change: func(in *Input) { in.Applications[0].Components = []string{"c"} }, want: Kustomize, why: "has components"},
		"before an error":              {files: "-- app/kustomization.yaml --\nresources: [../beside, 'https://example.org/x.yaml']\n" + neighbour, want: Kustomize, why: `"../beside"`},
		"the first of two names":       {files: flatFile + anObject + "-- old/kustomization.yaml --\nresources: [../beside]\n" + neighbour, change: func(in *Input) { old(in); in.Applications[1].Name = "app" }, want: Kfctl, why: "could render"},
		"both":                         {files: "-- app/kustomization.yaml --\nresources: [../beside]\n" + neighbour + mergedToo, change: old, why: `application "old" has old/base/kustomization.yaml, which only kfctl renders, but application "app" refers to "../beside" in app`},
		"a new base":                   {files: "-- app/base/kustomization.yaml --\nlabels: [{pairs: {a: b}}]\n", why: "which kfctl never could"},
		"new stacks":                   {files: flatFile + "labels: [{pairs: {a: b}}]" + anObject, change: stacks, why: "uses labels in app/kustomization.yaml"},
		"had by kfctl, and new":        {files: "-- app/kustomization.yaml --\nresources: [../beside]\n" + neighbour, change: func(in *Input) { in.KfctlRan = true }, why: "kfctl's operator"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(c.files, nil)
			if c.change != nil {
				c.change(&in)
			}
			got, why, err := Detect(t.Context(), in)
			if err != nil {
				why = err.Error()
			}
			if got != c.want || (err != nil) != (c.want == "") || !strings.Contains(why, c.why) {
				t.Errorf("%q, since %s (error %v); want %q, since %s", got, why, err, c.want, c.why)
			}
			if again, other, _ := Detect(t.Context(), in); again != got || err == nil && other != why {
				t.Errorf("the second time %q, since %s", again, other)
			}
		})
	}
}

// stacks adds the application that switches kfctl to its second mode.
func stacks(in *Input) {
	in.Applications = append(in.Applications, Application{Name: stacksApplication, HasConfig: true, HasRepoRef: true, Repo: "manifests", Path: "gone"})
}

// TestDetectKeepsRealKfDefs holds that nothing which Kubeflow and Open Data Hub published changes its meaning.
func TestDetectKeepsRealKfDefs(t *testing.T) {
	for _, in := range []Input{kubeflow(t), openDataHub(t)} {
		if got, why, err := Detect(t.Context(), in); got != Kfctl || err != nil {
			t.Errorf("%s: %q, since %s (error %v)", in.Name, got, why, err)
		}
	}
}

// broken is a repository on a disk that fails at one of its files or folders.
type broken struct {
	fstest.MapFS
	at string
}

func (b broken) Open(name string) (fs.File, error) {
	if name == b.at {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return b.MapFS.Open(name)
}

func (b broken) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == b.at {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EIO}
	}
	return b.MapFS.ReadDir(name)
}

// TestADiskThatFailsIsNoFaultOfTheApplications: what is found while the disk fails would be the rendering for good.
func TestADiskThatFailsIsNoFaultOfTheApplications(t *testing.T) {
	files := fstest.MapFS{
		"app/kustomization.yaml":  {Data: []byte("resources: [../base]\n")},
		"base/kustomization.yaml": {Data: []byte("resources: [a.yaml]\n")},
		"base/a.yaml":             {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")},
	}
	in := input("", nil)
	for at, read := range map[string]bool{".": true, "app": true, "app/kustomization.yaml": true, "base/a.yaml": false, "none": false} {
		for name := range in.Repos {
			in.Repos[name] = broken{files, at}
		}
		in.Rendering = ""
		found, why, err := Detect(t.Context(), in)
		if read && !errors.Is(err, ErrUnavailable) || !read && (err != nil || found != Kustomize) {
			t.Errorf("%s fails: detected is %q, since %s (%v)", at, found, why, err)
		}
		in.Rendering = Kustomize
		all, err := Render(t.Context(), in)
		if sound := at == "none"; errors.Is(err, ErrUnavailable) == sound || sound && all[0].Err != nil {
			t.Errorf("%s fails: %v, %v", at, all, err)
		}
	}
}

// TestDetectChangesNothing holds that the search neither reads a file of its own making nor stops for one that it cannot read.
func TestDetectChangesNothing(t *testing.T) {
	files := fstest.MapFS{
		"app/kustomization.yaml":     {Data: []byte("resources: [sub]"), Mode: 0o644},
		"app/sub/kustomization.yaml": {Data: []byte("{"), Mode: 0o644},
	}
	in := input("", nil)
	in.Repos = map[string]fs.FS{"manifests": files}
	if got, _, err := Detect(t.Context(), in); got != Kfctl || err != nil || len(files) != 2 {
		t.Errorf("%q, error %v, files %v", got, err, files)
	}
}
