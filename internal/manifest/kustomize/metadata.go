package kustomize

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/resource"
)

// buildMetadata are what the kustomization of a folder has kustomize write on what is built. kustomize reads it in the kustomization where it
// begins alone, so that one around the folder needs it, too.
func buildMetadata(t *tree, dir string) ([]string, error) {
	v, err := (&walk{tree: t}).load(dir)
	if err != nil {
		return nil, err
	}
	return v.k.BuildMetadata, nil
}

// fromFolder tells where an object comes from, and where it was changed, as from the application's own folder. kustomize tells it as from the
// kustomization that is generated around it.
func fromFolder(r *resource.Resource, dir string) error {
	origin, err := r.GetOrigin()
	if err == nil && origin != nil {
		relocate(origin, dir)
		err = r.SetOrigin(origin)
	}
	if err != nil {
		return fmt.Errorf("%s %s has an origin that cannot be read (%w): correct its file", r.GetKind(), r.GetName(), err)
	}
	transformations, err := r.GetTransformations()
	if err == nil && len(transformations) > 0 {
		err = r.ClearTransformations()
	}
	for _, one := range transformations {
		if err == nil {
			relocate(one, dir)
			err = r.AddTransformation(one)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s has transformations that cannot be read (%w): correct its file", r.GetKind(), r.GetName(), err)
	}
	return nil
}

// relocate makes the paths of an origin relative to a folder. What is generated itself stays: it stands for the kustomization of the folder.
func relocate(origin *resource.Origin, dir string) {
	for _, p := range []*string{&origin.Path, &origin.ConfiguredIn} {
		absolute := path.Join(generated, *p)
		if !strings.HasPrefix(absolute, mount+"/") {
			continue
		}
		if relative, err := filepath.Rel(dir, absolute); err == nil {
			*p = relative
		}
	}
}
