package kustomize

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// kustomizationFile is the only name of a kustomization that kfctl knew.
const kustomizationFile = "kustomization.yaml"

// legacy generates the kustomization of one application from its base and its overlays.
type legacy struct {
	tree *tree
	app  Application
	// dir is the application's folder, absolute.
	dir    string
	params *params
	into   types.Kustomization
	// flat says that the application has no base, so that its own kustomization is used as it is.
	flat     bool
	seen     map[string]bool
	warnings []string
}

// generate writes the kustomization into the tree. It returns false when there is nothing to render, which kfctl took
// for an application without objects.
func (l *legacy) generate() (bool, error) {
	merged, err := l.mergeAll()
	if err != nil {
		return false, err
	}
	l.flat = !merged
	for _, p := range l.app.Parameters {
		if p.Name != "namespace" && !l.params.used[p.Name] && merged {
			l.warn("parameter %q is ignored: no %s has a line for it", p.Name, paramsFile)
		}
	}
	k := &l.into
	if len(k.Resources)+len(k.ConfigMapGenerator)+len(k.SecretGenerator)+len(k.Components)+len(k.Generators)+
		len(k.HelmCharts)+len(k.HelmChartInflationGenerator) == 0 {
		l.warn("nothing is rendered: neither %s nor %s lists anything",
			displayPath(path.Join(l.dir, "base", kustomizationFile)), displayPath(path.Join(l.dir, kustomizationFile)))
		return false, nil
	}
	k.Images = append(imagesOf(l.app), k.Images...)
	content, err := yaml.Marshal(k)
	if err != nil {
		return false, err
	}
	l.tree.written[path.Join(l.dir, kustomizationFile)] = content
	return true, nil
}

// mergeAll fills the kustomization: with the application's own when it has no base, else with base and overlays. It
// returns false in the first case, in which kfctl looked at nothing else of the application.
func (l *legacy) mergeAll() (bool, error) {
	l.seen = map[string]bool{}
	l.into.TypeMeta = types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}
	base := path.Join(l.dir, "base")
	if l.tree.Exists(path.Join(base, kustomizationFile)) {
		if err := l.merge(base); err != nil {
			return false, err
		}
	} else if flat := path.Join(l.dir, kustomizationFile); l.tree.Exists(flat) {
		l.warnFlat(displayPath(flat))
		content, err := l.tree.ReadFile(flat)
		if err != nil {
			return false, err
		}
		if err := l.into.Unmarshal(content); err != nil {
			return false, fmt.Errorf("%s: %w: correct the file", displayPath(flat), err)
		}
		l.into.FixKustomization()
		return false, nil
	}
	for _, p := range l.app.Parameters {
		if p.Name == "namespace" {
			l.into.Namespace = p.Value
		}
	}
	for _, name := range l.app.Overlays {
		if err := l.overlay(name); err != nil {
			return false, err
		}
	}
	l.group6902()
	return true, nil
}

// warnFlat reports what kfctl ignored without a word when an application has no base.
func (l *legacy) warnFlat(file string) {
	if len(l.app.Overlays) > 0 {
		l.warn("overlays %s are ignored: the application has no base, and %s is used as it is", list(l.app.Overlays), file)
	}
	var names []string
	for _, p := range l.app.Parameters {
		names = append(names, p.Name)
	}
	if len(names) > 0 {
		l.warn("parameters %s are ignored: the application has no base, and %s is used as it is", list(names), file)
	}
}

func (l *legacy) overlay(name string) error {
	if err := folderName("kustomizeConfig.overlays", name); err != nil {
		return err
	}
	dir := path.Join(l.dir, "overlays", name)
	if !l.tree.IsDir(dir) {
		return fmt.Errorf("overlay %q is not in the repository, which has no folder %s: remove it from overlays or correct it",
			name, displayPath(dir))
	}
	return l.merge(dir)
}

// merge adds the kustomization of one folder. One that names no bases is a base itself; of any other the fields that
// kfctl knew are added, which is not what kustomize would do with it, but is needed: each overlay names the base.
func (l *legacy) merge(dir string) error {
	file := path.Join(dir, kustomizationFile)
	content, err := l.tree.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s is missing: add it, or correct the overlays", displayPath(file))
	}
	if env := path.Join(dir, paramsFile); l.tree.Exists(env) {
		lines, err := l.tree.ReadFile(env)
		if err != nil {
			return err
		}
		l.tree.written[env] = l.params.apply(lines)
	}
	var raw map[string]any
	var child types.Kustomization
	if err := yaml.Unmarshal(content, &raw); err != nil {
		return fmt.Errorf("%s: %w: correct the file", displayPath(file), err)
	}
	if err := yaml.Unmarshal(content, &child); err != nil {
		return fmt.Errorf("%s: %w: correct the file", displayPath(file), err)
	}
	if raw["bases"] == nil {
		l.resource(l.rel(dir, "."))
		return nil
	}
	l.warnDropped(displayPath(file), raw, child)
	l.mergeNames(child)
	l.mergeLists(dir, child)
	l.mergeConfigMaps(dir, displayPath(file), child)
	l.mergeSecrets(dir, displayPath(file), child)
	return nil
}

// mergedFields are what the merge takes over; kfctl dropped the others.
var mergedFields = []string{
	"apiVersion", "kind", "metadata", "bases", "resources", "namePrefix", "nameSuffix", "commonLabels", "commonAnnotations",
	"generatorOptions", "images", "crds", "configMapGenerator", "secretGenerator", "vars", "patchesStrategicMerge",
	"configurations", "patchesJson6902",
}

func (l *legacy) warnDropped(file string, raw map[string]any, child types.Kustomization) {
	var dropped []string
	for field, content := range raw {
		if content != nil && !slices.Contains(mergedFields, field) {
			dropped = append(dropped, field)
		}
	}
	if slices.ContainsFunc(child.PatchesJson6902, func(p types.Patch) bool { return p.Path == "" }) {
		dropped = append(dropped, "inline patchesJson6902")
	}
	if len(dropped) > 0 {
		slices.Sort(dropped)
		l.warn("%s: %s ignored, as kfctl did, which merged only the fields of its time", file, list(dropped))
	}
}

func (l *legacy) mergeNames(child types.Kustomization) {
	k := &l.into
	if k.NamePrefix == "" {
		k.NamePrefix = child.NamePrefix
	}
	if k.NameSuffix == "" {
		k.NameSuffix = child.NameSuffix
	}
	if k.GeneratorOptions == nil {
		k.GeneratorOptions = child.GeneratorOptions
	}
	for name, value := range child.CommonLabels {
		if k.CommonLabels == nil {
			k.CommonLabels = map[string]string{}
		}
		k.CommonLabels[name] = value
	}
	for name, value := range child.CommonAnnotations {
		if k.CommonAnnotations == nil {
			k.CommonAnnotations = map[string]string{}
		}
		k.CommonAnnotations[name] = value
	}
}

func (l *legacy) mergeLists(dir string, child types.Kustomization) {
	k := &l.into
	for _, p := range child.Bases {
		l.resource(l.rel(dir, p))
	}
	for _, p := range child.Resources {
		// Not by way of resource: kfctl kept bases and resources apart, so that an overlay that lists its base in both
		// failed on the second copy. It still does.
		if p = l.rel(dir, p); l.first("resource", p) {
			k.Resources = append(k.Resources, p)
		}
	}
	for _, image := range child.Images {
		if l.first("image", image.Name) {
			k.Images = append(k.Images, image)
		}
	}
	for _, p := range child.Crds {
		if p = l.rel(dir, p); l.first("crd", p) {
			k.Crds = append(k.Crds, p)
		}
	}
	for _, v := range child.Vars {
		if l.first("var", v.Name) {
			k.Vars = append(k.Vars, v)
		}
	}
	for _, patch := range child.PatchesStrategicMerge {
		if p := l.rel(dir, string(patch)); l.first("patch", p) {
			k.PatchesStrategicMerge = append(k.PatchesStrategicMerge, types.PatchStrategicMerge(p))
		}
	}
	for _, p := range child.Configurations {
		if p = l.rel(dir, p); l.first("configuration", p) {
			k.Configurations = append(k.Configurations, p)
		}
	}
	for _, patch := range child.PatchesJson6902 {
		if patch.Path == "" || patch.Target == nil {
			continue
		}
		if p := l.rel(dir, patch.Path); l.first("patch6902", p+"-"+patch.Target.Name) {
			k.PatchesJson6902 = append(k.PatchesJson6902, types.Patch{Path: p, Target: patch.Target})
		}
	}
}

// group6902 gives the JSON patches of one name and kind the target of the first of them, and puts them side by side.
// kfctl concatenated their files, in an order that changed from run to run; here it is that of the overlays.
func (l *legacy) group6902() {
	var keys []string
	groups := map[string][]types.Patch{}
	for _, patch := range l.into.PatchesJson6902 {
		key := patch.Target.Name + "-" + patch.Target.Kind
		if groups[key] == nil {
			keys = append(keys, key)
		} else {
			patch.Target = groups[key][0].Target
		}
		groups[key] = append(groups[key], patch)
	}
	l.into.PatchesJson6902 = nil
	for _, key := range keys {
		l.into.PatchesJson6902 = append(l.into.PatchesJson6902, groups[key]...)
	}
}

func (l *legacy) mergeConfigMaps(dir, file string, child types.Kustomization) {
	for _, args := range child.ConfigMapGenerator {
		merged := types.ConfigMapArgs{GeneratorArgs: l.generator(dir, file, args.GeneratorArgs)}
		if args.Options != nil {
			l.warn("%s: options of ConfigMap %q ignored, as kfctl did", file, args.Name)
		}
		if types.NewGenerationBehavior(args.Behavior) != types.BehaviorCreate || l.first("configmap", args.Name) {
			l.into.ConfigMapGenerator = append(l.into.ConfigMapGenerator, merged)
		}
	}
}

func (l *legacy) mergeSecrets(dir, file string, child types.Kustomization) {
	for _, args := range child.SecretGenerator {
		merged := types.SecretArgs{GeneratorArgs: l.generator(dir, file, args.GeneratorArgs), Type: args.Type}
		merged.Options = args.Options
		if types.NewGenerationBehavior(args.Behavior) != types.BehaviorCreate || l.first("secret", args.Name) {
			l.into.SecretGenerator = append(l.into.SecretGenerator, merged)
		}
	}
}

// generator takes over the sources of a generated ConfigMap or Secret. kfctl made the last of its files one of lines
// name=value and lost the others; KfDefs that rendered with it rely on the first and cannot miss the second.
func (l *legacy) generator(dir, file string, args types.GeneratorArgs) types.GeneratorArgs {
	out := types.GeneratorArgs{Namespace: args.Namespace, Name: args.Name, Behavior: args.Behavior}
	for _, p := range args.EnvSources {
		out.EnvSources = append(out.EnvSources, l.rel(dir, p))
	}
	if args.EnvSource != "" {
		out.EnvSource = l.rel(dir, args.EnvSource)
	}
	if n := len(args.FileSources); n > 0 {
		out.EnvSource = l.rel(dir, args.FileSources[n-1])
		l.warn("%s: of the files of generator %q only the last is read, as lines name=value, as kfctl did. Use envs",
			file, args.Name)
	}
	out.LiteralSources = slices.Clone(args.LiteralSources)
	return out
}

// resource adds a folder once, however many overlays name it.
func (l *legacy) resource(p string) {
	if l.first("base", p) {
		l.into.Resources = append(l.into.Resources, p)
	}
}

// rel turns a path as seen from dir into one as seen from the application's folder. An address stays what it is, to be
// refused by its own name.
func (l *legacy) rel(dir, p string) string {
	if IsRemote(p) {
		return p
	}
	joined := path.Join(dir, p)
	if joined == l.dir {
		return "."
	}
	if rest, ok := strings.CutPrefix(joined, l.dir+"/"); ok {
		return rest
	}
	up := "../"
	for parent := path.Dir(l.dir); ; parent = path.Dir(parent) {
		if parent == "/" {
			return up + strings.TrimPrefix(joined, "/")
		}
		if rest, ok := strings.CutPrefix(joined, parent+"/"); ok {
			return up + rest
		}
		up += "../"
	}
}

func (l *legacy) first(kind, name string) bool {
	key := kind + "\x00" + name
	if l.seen[key] {
		return false
	}
	l.seen[key] = true
	return true
}

func (l *legacy) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// list shows names in a message, not more than fit.
func list(names []string) string {
	if len(names) > maxReported {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxReported], ", "), len(names)-maxReported)
	}
	return strings.Join(names, ", ")
}

// imagesOf are the replacements that the application itself asks for. They come first, so that they win.
func imagesOf(a Application) []types.Image {
	var images []types.Image
	for _, i := range a.Images {
		images = append(images, types.Image{Name: i.Name, NewName: i.NewName, NewTag: i.NewTag, Digest: i.Digest})
	}
	return images
}
