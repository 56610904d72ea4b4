package convert

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// The most that a Tfserv may have of each, as its schema says.
const (
	maxVariables, maxMarks = 64, 32
	minGrace, maxGrace     = 10, 86400
	// defaultGrace is the grace period that the API server gives to a pod whose owner has said nothing.
	defaultGrace = 30
)

var (
	variableName = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)
	labelValue   = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// grace converts the grace period of the pods.
func (c *conversion) grace(path []string) {
	field := append(slices.Clone(path), "terminationGracePeriodSeconds")
	switch n, ok := c.number(field...); {
	case !ok:
	case n == defaultGrace:
		c.note(join(field), "%d is Kubernetes' default and is not converted: that of a Tfserv is longer, so that requests end", n)
	case n < minGrace || n > maxGrace:
		c.warn(join(field), "%d is not converted: a Tfserv may have %d to %d", n, minGrace, maxGrace)
	default:
		c.out.Spec.TerminationGracePeriodSeconds = ptr.To(n)
	}
}

// strategy converts how the pods of a Deployment are replaced. What the API server adds by default is no decision of its owner, and would have fewer
// servers than declared meanwhile.
func (c *conversion) strategy() {
	s, ok := decode[v1alpha1.StrategySpec](c, "spec", "strategy")
	if !ok {
		return
	}
	byDefault := func(n *intstr.IntOrString) bool { return n == nil || n.StrVal == "25%" }
	switch r := s.RollingUpdate; {
	case s.Type == appsv1.RecreateDeploymentStrategyType:
		c.out.Spec.Strategy = &v1alpha1.StrategySpec{Type: s.Type}
	case r == nil || byDefault(r.MaxSurge) && byDefault(r.MaxUnavailable):
		c.note("spec.strategy", "is Kubernetes' default and is not converted: a Tfserv has no fewer servers than declared, unless GPUs or its claim "+
			"ask for it")
	default:
		c.out.Spec.Strategy = s
	}
}

// variables converts a list of variables but for those that are known, whose values it returns.
func (c *conversion) variables(list []string, known ...string) map[string]string {
	out := map[string]string{}
	for i := range c.left.length(list...) {
		one := append(slices.Clone(list), strconv.Itoa(i))
		at := func(field string) []string { return append(slices.Clone(one), field) }
		named, _ := c.left.peek(at("name")...)
		name, _ := named.(string)
		value, isText := c.left.peek(at("value")...)
		switch text, _ := value.(string); {
		case slices.Contains(known, name) && isText:
			out[name] = text
			c.left.drop(at("name")...)
			c.left.drop(at("value")...)
		case slices.Contains(known, name):
			c.left.drop(one...)
			c.warn(join(one), "%s is not converted: only its value could be, and it has none", name)
		default:
			c.variable(one, name)
		}
	}
	return out
}

// variable converts a variable.
func (c *conversion) variable(one []string, name string) {
	v, ok := peekAs[v1alpha1.EnvVar](c, one...)
	c.left.drop(one...)
	env := &c.out.Spec.Env
	switch {
	case !ok || !variableName.MatchString(name) || v.ValueFrom != nil && (v.Value != "" || !oneSource(v.ValueFrom)):
		c.warn(join(one), "%q is not converted: spec.env has names of letters, digits, '-', '_' and '.', with a value, or a valueFrom with secretKeyRef, "+
			"configMapKeyRef, fieldRef or resourceFieldRef", name)
		return
	case slices.ContainsFunc(*env, func(e v1alpha1.EnvVar) bool { return e.Name == name }):
		// Kubernetes takes the last one.
		c.warn(join(one), "%s is there twice: the last one is converted", name)
		*env = slices.DeleteFunc(*env, func(e v1alpha1.EnvVar) bool { return e.Name == name })
	case len(*env) == maxVariables:
		c.warn(join(one), "%s is not converted: a Tfserv has %d variables at most", name, maxVariables)
		return
	}
	*env = append(*env, *v)
}

// oneSource says that a variable has exactly one source.
func oneSource(from *v1alpha1.EnvVarSource) bool {
	n := 0
	for _, there := range []bool{
		from.SecretKeyRef != nil && from.SecretKeyRef.Name != "", from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name != "",
		from.FieldRef != nil, from.ResourceFieldRef != nil,
	} {
		if there {
			n++
		}
	}
	return n == 1
}

// podLabels converts labels of the pods, but for those that are to be left out.
func (c *conversion) podLabels(field string, labels map[string]string, leaveOut map[string]bool) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case leaveOut[key]:
		case reserved(key), ofKnative(key), !labelValue.MatchString(labels[key]), len(c.out.Spec.PodLabels) == maxMarks:
			c.warn(field, "%s is not converted: it is MLKeeper's, Kubernetes' or Knative's own, no label, or one of more than %d", key, maxMarks)
		default:
			if c.out.Spec.PodLabels == nil {
				c.out.Spec.PodLabels = map[string]v1alpha1.LabelValue{}
			}
			c.out.Spec.PodLabels[key] = v1alpha1.LabelValue(labels[key])
		}
	}
}

// podAnnotations converts annotations of the pods.
func (c *conversion) podAnnotations(path ...string) {
	annotations, ok := decode[map[string]string](c, path...)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(*annotations)) {
		switch {
		case strings.HasPrefix(key, "kubectl.kubernetes.io/"):
			// A restart, or the container that kubectl shows first.
			c.note(join(append(slices.Clone(path), key)), "is not converted, since it is about the old pods")
		case reserved(key), ofKnative(key), strings.Contains(key, "apparmor.security"), len(c.out.Spec.PodAnnotations) == maxMarks:
			c.warn(join(append(slices.Clone(path), key)), "is not converted: it is MLKeeper's or Knative's own, names a container that the new pods do not "+
				"have, or is one of more than %d", maxMarks)
		default:
			if c.out.Spec.PodAnnotations == nil {
				c.out.Spec.PodAnnotations = map[string]v1alpha1.AnnotationValue{}
			}
			c.out.Spec.PodAnnotations[key] = v1alpha1.AnnotationValue((*annotations)[key])
		}
	}
}

// reserved says that a label or annotation is one that a Tfserv may not give to its pods.
func reserved(key string) bool {
	return key == "tfsName" || key == "pod-template-hash" || strings.HasPrefix(key, keeper.AnnotationPrefix) ||
		strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/")
}

// ofKnative says that a label or annotation is read by Knative or KServe only.
func ofKnative(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(domain, "knative.dev") || strings.HasSuffix(domain, "kserve.io")
}
