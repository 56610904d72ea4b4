package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// reference is the annotation of the OCI image layout that names a tag.
const reference = "org.opencontainers.image.ref.name"

// index makes one image index of the binaries of several architectures.
func index(binaries map[string]string, version string, created time.Time, revision string) (v1.ImageIndex, error) {
	out := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	annotations := map[string]string{
		"org.opencontainers.image.version": version, "org.opencontainers.image.revision": revision,
		"org.opencontainers.image.created": created.UTC().Format(time.RFC3339),
	}
	out = mutate.Annotations(out, annotations).(v1.ImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(binaries)) {
		image, err := build(options{binary: binaries[arch], arch: arch, version: version})
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", arch, err)
		}
		out = mutate.AppendManifests(out, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	return out, nil
}

// writeLayout writes an index under a tag, and other images under theirs, as an OCI image layout.
func writeLayout(folder string, images v1.ImageIndex, tag string, others map[string]v1.Image) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(images, layout.WithAnnotations(map[string]string{reference: tag})); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if err := path.AppendImage(others[name], layout.WithAnnotations(map[string]string{reference: name})); err != nil {
			return err
		}
	}
	return nil
}

// runPush is the command push: it publishes what an OCI image layout holds, each under its tag.
func runPush(args []string) error {
	flags := flag.NewFlagSet("push", flag.ContinueOnError)
	from := flags.String("dist", "", "folder that dist wrote")
	repository := flags.String("image", "", "repository to publish to, without a tag")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *from == "" || *repository == "" {
		return errors.New("push needs -dist and -image")
	}
	return pushLayout(filepath.Join(*from, imageFolder), *repository)
}

func pushLayout(folder, repository string) error {
	path, err := layout.FromPath(folder)
	if err != nil {
		return fmt.Errorf("%s is no OCI image layout: %w", folder, err)
	}
	all, err := path.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	auth := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	for _, one := range manifest.Manifests {
		tag, err := name.NewTag(repository + ":" + one.Annotations[reference])
		if err != nil {
			return fmt.Errorf("image name: %w", err)
		}
		if one.MediaType.IsIndex() {
			var images v1.ImageIndex
			if images, err = all.ImageIndex(one.Digest); err == nil {
				err = remote.WriteIndex(tag, images, auth)
			}
		} else {
			var image v1.Image
			if image, err = all.Image(one.Digest); err == nil {
				err = remote.Write(tag, image, auth)
			}
		}
		if err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
		fmt.Printf("pushed %s@%s\n", tag, one.Digest)
	}
	return nil
}

// imageTag is a version as a tag, which knows no plus sign.
func imageTag(version string) string { return strings.ReplaceAll(version, "+", "_") }
