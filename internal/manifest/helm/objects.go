package helm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/objectmeta"
)

// maxObjects, maxOutput and maxValues bound what one chart renders; maxOutput is in bytes, and maxValues counts every value of
// every object, since a list of nothing takes more memory than text.
const maxObjects, maxOutput, maxValues = 2000, 32 << 20, 1 << 20

// policyAnnotation says, with the value keep, that an object is retained after its release.
const policyAnnotation = "helm.sh/resource-policy"

// Keeps says that an object is retained after its release, and when it leaves the chart. An uninstallation by Helm ignores the case of the
// policy and the spaces around it (pkg/action, filterManifestsToKeep), an upgrade does not: what one of the two keeps is kept by both here.
func Keeps(u *unstructured.Unstructured) bool {
	return strings.EqualFold(strings.TrimSpace(u.GetAnnotations()[policyAnnotation]), "keep")
}

// Released says that an object is of a release that is installed in a namespace, by Helm's marks (pkg/action, setMetadataVisitor). What is
// retained after its release may be all that is left of it.
func Released(u *unstructured.Unstructured, namespace string) bool {
	marks := u.GetAnnotations()
	return marks["meta.helm.sh/release-name"] != "" && marks["meta.helm.sh/release-namespace"] == namespace && !Keeps(u)
}

// decoder sorts the objects of a chart.
type decoder struct {
	in                   Input
	out                  *Rendered
	asked                *templateFunctions
	count, bytes, values int
	// rendered are the objects of the templates, where they are adjusted before hooks are told from the others.
	rendered []*unstructured.Unstructured
}

// file takes the objects of one rendered file.
func (d *decoder) file(name, text string, definitions bool) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if d.bytes += len(text); d.bytes > maxOutput {
		return fmt.Errorf("chart %s renders more than %d bytes: split it", d.in.Chart.Name, maxOutput)
	}
	parts := util.SplitManifests(text)
	keys := make([]string, 0, len(parts))
	for key := range parts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return number(a) - number(b) })
	for _, key := range keys {
		var content map[string]any
		// Helm ends each manifest with a line break, which belongs to a text in several lines at its end.
		if err := decode([]byte(parts[key]+"\n"), &content); err != nil {
			why := d.asked.tell(fmt.Errorf("%s renders no YAML (%w)", name, err), name+" renders no YAML")
			return fmt.Errorf("chart %s: %s: correct its values or its template", d.in.Chart.Name, why)
		}
		if len(content) == 0 {
			continue
		}
		if err := d.object(name, content, definitions); err != nil {
			return err
		}
	}
	return nil
}

// number is the place of a document in its file, from the key that SplitManifests gives it.
func number(key string) int {
	n, _ := strconv.Atoi(key[strings.LastIndexByte(key, '-')+1:])
	return n
}

func (d *decoder) object(file string, content map[string]any, definitions bool) error {
	u := &unstructured.Unstructured{Object: content}
	if u.IsList() {
		items, _, _ := unstructured.NestedSlice(content, "items")
		for _, item := range items {
			one, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("chart %s: %s renders a list of something else than objects: correct its template", d.in.Chart.Name, file)
			}
			if err := d.object(file, one, definitions); err != nil {
				return err
			}
		}
		return nil
	}
	if u.GetKind() == "" || u.GetAPIVersion() == "" || u.GetName() == "" {
		return fmt.Errorf("chart %s: %s renders an object without apiVersion, kind or name: correct its values or its template", d.in.Chart.Name, file)
	}
	if d.count++; d.count > maxObjects {
		return fmt.Errorf("chart %s renders more than %d objects: split it", d.in.Chart.Name, maxObjects)
	}
	if d.values += bounded.Values(u.Object); d.values > maxValues {
		return fmt.Errorf("chart %s renders objects of more than %d values: split it", d.in.Chart.Name, maxValues)
	}
	if d.in.Adjustments.Any() && !definitions {
		d.rendered = append(d.rendered, u)
		return d.check(file, u)
	}
	return d.sort(file, u, definitions)
}

// adjust adjusts all objects of the templates together, hooks included, and sorts them then. So does Helm 4 with what it has post-rendered
// (pkg/action, renderResources, PostRenderStrategyCombined): a patch may make a hook of an object. Helm 3 left hooks out.
func (d *decoder) adjust() error {
	objects, err := d.in.Adjustments.Adjust(d.rendered)
	if wrong := (*kustomize.FieldError)(nil); errors.As(err, &wrong) {
		wrong.Why = d.asked.tell(errors.New(wrong.Why), "it cannot be applied to what the chart renders")
	}
	if err != nil {
		return err
	}
	for _, u := range objects {
		if err := d.sort("a patch of it", u, false); err != nil {
			return err
		}
	}
	return nil
}

// sort puts an object into its list.
func (d *decoder) sort(file string, u *unstructured.Unstructured, definitions bool) error {
	unstructured.RemoveNestedField(u.Object, "status")
	to := &d.out.Objects
	switch _, isHook := annotation(u, hookAnnotation); {
	case definitions:
		to = &d.out.Definitions
	case isHook:
		if to = d.hook(u); to == nil {
			return nil
		}
	}
	if err := d.check(file, u); err != nil {
		return err
	}
	relabel(u)
	*to = append(*to, u)
	return nil
}

// check refuses an object whose labels or annotations are no texts.
func (d *decoder) check(file string, u *unstructured.Unstructured) error {
	if err := objectmeta.Check(u.Object); err != nil {
		return fmt.Errorf("chart %s: %s: %s %s: %w in its template or its values", d.in.Chart.Name, file, u.GetKind(), u.GetName(), err)
	}
	return nil
}

// annotation is the text of an annotation. That another one is a number, which Helm makes a text of where it looks for hooks
// (pkg/release/v1/util, SimpleHead), does not hide it.
func annotation(u *unstructured.Unstructured, name string) (text string, found bool) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, found := annotations[name]
	text, _ = value.(string)
	return text, found
}

// managedBy is the label that says who keeps an object; templates write Helm there.
const managedBy = "app.kubernetes.io/managed-by"

// relabel says who keeps the object. Selectors and the templates of pods stay as the chart has them.
func relabel(u *unstructured.Unstructured) {
	labels := u.GetLabels()
	if labels[managedBy] == "Helm" {
		labels[managedBy] = "mlkeeper"
		u.SetLabels(labels)
	}
}
