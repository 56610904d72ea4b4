package kustomize

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	kyaml "sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/parallel"
)

// Rendering is how the applications of a KfDef are rendered.
type Rendering string

const (
	// Kfctl renders as kfctl v1.2 did.
	Kfctl Rendering = "Kfctl"
	// Kustomize renders every path as kustomize build does, with all of its repository.
	Kustomize Rendering = "Kustomize"
)

// detect is Detect in this process, which is a worker.
func detect(in Input) (rendering Rendering, why string, err error) {
	old, modern := in.whyKfctl(), ""
	for i := range in.Applications {
		if modern = in.whyKustomize(i); modern != "" {
			break
		}
	}
	switch {
	case old != "" && modern != "":
		return "", "", fmt.Errorf("%s, which only kfctl renders, but %s, which kfctl never could", old, modern)
	case modern != "":
		return Kustomize, modern + ", which kfctl never could render", nil
	case old != "":
		return Kfctl, old, nil
	}
	return Kfctl, "kfctl could render every application", nil
}

// whyKfctl says what in a KfDef only kfctl renders.
func (in Input) whyKfctl() string {
	if in.KfctlRan {
		return "kfctl's operator had the KfDef before"
	}
	for _, a := range in.Applications {
		if a.Name == stacksApplication {
			return "an application is called " + stacksApplication
		}
		if fields := kfctlFields(a); len(fields) > 0 {
			return fmt.Sprintf("application %q has %s", a.Name, strings.Join(fields, " and "))
		}
		dir, err := locate(in, a)
		if base := path.Join(dir, "base", kustomizationFile); err == nil && newTree(in.Repos[a.Repo], ".").Exists(path.Join(mount, base)) {
			return fmt.Sprintf("application %q has %s", a.Name, base)
		}
	}
	return ""
}

// whyKustomize says what in an application kfctl could not render. What it finds before an error counts, and nothing else does: an
// application that nothing renders says nothing.
func (in Input) whyKustomize(i int) string {
	a := in.Applications[i]
	if fields := a.fields(); len(fields) > 0 {
		return fmt.Sprintf("application %q has %s", a.Name, strings.TrimPrefix(fields[0], "kustomizeConfig."))
	}
	dir, err := locate(in, a)
	if err != nil || in.second(i) {
		return ""
	}
	s := &search{in: in, a: a}
	// renderOne answers for the same panic.
	_ = parallel.Recovered(context.Background(), func(context.Context) error {
		generate := prepareStacks
		if !in.Stacks() {
			generate, s.dir = prepareLegacy, path.Join(mount, dir)
		}
		p, err := generate(in, a, dir)
		if err != nil || p.entry == "" {
			return err
		}
		// kfctl saw less; what it did not see is what is looked for.
		p.tree.root = "."
		w := &walk{tree: p.tree, exact: true, search: s, done: map[string]*visit{}}
		_, err = w.enter(p.entry)
		return err
	})
	if s.found == "" {
		return ""
	}
	return fmt.Sprintf("application %q %s", a.Name, s.found)
}

// search looks for what kfctl could not render while the kustomizations of an application are gone through, and ends that where it
// finds something. Its methods do nothing without one.
type search struct {
	in Input
	a  Application
	// dir is the folder that kfctl copied to render it; empty in stacks mode, in which it saw the repository.
	dir   string
	found string
}

var errFound = errors.New("found")

// known is what kfctl read of the kustomization at the top of an application: it wrote that one anew, and dropped the fields that it
// did not know.
func (s *search) known(content []byte, depth int) ([]byte, error) {
	if s == nil || depth > 1 {
		return content, nil
	}
	var raw map[string]any
	if err := kyaml.Unmarshal(content, &raw); err != nil {
		return nil, err
	}
	for name := range raw {
		if !inKustomize320(name) {
			delete(raw, name)
		}
	}
	return kyaml.Marshal(raw)
}

// kustomization finds what the kustomize of kfctl refused in a kustomization. The one at the top was kfctl's own.
func (s *search) kustomization(v *visit, depth int) error {
	if s == nil || depth == 1 || v.newer == "" {
		return nil
	}
	s.found = fmt.Sprintf("uses %s in %s", v.newer, displayPath(v.file))
	return errFound
}

// path finds a path that leaves the folder that kfctl copied. The folders of all applications lay side by side there, each under the
// name of its application, so that a path into another one of that name may have led somewhere.
func (s *search) path(dir, p, target string) error {
	if s == nil || s.dir == "" || target == s.dir || strings.HasPrefix(target, s.dir+"/") {
		return nil
	}
	relative, err := filepath.Rel(s.dir, target)
	if err != nil {
		return err
	}
	const copies = "/kfctl/kustomize"
	at := path.Join(copies, s.a.Name, relative) + "/"
	for _, b := range s.in.Applications {
		if b.Name != "" && b.Name != s.a.Name && strings.HasPrefix(at, path.Join(copies, b.Name)+"/") {
			return nil
		}
	}
	s.found = fmt.Sprintf("refers to %q in %s, outside of its folder", p, displayPath(dir))
	return errFound
}
