package trustyai

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/pki"
)

// logged is a cluster with an InferenceService that a logger is set on, and custom resources of which the later ones are younger.
func logged(t *testing.T, names ...string) (*cluster, []*v1.TrustyAIService) {
	t.Helper()
	c := newCluster()
	c.Edited[WireKServe] = []*unstructured.Unstructured{isvc(t, "RawDeployment", "")}
	var all []*v1.TrustyAIService
	for i, name := range names {
		cr := custom(t, strings.Replace(upstreamSpec, "tas", name, 1))
		cr.CreationTimestamp = metav1.NewTime(testNow.Add(time.Duration(i) * time.Minute))
		all = append(all, cr)
	}
	return c, all
}

// renderAmong renders one of the custom resources of a namespace, with its certificates stored.
func renderAmong(t *testing.T, c *cluster, all []*v1.TrustyAIService, i int) plan.Plan {
	t.Helper()
	c.Others = nil
	for j, other := range all {
		if j != i {
			c.Others = append(c.Others, other)
		}
	}
	_, p := stored(t, c, all[i])
	return p
}

func bundleIn(p plan.Plan, t *testing.T) string {
	t.Helper()
	u := find(p, "ConfigMap", loggerCA)
	if u == nil {
		return ""
	}
	text, _, _ := unstructured.NestedString(u.Object, "data", loggerCAFile)
	return text
}

func authorityIn(c *cluster, name string) string {
	secret := c.Objects[plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: name + "-ca"}]
	return string(controller.SecretData(secret)["tls.crt"])
}

// TestLoggersGetTheAuthority: where a logger sends over TLS, the ConfigMap that KServe's agent mounts has the authority of every service
// of the namespace that it may send to, one custom resource keeps it, and the next one makes it when that one has gone.
func TestLoggersGetTheAuthority(t *testing.T) {
	c, all := logged(t, "tas", "young")
	young := renderAmong(t, c, all, 1)
	if got := bundleIn(young, t); got != "" {
		t.Errorf("the younger one makes it: %s", got)
	}
	got := bundleIn(renderAmong(t, c, all, 0), t)
	for _, name := range []string{"tas", "young"} {
		if ca := authorityIn(c, name); ca == "" || !strings.Contains(got, ca) {
			t.Errorf("it has no authority of %s: %s", name, got)
		}
	}
	if strings.Contains(got, "PRIVATE") || strings.Count(got, "BEGIN") != 2 {
		t.Errorf("it holds %s", got)
	}
	// While the Secret with the authority is not there, what is mounted stays.
	if again := bundleIn(renderAmong(t, c, all, 0), t); again != got {
		t.Errorf("it becomes %s", again)
	}
	c.Remove(plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: loggerCA})
	alone := renderAmong(t, c, all[1:], 0)
	if got := bundleIn(alone, t); got != authorityIn(c, "young") {
		t.Errorf("once the older one has gone, it is %q", got)
	}
}

// TestLoggersGetTheAuthorityWhereTheySendOverTLS: no other namespace gets the ConfigMap.
func TestLoggersGetTheAuthorityWhereTheySendOverTLS(t *testing.T) {
	for name, change := range map[string]func(*cluster, *v1.TrustyAIService){
		"none":         func(c *cluster, _ *v1.TrustyAIService) { c.Edited[WireKServe] = nil },
		"ModelMesh":    func(c *cluster, _ *v1.TrustyAIService) { c.Edited[WireKServe][0] = isvc(t, "ModelMesh", "") },
		"not selected": func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.InferenceServices = selectorFor("team", "other") },
	} {
		c, all := logged(t, "tas")
		change(c, all[0])
		if got := find(renderAmong(t, c, all, 0), "ConfigMap", loggerCA); got != nil {
			t.Errorf("%s: there is %v", name, got)
		}
	}
}

func selectorFor(key, value string) *v1.InferenceServicesSpec {
	return &v1.InferenceServicesSpec{Selector: &keeper.LabelSelector{MatchLabels: map[string]keeper.LabelValue{key: keeper.LabelValue(value)}}}
}

// TestServiceCAFillsTheLoggersBundle: OpenShift's own authority is asked for, since it replaces all that such a ConfigMap holds.
func TestServiceCAFillsTheLoggersBundle(t *testing.T) {
	c, all := logged(t, "tas")
	c.APIs[gvkServiceCA] = true
	for _, name := range []string{"tas-tls", "tas-internal"} {
		c.Put(secretOf2("ns", name, map[string]string{"tls.crt": "x", "tls.key": "y"}))
	}
	_, p := gatherAndRender(t, c, all[0])
	u := find(p, "ConfigMap", loggerCA)
	if u == nil || u.GetAnnotations()[injectCA] != "true" || u.Object["data"] != nil {
		t.Errorf("it is %v", u)
	}
}

// TestLoggersBundleOfAUserStays: MLKeeper neither writes it nor waits for it, and says when it does not verify the service.
func TestLoggersBundleOfAUserStays(t *testing.T) {
	c, all := logged(t, "tas")
	theirs := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{loggerCAFile: "none"}}}
	theirs.SetGroupVersionKind(gvkConfigMap)
	theirs.SetNamespace("ns")
	theirs.SetName(loggerCA)
	c.Put(theirs)
	p := renderAmong(t, c, all, 0)
	if find(p, "ConfigMap", loggerCA) != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], loggerCA) {
		t.Errorf("it is written, or nothing is said: %v, %v", p.Warnings, find(p, "ConfigMap", loggerCA))
	}
	other, err := pki.NewAuthority(rand.Reader, testNow, "other")
	if err != nil {
		t.Fatal(err)
	}
	theirs.Object["data"] = map[string]any{loggerCAFile: string(other.CertPEM) + "\n" + authorityIn(c, "tas")}
	if p := renderAmong(t, c, all, 0); len(p.Warnings) > 0 {
		t.Errorf("it has the authority: %v", p.Warnings)
	}
}

// TestLoggersBundleIsKeptWithoutItsMark: whoever edits one of the marks that say whose it is has the ConfigMap repaired, and no other.
func TestLoggersBundleIsKeptWithoutItsMark(t *testing.T) {
	c, all := logged(t, "tas", "young")
	renderAmong(t, c, all, 0)
	live := c.Objects[plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: loggerCA}]
	gone := all[0].DeepCopy()
	gone.Name = "gone"
	oldest, young := stackOf(all[0]), stackOf(all[1])
	for name, c := range map[string]struct {
		annotation, label string
		want              []bool
	}{
		"the annotation says nobody":       {"nobody", oldest.Hash(), []bool{true, false}},
		"no annotation":                    {"", oldest.Hash(), []bool{true, false}},
		"the annotation says a namesake":   {oldest.ID() + "-changed", oldest.Hash(), []bool{true, false}},
		"both say nobody":                  {"nobody", "nobody", []bool{true, false}},
		"another than the oldest made it":  {young.ID(), young.Hash(), []bool{false, true}},
		"the label says nobody":            {young.ID(), "nobody", []bool{false, true}},
		"the service that made it is gone": {ownerID(gone), stackOf(gone).Hash(), []bool{false, false}},
	} {
		live.SetAnnotations(map[string]string{keeper.OwnerAnnotation: c.annotation})
		live.SetLabels(map[string]string{keeper.ControllerLabel: ControllerName, keeper.StackLabel: c.label})
		for i, want := range c.want {
			if got := keepsLoggerCA(live, all[i], i == 0); got != want {
				t.Errorf("%s: %s keeps it: %t", name, all[i].Name, got)
			}
		}
	}
}

// TestLoggersBundleHoldsCertificatesOnly: who may read ConfigMaps, and not Secrets, gets nothing else out of the Secret that the spec names.
func TestLoggersBundleHoldsCertificatesOnly(t *testing.T) {
	c, all := logged(t, "tas")
	authority, err := pki.NewAuthority(rand.Reader, testNow, "authority")
	if err != nil {
		t.Fatal(err)
	}
	all[0].Spec.TLS = &v1.TLSSpec{SecretName: "mine"}
	c.Put(secretOf2("ns", "mine", map[string]string{
		"tls.crt": "x", "tls.key": "y", "ca.crt": "a password\n" + string(authority.KeyPEM) + string(authority.CertPEM),
	}))
	_, p := gatherAndRender(t, c, all[0])
	if got := bundleIn(p, t); got != string(authority.CertPEM) {
		t.Errorf("it holds %s", got)
	}
}
