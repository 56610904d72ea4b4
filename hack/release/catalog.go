package main

import (
	"archive/tar"
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// catalog is the file-based catalog with this release alone (operator-framework/operator-registry alpha/declcfg). It is a part of a larger one as
// well: whoever publishes several releases joins their channels' entries.
func (o *olm) catalog(bundle string) ([]byte, error) {
	icon := at(o.csv, "spec", "icon").([]any)[0]
	documents := []object{{
		"schema": "olm.package", "name": packageName, "defaultChannel": o.channel,
		"description": at(o.csv, "spec", "description"), "icon": icon,
	}}
	entry := object{"name": o.name, "skipRange": o.skipRange}
	if o.replaces != "" {
		entry["replaces"] = o.replaces
	}
	for _, channel := range o.channels {
		documents = append(documents, object{"schema": "olm.channel", "package": packageName, "name": channel, "entries": []any{entry}})
	}
	images := append([]any{object{"name": "", "image": bundle}}, o.relatedImages()...)
	return stream(append(documents, object{
		"schema": "olm.bundle", "package": packageName, "name": o.name, "image": bundle, "relatedImages": images, "properties": o.properties(),
	})), nil
}

// properties are what a catalog tells of a bundle, so that nobody has to pull it before it is installed.
func (o *olm) properties() []any {
	out := []any{object{"type": "olm.package", "value": object{"packageName": packageName, "version": o.number}}}
	for _, definition := range o.definitions {
		for _, version := range at(definition, "spec", "versions").([]any) {
			if at(version, "served") == true {
				out = append(out, object{"type": "olm.gvk", "value": object{
					"group": at(definition, "spec", "group"), "version": at(version, "name"), "kind": at(definition, "spec", "names", "kind"),
				}})
			}
		}
	}
	spec := o.csv["spec"]
	return append(out, object{"type": "olm.csv.metadata", "value": object{
		"annotations": at(o.csv, "metadata", "annotations"), "labels": at(o.csv, "metadata", "labels"),
		"crdDescriptions": at(spec, "customresourcedefinitions"), "description": at(spec, "description"), "displayName": at(spec, "displayName"),
		"installModes": at(spec, "installModes"), "keywords": at(spec, "keywords"), "links": at(spec, "links"), "maturity": at(spec, "maturity"),
		"minKubeVersion": at(spec, "minKubeVersion"), "provider": at(spec, "provider"),
	}})
}

// publish makes an image that has nothing but files, under a tag of the release's repository, and returns its digest.
func (d *dist) publish(tag string, content map[string][]byte, labels map[string]string) (string, error) {
	var entries []entry
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		for i := range strings.Split(path.Dir(name), "/") {
			folder := strings.Join(strings.Split(name, "/")[:i+1], "/") + "/"
			if !seen[folder] {
				seen[folder] = true
				entries = append(entries, entry{tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755}, nil})
			}
		}
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content[name]})
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, entries, time.Unix(0, 0)); err != nil {
		return "", err
	}
	image, err := single(layer.Bytes(), "amd64", v1.Config{Labels: labels})
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	d.layout[tag] = image
	d.published = append(d.published, subject{Name: d.image + ":" + tag, Digest: map[string]string{digest.Algorithm: digest.Hex}})
	if d.signer == nil {
		return digest.String(), nil
	}
	signature, tag, err := d.signer.signImage(d.image, digest)
	d.layout[tag] = signature
	return digest.String(), err
}
