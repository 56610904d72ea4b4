package tfserving

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// TestARequestOutlivesItsPodsDeletion: the server ends with the grace period and not before, so that this has to be as long as a request may take.
func TestARequestOutlivesItsPodsDeletion(t *testing.T) {
	for fields, want := range map[string]struct {
		grace    int64
		deadline int32
		warning  string
	}{
		"":                                       {70, 720, ""},
		"  server: {restTimeoutMillis: 60000}\n": {70, 720, ""},
		"  server: {restTimeoutMillis: 60001}\n": {71, 721, ""},
		"  server: {restTimeoutMillis: 300000}\n":                                        {310, 960, ""},
		"  server: {restTimeoutMillis: 86400000}\n":                                      {3600, 4250, "leaves 3590 seconds"},
		"  terminationGracePeriodSeconds: 10\n":                                          {10, 720, ""},
		"  terminationGracePeriodSeconds: 30\n  server: {restTimeoutMillis: 30000}\n":    {30, 720, "leaves 20 seconds"},
		"  terminationGracePeriodSeconds: 7200\n  server: {restTimeoutMillis: 300000}\n": {7200, 7850, ""},
	} {
		_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline+fields))
		spec := deployed(t, p, "tfs").Spec
		if got := *spec.Template.Spec.TerminationGracePeriodSeconds; got != want.grace || *spec.ProgressDeadlineSeconds != want.deadline {
			t.Errorf("%q: a grace period of %d s and a deadline of %d s, not %d and %d", fields, got, *spec.ProgressDeadlineSeconds, want.grace, want.deadline)
		}
		if got := strings.Join(p.Warnings, "\n"); (got != "") != (want.warning != "") || !strings.Contains(got, want.warning) {
			t.Errorf("%q: warnings %q", fields, got)
		}
	}
}

const ofPods = `
  env:
    - {name: TF_CPP_MIN_LOG_LEVEL, value: "1"}
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: tokens, key: token}}}
    - {name: MODE, valueFrom: {configMapKeyRef: {name: modes, key: mode, optional: true}}}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
  podLabels: {team: search, sidecar.istio.io/inject: "true"}
  podAnnotations: {example.com/cost-centre: "4711"}
`

// TestPodsHaveWhatTheirOwnerGivesThem, in both tracks, and selectors have nothing of it.
func TestPodsHaveWhatTheirOwnerGivesThem(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, withCanary+ofPods)
	_, p := gatherAndRender(t, c, cr)
	for _, name := range []string{"tfs", "tfs-canary"} {
		d := deployed(t, p, name)
		labels := map[string]string{"team": "search", "sidecar.istio.io/inject": "true", selectorLabel: name}
		if diff := cmp.Diff(labels, d.Spec.Template.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if d.Spec.Template.Annotations["example.com/cost-centre"] != "4711" || d.Spec.Template.Annotations[configHashAnnotation] == "" {
			t.Errorf("annotations %v", d.Spec.Template.Annotations)
		}
		selector := map[string]string{selectorLabel: name}
		if got := served(t, p, name+"-service").Spec.Selector; !maps.Equal(d.Spec.Selector.MatchLabels, selector) || !maps.Equal(got, selector) {
			t.Errorf("the selectors are %v and %v", d.Spec.Selector.MatchLabels, got)
		}
		env := d.Spec.Template.Spec.Containers[0].Env
		var names []string
		for _, e := range env {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, []string{"TF_CPP_MIN_LOG_LEVEL", "TOKEN", "MODE", "POD", "CPUS"}) {
			t.Fatalf("variables %v", names)
		}
		for i, set := range map[int]func(*corev1.EnvVarSource) bool{
			1: func(s *corev1.EnvVarSource) bool { return s.SecretKeyRef.Name == "tokens" },
			2: func(s *corev1.EnvVarSource) bool { return *s.ConfigMapKeyRef.Optional },
			3: func(s *corev1.EnvVarSource) bool { return s.FieldRef.FieldPath == "metadata.name" },
			4: func(s *corev1.EnvVarSource) bool { return s.ResourceFieldRef.Resource == "limits.cpu" },
		} {
			if env[i].Value != "" || !set(env[i].ValueFrom) {
				t.Errorf("%+v", env[i])
			}
		}
	}
}

// TestMLKeepersOwnMarksWin, also over what was stored before the schema refused it: pods without them would belong to nobody.
func TestMLKeepersOwnMarksWin(t *testing.T) {
	cr := custom(t, inline+"  podLabels: {tfsName: other}\n  podAnnotations: {"+configHashAnnotation+": other}\n")
	_, p := gatherAndRender(t, controllertest.New(testNow), cr)
	if got := deployed(t, p, "tfs").Spec.Template; got.Labels[selectorLabel] != "tfs" || got.Annotations[configHashAnnotation] == "other" {
		t.Errorf("%v, %v", got.Labels, got.Annotations)
	}
}
