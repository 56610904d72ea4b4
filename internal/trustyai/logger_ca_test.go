package trustyai

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		c.Put(servingCertificate(name, map[string]string{"tls.crt": "x", "tls.key": "y"}))
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
			if got := keepsLoggerCA(live, all[i], all, servicesOf(all)); got != want {
				t.Errorf("%s: %s keeps it: %t", name, all[i].Name, got)
			}
		}
	}
}

func servicesOf(all []*v1.TrustyAIService) (out []client.Object) {
	for _, cr := range all {
		out = append(out, cr)
	}
	return out
}

// bundleOf is the ConfigMap as a custom resource made it, with the authorities of some.
func bundleOf(c *cluster, cr *v1.TrustyAIService, authorities ...string) *unstructured.Unstructured {
	text := ""
	for _, name := range authorities {
		text += authorityIn(c, name)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{loggerCAFile: text}}}
	u.SetGroupVersionKind(gvkConfigMap)
	u.SetNamespace("ns")
	u.SetName(loggerCA)
	u.SetLabels(map[string]string{keeper.ControllerLabel: ControllerName, keeper.StackLabel: stackOf(cr).Hash()})
	c.Own(u, ownerID(cr))
	return u
}

// TestABundleThatAnotherDoesNotUpdateIsWarnedOf: the agent of a service whose authority it lacks sends nothing, whoever was to add it.
func TestABundleThatAnotherDoesNotUpdateIsWarnedOf(t *testing.T) {
	suspend := func(cr *v1.TrustyAIService) { cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"} }
	for name, tc := range map[string]struct {
		change func(c *cluster, all []*v1.TrustyAIService) []*v1.TrustyAIService
		want   string
	}{
		"the keeper was deleted": {func(c *cluster, all []*v1.TrustyAIService) []*v1.TrustyAIService {
			bundleOf(c, all[0], "tas")
			return all[1:]
		}, "is of the TrustyAIService tas, which was deleted"},
		"the keeper is suspended": {func(c *cluster, all []*v1.TrustyAIService) []*v1.TrustyAIService {
			bundleOf(c, all[0], "tas")
			suspend(all[0])
			return all
		}, "is kept by the TrustyAIService tas"},
		"the keeper needs it no more": {func(c *cluster, all []*v1.TrustyAIService) []*v1.TrustyAIService {
			bundleOf(c, all[0], "tas")
			all[0].Spec.InferenceServices = selectorFor("team", "other")
			return all
		}, "is kept by the TrustyAIService tas"},
		"nobody has made it": {
			func(_ *cluster, all []*v1.TrustyAIService) []*v1.TrustyAIService { return all },
			"does not exist: the TrustyAIService tas is to make it",
		},
		"it has the authority": {func(c *cluster, all []*v1.TrustyAIService) []*v1.TrustyAIService {
			bundleOf(c, all[0], "tas", "young")
			return all
		}, ""},
	} {
		c, all := logged(t, "tas", "young")
		young := all[1]
		for i := range all {
			renderAmong(t, c, all, i)
		}
		c.Remove(plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: loggerCA})
		all = tc.change(c, all)
		p := renderAmong(t, c, all, slices.Index(all, young))
		text := strings.Join(p.Warnings, " ")
		if find(p, "ConfigMap", loggerCA) != nil || !strings.Contains(text, tc.want) || (text != "") != (tc.want != "") {
			t.Errorf("%s: it is written, or the warnings are %q", name, text)
		}
	}
}

// TestServiceCAOfAnotherIsWarnedOf: service-ca replaces all that a ConfigMap holds, and fills none that does not ask for it.
func TestServiceCAOfAnotherIsWarnedOf(t *testing.T) {
	for name, tc := range map[string]struct {
		asks, own bool
		want      string
	}{
		"filled, of service-ca":           {asks: true},
		"not filled, of service-ca":       {want: "is kept by the TrustyAIService tas"},
		"filled, of an authority of ours": {asks: true, own: true, want: "is filled by OpenShift's service-ca"},
	} {
		c, all := logged(t, "tas", "young")
		for i := range all {
			renderAmong(t, c, all, i)
		}
		live := bundleOf(c, all[0], "tas")
		if tc.asks {
			live.Object["data"] = map[string]any{loggerCAFile: pemOf("service-ca")}
			marks := live.GetAnnotations()
			marks[injectCA] = "true"
			live.SetAnnotations(marks)
		}
		if !tc.own {
			c.APIs[gvkServiceCA] = true
			for _, name := range []string{"young-tls", "young-internal"} {
				secret := servingCertificate(name, map[string]string{"tls.crt": "x", "tls.key": "y"})
				c.Remove(plan.KeyOf(secret))
				c.Put(secret)
			}
		}
		text := strings.Join(renderAmong(t, c, all, 1).Warnings, " ")
		if !strings.Contains(text, tc.want) || (text != "") != (tc.want != "") {
			t.Errorf("%s: the warnings are %q", name, text)
		}
	}
}

// TestASuspendedServiceMakesNoBundle: the next one does, as long as there is one that is not suspended.
func TestASuspendedServiceMakesNoBundle(t *testing.T) {
	c, all := logged(t, "tas", "young")
	all[0].Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
	if got := bundleIn(renderAmong(t, c, all, 0), t); got != "" {
		t.Errorf("the suspended one makes it: %s", got)
	}
	got := bundleIn(renderAmong(t, c, all, 1), t)
	for _, name := range []string{"tas", "young"} {
		if ca := authorityIn(c, name); ca == "" || !strings.Contains(got, ca) {
			t.Errorf("it has no authority of %s: %s", name, got)
		}
	}
	all[1].Annotations = all[0].Annotations
	if !keepsLoggerCA(nil, all[0], all, servicesOf(all)) || keepsLoggerCA(nil, all[1], all, servicesOf(all)) {
		t.Error("of suspended ones, what is printed is not that of the oldest")
	}
}

// TestABundleThatWasLeftIsAdopted: with deletionPolicy Orphan the ConfigMap stays, and the annotation that allows the adoption of what nobody has
// is asked for, as the engine does. What is about to be deleted with its owner is not adopted.
func TestABundleThatWasLeftIsAdopted(t *testing.T) {
	c, all := logged(t, "tas", "young", "youngest")
	live, rest := bundleOf(c, all[0], "tas"), all[1:]
	keeps := func(alive []*v1.TrustyAIService) (out []bool) {
		for _, cr := range rest {
			out = append(out, keepsLoggerCA(live, cr, rest, servicesOf(alive)))
		}
		return out
	}
	if got := keeps(rest); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("nobody allows it, and they keep it: %v", got)
	}
	rest[1].Annotations = map[string]string{keeper.AdoptAnnotation: "true"}
	if got := keeps(rest); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("the youngest allows it, and they keep it: %v", got)
	}
	if got := keeps(all); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("the one that made it is there, and the others keep it: %v", got)
	}
	rest[0].Annotations = rest[1].Annotations
	if got := keeps(rest); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("both allow it, and they keep it: %v", got)
	}
	live.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Inventory", Name: "i", UID: "u", Controller: ptr.To(true)}})
	if got := keeps(rest); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("it is about to go, and they keep it: %v", got)
	}
}

// TestLoggersBundleHoldsCertificatesOnly: who may read ConfigMaps, and not Secrets, gets nothing else out of the Secret that the spec names.
func TestLoggersBundleHoldsCertificatesOnly(t *testing.T) {
	c, all := logged(t, "tas", "young")
	want := ""
	for _, cr := range all {
		authority, err := pki.NewAuthority(rand.Reader, testNow, cr.Name)
		if err != nil {
			t.Fatal(err)
		}
		cr.Spec.TLS = &v1.TLSSpec{SecretName: "mine-" + cr.Name}
		c.Put(secretOf2("ns", cr.Spec.TLS.SecretName, map[string]string{
			"tls.crt": "x", "tls.key": "y", "ca.crt": "a password\n" + string(authority.KeyPEM) + string(authority.CertPEM),
		}))
		want += string(authority.CertPEM)
	}
	c.Others = servicesOf(all[1:])
	_, p := gatherAndRender(t, c, all[0])
	if got := bundleIn(p, t); got != want {
		t.Errorf("it holds %s", got)
	}
}

// mixed is a namespace with two services of which the given one has its certificates from service-ca, and the other one from MLKeeper.
func mixed(t *testing.T, ofServiceCA string) (*cluster, []*v1.TrustyAIService) {
	t.Helper()
	c, all := logged(t, "tas", "young")
	for i := range all {
		if all[i].Name != ofServiceCA {
			renderAmong(t, c, all, i)
		}
	}
	c.Remove(plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: loggerCA})
	c.APIs[gvkServiceCA] = true
	for _, name := range []string{ofServiceCA + "-tls", ofServiceCA + "-internal"} {
		c.Put(servingCertificate(name, map[string]string{"tls.crt": "x", "tls.key": "y"}))
	}
	return c, all
}

func theServiceCA() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{serviceCAKey: pemOf("service-ca")}}}
	u.SetGroupVersionKind(gvkConfigMap)
	u.SetNamespace("ns")
	u.SetName(serviceCABundle)
	return u
}

// TestServiceCAAndAnotherAuthorityShareTheBundle: what service-ca fills holds no other authority, so that the loggers of a service with another
// one would send nothing any more.
func TestServiceCAAndAnotherAuthorityShareTheBundle(t *testing.T) {
	for _, ofServiceCA := range []string{"tas", "young"} {
		c, all := mixed(t, ofServiceCA)
		own := map[string]string{"tas": "young", "young": "tas"}[ofServiceCA]
		p := renderAmong(t, c, all, 0)
		if got := bundleIn(p, t); got != authorityIn(c, own) || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], serviceCABundle) {
			t.Errorf("%s, the authority of service-ca is not there: %v, %q", ofServiceCA, p.Warnings, got)
		}
		c.Remove(plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: loggerCA})
		c.Put(theServiceCA())
		p = renderAmong(t, c, all, 0)
		u := mustFind(t, p, "ConfigMap", loggerCA)
		if u.GetAnnotations()[injectCA] != "" || len(p.Warnings) > 0 {
			t.Errorf("%s: service-ca is asked to fill it: %v, %v", ofServiceCA, u.GetAnnotations(), p.Warnings)
		}
		for name, ca := range map[string]string{"service-ca": pemOf("service-ca"), own: authorityIn(c, own)} {
			if got := bundleIn(p, t); ca == "" || !strings.Contains(got, ca) {
				t.Errorf("%s: it has no authority of %s: %s", ofServiceCA, name, got)
			}
		}
	}
}

// TestABundleWithoutServiceCAIsWarnedOf: of a service of service-ca that does not keep the bundle.
func TestABundleWithoutServiceCAIsWarnedOf(t *testing.T) {
	c, all := mixed(t, "young")
	c.Put(theServiceCA())
	live := bundleOf(c, all[0], "tas")
	if text := strings.Join(renderAmong(t, c, all, 1).Warnings, " "); !strings.Contains(text, "is kept by the TrustyAIService tas") {
		t.Errorf("the warnings are %q", text)
	}
	live.Object["data"] = map[string]any{loggerCAFile: authorityIn(c, "tas") + pemOf("service-ca")}
	if text := renderAmong(t, c, all, 1).Warnings; len(text) > 0 {
		t.Errorf("it has the authority: %v", text)
	}
}

// TestACertificateWithoutAuthorityIsWarnedOf: no logger can verify the service, whoever keeps the bundle.
func TestACertificateWithoutAuthorityIsWarnedOf(t *testing.T) {
	for name, want := range map[string]bool{"": true, "ca.crt": false} {
		for i := range 2 {
			c, all := logged(t, "tas", "young")
			c.APIs[gvkRoute] = false
			renderAmong(t, c, all, 1-i)
			all[i].Spec.TLS = &v1.TLSSpec{SecretName: "mine"}
			data := map[string]string{"tls.crt": "x", "tls.key": "y"}
			if name != "" {
				data[name] = authorityIn(c, all[1-i].Name)
			}
			c.Put(secretOf2("ns", "mine", data))
			c.Others = servicesOf(all[1-i : 2-i])
			_, p := gatherAndRender(t, c, all[i])
			if text := strings.Join(p.Warnings, " "); strings.Contains(text, "the Secret mine has no ca.crt") != want {
				t.Errorf("%s with %q: the warnings are %q", all[i].Name, name, text)
			}
		}
	}
}

// TestWiredOverTLSNamesTheConfiguration: MLKeeper does not see whether KServe's agents mount the bundle.
func TestWiredOverTLSNamesTheConfiguration(t *testing.T) {
	for _, exposure := range []v1.Exposure{v1.ExposureSecured, v1.ExposurePlain} {
		cr := service("n", false, 0)
		cr.Spec.Exposure = exposure
		s := simulate(t, wireNamed(WireKServe), "m")
		s.Put(isvc(t, "Standard", ""))
		s.settle(cr)
		st := WiringOf(cr, Wired{Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}}})[0]
		if told := strings.Contains(st.Message, loggerCA); st.Reason != ReasonWired || told != (exposure == v1.ExposureSecured) {
			t.Errorf("%s: %+v", exposure, st)
		}
	}
}
