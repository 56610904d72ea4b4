package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"
)

const (
	// packageName is the operator's in catalogs of OLM.
	packageName = "mlkeeper"
	// olmFolder has what is written by hand of the bundle.
	olmFolder = "config/olm"
	// archLabel and osLabel tell on what an operator runs; without them OLM's console takes it to be linux on amd64.
	archLabel, osLabel = "operatorframework.io/arch.", "operatorframework.io/os."
)

// object is a manifest.
type object = map[string]any

// olm is the bundle of a release and its place in a catalog.
type olm struct {
	*dist
	// name is that of the ClusterServiceVersion and of the bundle, and number the version without a v.
	name, number string
	// channels are those that get the release.
	channels []string
	// replaces is the name of the bundle before, which is empty for the first release, and skipRange are the versions that are upgraded directly.
	replaces, skipRange string
	csv                 object
	definitions         []object
	// manifests are the files of the bundle by their names, and policies what OLM cannot install.
	manifests map[string][]byte
	policies  []object
}

// olm writes the bundle and the catalog, and the images that OLM reads them from.
func (d *dist) olm() error {
	o := &olm{dist: d, manifests: map[string][]byte{}}
	changelog, err := os.ReadFile(filepath.Join(d.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if err := o.graph(string(changelog)); err != nil {
		return err
	}
	d.channel = o.channels[len(o.channels)-1]
	if err := o.read(); err != nil {
		return fmt.Errorf("bundle for OLM: %w", err)
	}
	bundle := map[string][]byte{"metadata/annotations.yaml": marshal(object{"annotations": o.annotations()})}
	for name, content := range o.manifests {
		bundle["manifests/"+name] = content
	}
	digest, err := d.publish("bundle-"+imageTag(d.version), bundle, o.annotations())
	if err != nil {
		return err
	}
	catalog, err := o.catalog(d.image + "@" + digest)
	if err != nil {
		return err
	}
	if _, err := d.publish("catalog-"+imageTag(d.version), map[string][]byte{"configs/" + packageName + "/catalog.yaml": catalog},
		map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}); err != nil {
		return err
	}
	d.files["catalog.yaml"] = catalog
	d.files["admission.yaml"] = stream(o.policies)
	var packed []file
	for _, name := range slices.Sorted(maps.Keys(bundle)) {
		packed = append(packed, file{name, 0o644, bundle[name]})
	}
	d.files["mlkeeper-bundle-"+o.number+".tar.gz"], err = targz(packed, d.at)
	return err
}

// graph sets the names of the release, its channels, and what it is an upgrade of: the releases of the changelog that are older by the order
// that OLM has for versions (semver.org).
func (o *olm) graph(changelog string) error {
	o.number = strings.TrimPrefix(o.version, "v")
	bundleOf := func(number string) string {
		// A plus sign and capitals are in no name of an object.
		return packageName + ".v" + strings.ToLower(strings.ReplaceAll(number, "+", "-"))
	}
	o.name = bundleOf(o.number)
	o.channels = []string{"candidate"}
	if versions.FindStringSubmatch(o.version)[4] == "" {
		o.channels = append(o.channels, "stable")
	}
	own, err := semver.Parse(o.number)
	if err != nil {
		return fmt.Errorf("version %s: %w", o.number, err)
	}
	var before semver.Versions
	for _, m := range headings.FindAllStringSubmatch(changelog, -1) {
		if number, err := semver.Parse(m[1]); err == nil && number.LT(own) {
			before = append(before, number)
		}
	}
	// Release candidates have no section of the changelog, and are upgraded as well.
	o.skipRange = "<" + o.number
	if len(before) > 0 {
		semver.Sort(before)
		o.replaces = bundleOf(before[len(before)-1].String())
	}
	return nil
}

// annotations are those of the bundle and the labels of its image (operator-framework/operator-registry docs/design/operator-bundle.md).
func (o *olm) annotations() map[string]string {
	const prefix = "operators.operatorframework.io.bundle."
	return map[string]string{
		prefix + "mediatype.v1":       "registry+v1",
		prefix + "manifests.v1":       "manifests/",
		prefix + "metadata.v1":        "metadata/",
		prefix + "package.v1":         packageName,
		prefix + "channels.v1":        strings.Join(o.channels, ","),
		prefix + "channel.default.v1": o.channel,
	}
}

// read makes the ClusterServiceVersion and the other manifests of the bundle out of install.yaml and of the folder of the bundle.
func (o *olm) read() error {
	objects, err := parse(o.files["install.yaml"])
	if err != nil {
		return err
	}
	base, err := os.ReadFile(filepath.Join(o.root, olmFolder, "clusterserviceversion.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(base, &o.csv); err != nil {
		return fmt.Errorf("clusterserviceversion.yaml: %w", err)
	}
	if err := o.install(objects); err != nil {
		return err
	}
	if err := o.describe(); err != nil {
		return err
	}
	if err := o.release(); err != nil {
		return err
	}
	o.manifests[packageName+".clusterserviceversion.yaml"] = marshal(o.csv)
	return nil
}

// install sorts the objects of an installation: OLM makes the Deployment, its ServiceAccount and what that is bound to out of the
// ClusterServiceVersion, and everything else out of files. An administrator makes the namespace.
func (o *olm) install(objects []object) error {
	var deployments []any
	account := ""
	for _, u := range objects {
		if u["kind"] != "Deployment" {
			continue
		}
		account, _ = at(u, "spec", "template", "spec", "serviceAccountName").(string)
		for _, container := range at(u, "spec", "template", "spec", "containers").([]any) {
			// By the digest alone: what mirrors images refuses a tag beside it.
			container.(object)["image"] = o.image + "@" + o.digest.String()
		}
		deployments = append(deployments, object{"name": named(u), "label": at(u, "metadata", "labels"), "spec": u["spec"]})
	}
	if len(deployments) != 1 || account == "" {
		return fmt.Errorf("install.yaml has %d Deployments, with the ServiceAccount %q", len(deployments), account)
	}
	granted := newRights(objects, account)
	for _, u := range objects {
		switch kind := u["kind"].(string); kind {
		case "Namespace", "Deployment":
		case "ServiceAccount":
			if named(u) != account {
				o.file(u)
			}
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			o.policies = append(o.policies, u)
		case "CustomResourceDefinition":
			o.definitions = append(o.definitions, u)
			o.file(u)
		case "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding":
			if !granted.said[key(u)] {
				o.file(u)
			}
		default:
			return fmt.Errorf("install.yaml has a %s, which is not among what OLM installs (operator-registry pkg/lib/bundle/supported_resources.go)", kind)
		}
	}
	set(o.csv, object{"strategy": "deployment", "spec": object{
		"deployments":        deployments,
		"permissions":        []any{object{"serviceAccountName": account, "rules": granted.namespaced}},
		"clusterPermissions": []any{object{"serviceAccountName": account, "rules": granted.cluster}},
	}}, "spec", "install")
	return granted.err
}

// file adds an object to the files of the bundle.
func (o *olm) file(u object) {
	o.manifests[named(u)+"."+strings.ToLower(u["kind"].(string))+".yaml"] = marshal(u)
}

// rights are the rules that a ServiceAccount is bound to.
type rights struct {
	namespaced, cluster []any
	// said are the roles and bindings that the rules stand for.
	said map[string]bool
	err  error
}

// newRights collects the rules of the roles that a ServiceAccount is bound to. A role that others fill is none of them: it is installed
// with its binding.
func newRights(objects []object, account string) *rights {
	out := &rights{said: map[string]bool{}}
	roles := map[string]object{}
	for _, u := range objects {
		if kind := u["kind"]; kind == "Role" || kind == "ClusterRole" {
			roles[key(u)] = u
		}
	}
	for _, u := range objects {
		subjects, _ := u["subjects"].([]any)
		if !slices.ContainsFunc(subjects, func(s any) bool { return at(s, "kind") == "ServiceAccount" && at(s, "name") == account }) {
			continue
		}
		role := roles[fmt.Sprintf("%v %v", at(u, "roleRef", "kind"), at(u, "roleRef", "name"))]
		switch {
		case role == nil || len(subjects) != 1:
			out.err = errors.Join(out.err, fmt.Errorf("%s binds %d subjects to a role that is or is not in install.yaml: %v", key(u), len(subjects), role != nil))
			continue
		case role["aggregationRule"] != nil:
			continue
		}
		rules, _ := role["rules"].([]any)
		if u["kind"] == "RoleBinding" {
			out.namespaced = append(out.namespaced, rules...)
		} else {
			out.cluster = append(out.cluster, rules...)
		}
		out.said[key(u)], out.said[key(role)] = true, true
	}
	return out
}

// supported is the oldest release of Kubernetes in the chart, such as >=1.34.0-0.
var supported = regexp.MustCompile(`(?m)^kubeVersion: ">=(\d+\.\d+\.\d+)-0"$`)

// release sets what the release knows: its version, its place among others, its images, and the examples.
func (o *olm) release() error {
	chart, err := os.ReadFile(filepath.Join(o.root, "charts", "mlkeeper", "Chart.yaml"))
	if err != nil {
		return err
	}
	oldest := supported.FindSubmatch(chart)
	if oldest == nil {
		return errors.New(`no kubeVersion like ">=1.34.0-0" in Chart.yaml`)
	}
	icon, err := os.ReadFile(filepath.Join(o.root, olmFolder, "icon.svg"))
	if err != nil {
		return err
	}
	examples, err := o.examples()
	if err != nil {
		return err
	}
	set(o.csv, o.name, "metadata", "name")
	labels := object{osLabel + "linux": "supported"}
	for arch := range o.architectures {
		labels[archLabel+arch] = "supported"
	}
	set(o.csv, labels, "metadata", "labels")
	set(o.csv, examples, "metadata", "annotations", "alm-examples")
	set(o.csv, o.image+"@"+o.digest.String(), "metadata", "annotations", "containerImage")
	set(o.csv, o.at.UTC().Format("2006-01-02T15:04:05Z"), "metadata", "annotations", "createdAt")
	set(o.csv, o.source, "metadata", "annotations", "repository")
	set(o.csv, o.number, "spec", "version")
	set(o.csv, string(oldest[1]), "spec", "minKubeVersion")
	set(o.csv, []any{object{"base64data": icon, "mediatype": "image/svg+xml"}}, "spec", "icon")
	set(o.csv, []any{object{"name": "Source and documentation", "url": o.source}}, "spec", "links")
	set(o.csv, o.relatedImages(), "spec", "relatedImages")
	set(o.csv, o.skipRange, "metadata", "annotations", "olm.skipRange")
	if o.replaces != "" {
		set(o.csv, o.replaces, "spec", "replaces")
	}
	return nil
}

// relatedImages are the operator's image by its digest, and those that it starts by default.
func (o *olm) relatedImages() []any {
	out := []any{object{"name": "manager", "image": o.image + "@" + o.digest.String()}}
	for _, one := range o.operands {
		out = append(out, object{"name": one.name, "image": one.image})
	}
	return out
}

// examples are the first sample of each version of an owned kind, which the console fills its forms with.
func (o *olm) examples() (string, error) {
	owned := map[string]bool{}
	for _, definition := range o.definitions {
		for _, version := range at(definition, "spec", "versions").([]any) {
			owned[fmt.Sprintf("%v/%v %v", at(definition, "spec", "group"), at(version, "name"), at(definition, "spec", "names", "kind"))] = true
		}
	}
	paths, err := filepath.Glob(filepath.Join(o.root, "config", "samples", "*.yaml"))
	if err != nil {
		return "", err
	}
	out := []object{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		objects, err := parse(content)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		for _, u := range objects {
			if gvk := fmt.Sprintf("%v %v", u["apiVersion"], u["kind"]); owned[gvk] {
				out = append(out, u)
				delete(owned, gvk)
			}
		}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return string(text), err
}

// parse reads a stream of manifests.
func parse(content []byte) ([]object, error) {
	var out []object
	for _, document := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(content), -1) {
		var u object
		if err := yaml.UnmarshalStrict([]byte(document), &u); err != nil {
			return nil, err
		}
		if len(u) > 0 {
			out = append(out, u)
		}
	}
	return out, nil
}

// stream is the contrary of parse.
func stream(objects []object) []byte {
	var out []byte
	for _, u := range objects {
		out = append(append(out, "---\n"...), marshal(u)...)
	}
	return out
}

// marshal writes what came out of YAML or JSON, which cannot fail.
func marshal(v any) []byte {
	data, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// at returns a field of an object.
func at(u any, path ...string) any {
	for _, field := range path {
		fields, _ := u.(object)
		u = fields[field]
	}
	return u
}

// set sets a field of an object.
func set(u object, value any, path ...string) {
	for _, field := range path[:len(path)-1] {
		if u[field] == nil {
			u[field] = object{}
		}
		u = u[field].(object)
	}
	u[path[len(path)-1]] = value
}

func named(u object) string { return at(u, "metadata", "name").(string) }

// key tells an object from others of an installation.
func key(u object) string { return fmt.Sprintf("%v %s", u["kind"], named(u)) }
