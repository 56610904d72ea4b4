// Package convert makes Tfservs of what serves TensorFlow models otherwise: KServe's InferenceServices with the TensorFlow runtime, and
// Deployments of TensorFlow Serving. It is pure, reads no cluster, and drops nothing silently: a field that becomes something is taken out
// of a copy of the original, and what is left of that copy in the end is reported.
package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// Options are what the originals do not say.
type Options struct {
	// Downloader is the image of the init container that downloads models below s3://.
	Downloader string
	// Suffix is appended to the names, so that a Tfserv can stand beside what it replaces.
	Suffix string
}

// Message is what a user has to know of a conversion.
type Message struct {
	// Object is the original, and Field the path of its field; empty for the whole of it.
	Object, Field string
	Text          string
}

// String is the message in one line.
func (m Message) String() string {
	if m.Field == "" {
		return m.Object + ": " + m.Text
	}
	return m.Object + ": " + m.Field + ": " + m.Text
}

// Result is what a conversion made.
type Result struct {
	Tfservs []*v1alpha1.Tfserv
	// Errors say what could not be converted at all, Warnings what of the originals is in no Tfserv, and Notes what MLKeeper does in another
	// way by itself.
	Errors, Warnings, Notes []Message
}

const (
	noCounterpart = "a Tfserv has no such field, and it is not converted"
	noOriginal    = "is not converted: it is neither an InferenceService nor a Deployment, nor a Service, an autoscaler or a PodDisruptionBudget of one"
	ownOfMLKeeper = "is not converted, since MLKeeper has its own"
)

// Convert makes Tfservs of objects, in their order. Services, ConfigMaps and the like are read for what refers to them.
func Convert(objects []*unstructured.Unstructured, options Options) *Result {
	out := &Result{}
	used := map[*unstructured.Unstructured]bool{}
	for _, u := range objects {
		switch u.GroupVersionKind().GroupKind() {
		case schema.GroupKind{Group: "serving.kserve.io", Kind: "InferenceService"}:
			used[u] = true
			c := newConversion(out, u, options)
			c.inferenceService()
			c.finish()
		case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
			used[u] = true
			c := newConversion(out, u, options)
			c.others, c.used = objects, used
			c.deployment()
			c.finish()
		}
	}
	for _, u := range objects {
		if !used[u] {
			out.Warnings = append(out.Warnings, Message{nameOf(u), "", noOriginal})
		}
	}
	return out
}

func nameOf(u *unstructured.Unstructured) string {
	name := u.GetName()
	if ns := u.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return u.GetKind() + " " + name
}

// conversion is that of one object.
type conversion struct {
	result  *Result
	options Options
	object  string
	left    rest
	out     *v1alpha1.Tfserv
	failed  bool
	others  []*unstructured.Unstructured
	used    map[*unstructured.Unstructured]bool
	// takenMounts are the paths of mounts and volumes that became something. Several files may be in one.
	takenMounts [][]string
}

func newConversion(result *Result, u *unstructured.Unstructured, options Options) *conversion {
	c := &conversion{result: result, options: options, object: nameOf(u), left: rest{u.DeepCopy().Object}, out: &v1alpha1.Tfserv{}}
	c.out.APIVersion, c.out.Kind = v1alpha1.GroupVersion.String(), "Tfserv"
	c.out.Name, c.out.Namespace = u.GetName()+options.Suffix, u.GetNamespace()
	if labels, ok := decode[map[string]string](c, "metadata", "labels"); ok && len(*labels) > 0 {
		c.out.Labels = *labels
	}
	c.left.drop("apiVersion")
	c.left.drop("kind")
	c.left.drop("status")
	for _, field := range []string{
		"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "generateName",
	} {
		c.left.drop("metadata", field)
	}
	c.left.drop("metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	c.left.drop("metadata", "annotations", "deployment.kubernetes.io/revision")
	return c
}

func (c *conversion) fail(field, format string, args ...any) {
	c.failed = true
	c.result.Errors = append(c.result.Errors, Message{c.object, field, fmt.Sprintf(format, args...)})
}

func (c *conversion) warn(field, format string, args ...any) {
	c.result.Warnings = append(c.result.Warnings, Message{c.object, field, fmt.Sprintf(format, args...)})
}

func (c *conversion) note(field, format string, args ...any) {
	c.result.Notes = append(c.result.Notes, Message{c.object, field, fmt.Sprintf(format, args...)})
}

// finish reports what is left of the original, and keeps the Tfserv if there is one.
func (c *conversion) finish() {
	if c.failed {
		return
	}
	for _, path := range c.takenMounts {
		c.left.drop(path...)
	}
	for _, path := range c.left.paths() {
		c.warn(path, noCounterpart)
	}
	c.result.Tfservs = append(c.result.Tfservs, c.out)
}

// own takes fields out that a Tfserv has no use for, since MLKeeper sees to it by itself.
func (c *conversion) own(path []string, fields ...string) {
	for _, field := range fields {
		full := append(slices.Clone(path), field)
		if _, found := c.left.take(full...); found {
			c.note(join(full), "%s", ownOfMLKeeper)
		}
	}
}

// decode takes a field out and decodes it into a type of the API, for which an unknown field is an error.
func decode[T any](c *conversion, path ...string) (*T, bool) {
	value, found := c.left.take(path...)
	if !found || value == nil {
		return nil, false
	}
	out := new(struct {
		Value T `json:"value"`
	})
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(map[string]any{"value": value}, out, true); err != nil {
		c.fail(join(path), "%v", err)
		return nil, false
	}
	return &out.Value, true
}

// scheduling converts what says where pods run.
func (c *conversion) scheduling(path ...string) {
	at := func(field string) []string { return append(slices.Clone(path), field) }
	var s keeper.SchedulingSpec
	any := false
	if v, ok := decode[map[string]string](c, at("nodeSelector")...); ok {
		s.NodeSelector, any = *v, true
	}
	if v, ok := decode[[]corev1.Toleration](c, at("tolerations")...); ok {
		s.Tolerations, any = *v, true
	}
	if v, ok := decode[corev1.Affinity](c, at("affinity")...); ok {
		s.Affinity, any = v, true
	}
	if v, ok := decode[[]corev1.TopologySpreadConstraint](c, at("topologySpreadConstraints")...); ok {
		s.TopologySpreadConstraints, any = *v, true
		c.warn(join(at("topologySpreadConstraints")), "their labelSelector has to select the label tfsName of the new pods")
	}
	if any {
		c.out.Spec.Scheduling = &s
	}
}

// pod converts what a pod has beside its containers and volumes.
func (c *conversion) pod(path ...string) {
	at := func(field string) []string { return append(slices.Clone(path), field) }
	c.scheduling(path...)
	if v, ok := decode[string](c, at("serviceAccountName")...); ok {
		c.out.Spec.ServiceAccountName = *v
	}
	c.left.drop(at("serviceAccount")...)
	if v, ok := decode[string](c, at("priorityClassName")...); ok {
		c.out.Spec.PriorityClassName = *v
	}
	if v, ok := decode[string](c, at("runtimeClassName")...); ok {
		c.out.Spec.RuntimeClassName = *v
	}
	if v, ok := decode[[]corev1.LocalObjectReference](c, at("imagePullSecrets")...); ok {
		c.out.Spec.ImagePullSecrets = *v
	}
	if v, ok := decode[corev1.PodSecurityContext](c, at("securityContext")...); ok && !empty(v) {
		c.out.Spec.PodSecurityContext = v
	}
	c.grace(path)
	// What the API server adds by default.
	c.left.dropEqual("Always", at("restartPolicy")...)
	c.left.dropEqual("ClusterFirst", at("dnsPolicy")...)
	c.left.dropEqual("default-scheduler", at("schedulerName")...)
}

// container converts what the container of the server has beside its arguments, environment and mounts.
func (c *conversion) container(path ...string) {
	at := func(field string) []string { return append(slices.Clone(path), field) }
	c.left.drop(at("name")...)
	if v, ok := decode[string](c, at("image")...); ok {
		c.out.Spec.Image = *v
	}
	if v, ok := decode[corev1.PullPolicy](c, at("imagePullPolicy")...); ok {
		c.out.Spec.ImagePullPolicy = *v
	}
	if v, ok := decode[corev1.ResourceRequirements](c, at("resources")...); ok && !empty(v) {
		c.out.Spec.Resources = v
	}
	if v, ok := decode[corev1.SecurityContext](c, at("securityContext")...); ok && !empty(v) {
		c.out.Spec.SecurityContext = v
	}
	c.own(path, "startupProbe", "readinessProbe", "livenessProbe", "lifecycle")
	c.left.dropEqual("/dev/termination-log", at("terminationMessagePath")...)
	c.left.dropEqual("File", at("terminationMessagePolicy")...)
}

// empty says that a value of the API says nothing.
func empty[T any](v *T) bool {
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	return err == nil && len(u) == 0
}

// rest is what is left of an object.
type rest struct{ object map[string]any }

// find returns what has a field, with the key of it there; a number in the path is an index.
func (r rest) find(path []string) (in any, key string) {
	in = r.object
	for _, key := range path[:len(path)-1] {
		in, _ = value(in, key)
	}
	return in, path[len(path)-1]
}

func value(in any, key string) (any, bool) {
	switch in := in.(type) {
	case map[string]any:
		v, found := in[key]
		return v, found
	case []any:
		if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(in) {
			return in[n], in[n] != nil
		}
	}
	return nil, false
}

// peek reads a field and leaves it.
func (r rest) peek(path ...string) (any, bool) {
	in, key := r.find(path)
	return value(in, key)
}

// take takes a field out.
func (r rest) take(path ...string) (any, bool) {
	in, key := r.find(path)
	v, found := value(in, key)
	if !found {
		return nil, false
	}
	switch in := in.(type) {
	case map[string]any:
		delete(in, key)
	case []any:
		n, _ := strconv.Atoi(key)
		in[n] = nil
	}
	return v, true
}

func (r rest) drop(path ...string) { _, _ = r.take(path...) }

// dropEqual drops a field that has a value.
func (r rest) dropEqual(value any, path ...string) {
	if got, found := r.peek(path...); found && got == value {
		r.drop(path...)
	}
}

// length is that of a list.
func (r rest) length(path ...string) int {
	v, _ := r.peek(path...)
	list, _ := v.([]any)
	return len(list)
}

// paths are those of the fields that are left.
func (r rest) paths() []string {
	out := leaves(r.object, nil)
	slices.Sort(out)
	return out
}

func leaves(value any, path []string) []string {
	var out []string
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, leaves(v[key], append(slices.Clone(path), key))...)
		}
	case []any:
		for i, item := range v {
			out = append(out, leaves(item, append(slices.Clone(path), strconv.Itoa(i)))...)
		}
	default:
		out = append(out, join(path))
	}
	return out
}

// join writes a path as users do.
func join(path []string) string {
	var out strings.Builder
	for _, key := range path {
		switch _, err := strconv.Atoi(key); {
		case err == nil:
			out.WriteString("[" + key + "]")
		case strings.ContainsAny(key, "./"):
			out.WriteString("[" + key + "]")
		default:
			if out.Len() > 0 {
				out.WriteByte('.')
			}
			out.WriteString(key)
		}
	}
	return out.String()
}

// within is the number of pods as a Tfserv may have it.
func (c *conversion) within(field string, n int64) int32 {
	const most = 1000
	if n > most {
		c.warn(field, "%d are more than %d, the most that a Tfserv may have", n, most)
	}
	return int32(min(max(n, 0), most)) //nolint:gosec // Bounded here.
}

// number takes a whole number out.
func (c *conversion) number(path ...string) (int64, bool) {
	value, found := c.left.take(path...)
	if !found {
		return 0, false
	}
	n, isNumber := value.(int64)
	if !isNumber {
		c.fail(join(path), "is no whole number")
	}
	return n, isNumber
}

// text takes a text out.
func (c *conversion) text(path ...string) string {
	value, found := c.left.take(path...)
	if !found {
		return ""
	}
	s, isText := value.(string)
	if !isText {
		c.fail(join(path), "is no text")
	}
	return s
}
