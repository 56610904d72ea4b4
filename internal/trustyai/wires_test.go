package trustyai

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

func wireNamed(name string) wiring.Wire {
	for _, w := range Wires() {
		if w.Name == name {
			return w
		}
	}
	panic("no wire " + name)
}

func loggerOf(u *unstructured.Unstructured) string {
	logger, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "predictor", "logger")
	if !ok {
		return ""
	}
	return fmt.Sprint(logger)
}

func textOf(u *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(u.Object, "data", meshConfigFile)
	return text
}

// TestADRModelMeshConfig is the ADR's own list: payload processors are added, merged and removed.
func TestADRModelMeshConfig(t *testing.T) {
	s := simulate(t, wireNamed(WireMeshConfig), meshConfigName)
	cr := service("any-name", true, 0)
	setReachable(cr, false)
	s.settle(cr)
	if s.target() != nil {
		t.Fatal("it is created before the service is reachable")
	}
	setReachable(cr, true)
	s.settle(cr)
	if got, want := textOf(s.target()), "payloadProcessors: "+testURL+"\n"; got != want {
		t.Errorf("created with %q, want %q", got, want)
	}
	s.settle()
	if s.target() != nil {
		t.Error("it stays although it was created and is unchanged")
	}
	s.Put(meshConfigMap("podsPerRuntime: 2 # two\npayloadProcessors: http://mine\n"))
	s.settle(cr)
	if got, want := textOf(s.target()), "podsPerRuntime: 2 # two\npayloadProcessors: http://mine "+testURL+"\n"; got != want {
		t.Errorf("merged to %q, want %q", got, want)
	}
	setReachable(cr, false)
	s.settle(cr)
	if !strings.Contains(textOf(s.target()), testURL) {
		t.Error("it flaps with the readiness of the service")
	}
	s.settle()
	if got, want := textOf(s.target()), "podsPerRuntime: 2 # two\npayloadProcessors: http://mine\n"; got != want {
		t.Errorf("removed to %q, want %q", got, want)
	}
}

func TestUpstreamServiceLeavesModelMeshConfigAlone(t *testing.T) {
	s := simulate(t, wireNamed(WireMeshConfig), meshConfigName)
	s.Put(meshConfigMap("a: b\n"))
	s.settle(service("n", false, 0))
	if got := textOf(s.target()); got != "a: b\n" {
		t.Errorf("edited to %q", got)
	}
}

// TestDefect2And3ModelMeshCleanup: upstream removed nothing, added during removal, and panicked where a container had
// no MM_PAYLOAD_PROCESSORS.
func TestDefect2And3ModelMeshCleanup(t *testing.T) {
	s := simulate(t, wireNamed(WireMeshDeployments), "mesh")
	original := meshDeployment(t, `[{"name":"A","value":"1"},{"name":"MM_PAYLOAD_PROCESSORS","value":"http://mine"}]`)
	s.Put(original)
	cr := service("n", false, 0)
	s.settle(cr)
	wantMesh(t, s.target(), "http://mine https://n.ns.svc/consumer/kserve/v2", "https://n.ns.svc/consumer/kserve/v2", "n-internal")
	s.user(func(u *unstructured.Unstructured) {
		delete(podOf(u).containers()[1], "env")
	})
	s.settle()
	if !sameObject(s.target(), original) {
		t.Errorf("left behind: %v", s.target().Object)
	}
}

func wantMesh(t *testing.T, u *unstructured.Unstructured, mm, puller, volume string) {
	t.Helper()
	p := podOf(u)
	for i, want := range []string{mm, puller} {
		c := p.containers()[i]
		if got := envOf(c, meshEnv)["value"]; got != want {
			t.Errorf("container %v has %q, want %q", c["name"], got, want)
		}
		if m := mountAt(c, meshTLSPath); volume != "" && (m["name"] != volume || m["readOnly"] != true) {
			t.Errorf("container %v has mount %v, want %s", c["name"], m, volume)
		}
		if n := len(mapsIn(c["volumeMounts"])); volume != "" && n != 1 || volume == "" && n != 0 {
			t.Errorf("container %v has %d mounts", c["name"], n)
		}
		if path := envOf(c, meshTLSEnv)["value"]; (path == meshTLSCert) != (i == 0 && volume != "") {
			t.Errorf("container %v has %s=%v", c["name"], meshTLSEnv, path)
		}
	}
	if volume != "" && secretOf(p.volume(volume)) != volume || volume == "" && p.spec["volumes"] != nil {
		t.Errorf("volumes %v", p.spec["volumes"])
	}
}

func TestPlainServiceNeedsNoCertificate(t *testing.T) {
	s := simulate(t, wireNamed(WireMeshDeployments), "mesh")
	original := meshDeployment(t)
	s.Put(original)
	cr := service("n", false, 0)
	cr.Spec.Exposure = v1.ExposurePlain
	s.settle(cr)
	url := ConsumerURL(cr)
	wantMesh(t, s.target(), url, url, "")
	cr.Spec.Exposure = v1.ExposureSecured
	s.settle(cr)
	url = ConsumerURL(cr)
	wantMesh(t, s.target(), url, url, "n-internal")
	s.settle()
	if !sameObject(s.target(), original) {
		t.Errorf("left behind: %v", s.target().Object)
	}
}

// TestDefect4LoggerWithoutURL: upstream panicked on add and on delete.
func TestDefect4LoggerWithoutURL(t *testing.T) {
	for _, logger := range []string{`{"mode":"all"}`, `{}`, `null`, `"text"`, `[1]`, `{"url":5}`} {
		s := simulate(t, wireNamed(WireKServe), "m")
		original := isvc(t, "RawDeployment", `,"logger":`+logger)
		s.Put(original)
		cr := service("n", false, 0)
		s.settle(cr)
		if logger != "null" && (s.outcome(cr).Wired || s.outcome(cr).Reason != ReasonUserConfigured || !sameObject(s.target(), original)) {
			t.Errorf("logger %s: outcome %+v, object %v", logger, s.outcome(cr), s.target().Object)
		}
		s.settle()
	}
}

// TestDefect6TwoServicesDoNotFight: upstream flipped the logger every 30 s, and the second service could never mount its
// certificate, not even once the first was gone.
func TestDefect6TwoServicesDoNotFight(t *testing.T) {
	a, b := service("a", false, 1), service("b", false, 0)
	for name, object := range map[string]*unstructured.Unstructured{WireKServe: isvc(t, "Standard", ""), WireMeshDeployments: meshDeployment(t)} {
		s := simulate(t, wireNamed(name), object.GetName())
		s.Put(object)
		s.settle(a, b)
		holds := func(who string) {
			t.Helper()
			text := fmt.Sprint(s.target().Object)
			for _, n := range []string{"a", "b"} {
				if strings.Contains(text, "https://"+n+".ns.svc") != (n == who) {
					t.Errorf("%s: want %s alone to wire, got %s", name, who, text)
				}
			}
		}
		holds("b")
		version := s.target().GetResourceVersion()
		for range 5 {
			s.settle(b, a)
			s.settle(a, b)
		}
		if s.target().GetResourceVersion() != version {
			t.Errorf("%s: written again", name)
		}
		statuses := WiringOf(a, Wired{
			Services: []client.Object{a, b}, Targets: map[string][]*unstructured.Unstructured{name: {s.target()}},
		})
		if len(statuses) != 1 || statuses[0].Reason != ReasonManagedByAnotherService || !strings.Contains(statuses[0].Message, "ns/b") {
			t.Errorf("%s: the other's status does not name the one that wires: %+v", name, statuses)
		}
		s.settle(a)
		holds("a")
		s.settle()
		if !sameObject(s.target(), object) {
			t.Errorf("%s: left behind %v", name, s.target().Object)
		}
	}
}

func TestEqualAgeIsDecidedByUID(t *testing.T) {
	a, b := service("a", false, 0), service("b", false, 0)
	a.UID, b.UID = "2", "1"
	if got := wirer(services([]client.Object{a, b}, func(*v1.TrustyAIService) bool { return true }), nil); got != b {
		t.Errorf("%s wires", got.Name)
	}
}

func TestYoungerServiceWaitsAndStays(t *testing.T) {
	old, young := service("old", false, 0), service("young", false, 1)
	setReachable(old, false)
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	s.settle(old, young)
	if got := loggerOf(s.target()); got != "" {
		t.Errorf("the younger wired %s", got)
	}
	s.settle(young)
	s.settle(old, young)
	if got := loggerOf(s.target()); !strings.Contains(got, "young") {
		t.Errorf("the younger was replaced by one that is not reachable: %s", got)
	}
	setReachable(old, true)
	s.settle(old, young)
	if got := loggerOf(s.target()); !strings.Contains(got, "old") {
		t.Errorf("the oldest does not wire once it is reachable: %s", got)
	}
}

func TestSuspendedServiceKeepsItsWiringAndGetsNoNew(t *testing.T) {
	cr := service("n", false, 0)
	suspend := map[string]string{keeper.SuspendAnnotation: "true"}
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	cr.Annotations = suspend
	s.settle(cr)
	if got := loggerOf(s.target()); got != "" {
		t.Errorf("wired while suspended: %s", got)
	}
	cr.Annotations = nil
	s.settle(cr)
	cr.Annotations = suspend
	s.settle(cr)
	if got := loggerOf(s.target()); got == "" {
		t.Error("suspending unwires")
	}
}

func TestKServeModes(t *testing.T) {
	upstream, adr := service("n", false, 0), service("x", true, 0)
	plain := service("n", false, 0)
	plain.Spec.Exposure = v1.ExposurePlain
	for _, c := range []struct {
		cr         *v1.TrustyAIService
		mode, want string
	}{
		{upstream, "RawDeployment", "https://n.ns.svc.cluster.local"},
		{upstream, "Standard", "https://n.ns.svc.cluster.local"},
		{upstream, "Serverless", "https://n.ns.svc.cluster.local"},
		{upstream, "Knative", "https://n.ns.svc.cluster.local"},
		{plain, "Knative", "http://n.ns.svc.cluster.local"},
		{upstream, "ModelMesh", ""},
		{upstream, "Unheard", ""},
		{upstream, "", ""},
		{plain, "Standard", "http://n.ns.svc.cluster.local"},
		{adr, "Standard", "http://trustyai-service.ns.svc.cluster.local"},
		{adr, "", ""},
	} {
		s := simulate(t, wireNamed(WireKServe), "m")
		original := isvc(t, c.mode, "")
		s.Put(original)
		s.settle(c.cr)
		want := ""
		if c.want != "" {
			want = "map[mode:all url:" + c.want + "]"
		}
		if got := loggerOf(s.target()); got != want {
			t.Errorf("mode %q: logger %q, want %q", c.mode, got, want)
		}
		s.settle()
		if !sameObject(s.target(), original) {
			t.Errorf("mode %q: left behind %v", c.mode, s.target().Object)
		}
	}
}

// TestKServeModeIsThatOfKServe: what is deployed is what the status says, and a service that KServe's webhook left without the
// annotation is a Knative one, which releases before 0.15.1 tell by conditions alone.
func TestKServeModeIsThatOfKServe(t *testing.T) {
	conditions := func(types ...string) map[string]any {
		var list []any
		for _, name := range types {
			list = append(list, map[string]any{"type": name, "status": "Unknown", "message": "m"})
		}
		return map[string]any{"conditions": list, "url": "http://m"}
	}
	for _, c := range []struct {
		annotation string
		status     map[string]any
		want       kserveMode
	}{
		{"", map[string]any{"deploymentMode": "Knative"}, kserveServerless},
		{"", map[string]any{"deploymentMode": "RawDeployment"}, kserveRaw},
		{"Serverless", map[string]any{"deploymentMode": "Standard"}, kserveRaw},
		{"Serverless", conditions("Ready", "PredictorReady", "IngressReady"), kserveServerless},
		{"Standard", conditions("Ready", "PredictorRouteReady"), kserveRaw},
		{"", conditions("Ready", "PredictorReady", "PredictorRouteReady", "PredictorConfigurationReady"), kserveServerless},
		{"", conditions("PredictorConfigurationReady"), kserveServerless},
		{"", conditions("Ready", "PredictorReady", "IngressReady"), kservePending},
		{"", map[string]any{"conditions": []any{1, map[string]any{"type": 1}}}, kservePending},
		{"", nil, kservePending},
	} {
		u := isvc(t, c.annotation, "")
		if c.status != nil {
			u.Object["status"] = c.status
		}
		if got := kserveModeOf(u); got != c.want {
			t.Errorf("annotation %q, status %v: %s, want %s", c.annotation, c.status, got, c.want)
		}
		if got := kserveModeOf(wireNamed(WireKServe).Strip(u)); got != c.want {
			t.Errorf("annotation %q, status %v: %s once it is stripped, want %s", c.annotation, c.status, got, c.want)
		}
	}
}

// TestKServeWaitsUntilTheModeIsTold: a logger for another mode would make the pods of every predictor anew, twice.
func TestKServeWaitsUntilTheModeIsTold(t *testing.T) {
	old, young := service("old", false, 0), service("young", false, 1)
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "", ""))
	told := func(mode string) {
		s.user(func(u *unstructured.Unstructured) { u.Object["status"] = map[string]any{"deploymentMode": mode} })
	}
	status := func(cr *v1.TrustyAIService) v1.WiringStatus {
		return WiringOf(cr, Wired{Services: []client.Object{old, young}, Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}}})[0]
	}
	s.settle(young)
	if got := status(young); loggerOf(s.target()) != "" || got.Wired != metav1.ConditionFalse || got.Reason != ReasonModePending ||
		!strings.Contains(got.Message, "status.deploymentMode") {
		t.Errorf("logger %q while the mode is not told, status %+v", loggerOf(s.target()), got)
	}
	told("Knative")
	s.settle(young)
	if got := loggerOf(s.target()); !strings.Contains(got, "https://young.") {
		t.Errorf("the logger of a Knative service is %q", got)
	}
	// Neither the mode's loss nor an older service changes what is wired while the mode is not told.
	wired := s.target()
	s.user(func(u *unstructured.Unstructured) { delete(u.Object, "status") })
	s.settle(young)
	s.settle(old, young)
	if got := loggerOf(s.target()); got != loggerOf(wired) {
		t.Errorf("the logger is %q, was %q", got, loggerOf(wired))
	}
	if got := status(young); got.Wired != metav1.ConditionTrue {
		t.Errorf("the status of what is wired: %+v", got)
	}
	if got := status(old); got.Reason != ReasonManagedByAnotherService || !strings.Contains(got.Message, "young") {
		t.Errorf("the status of the other: %+v", got)
	}
	s.settle(old)
	if got := loggerOf(s.target()); got != "" {
		t.Errorf("the logger of a service that is gone stays: %s", got)
	}
	told("Standard")
	s.settle(old)
	if got := loggerOf(s.target()); !strings.Contains(got, "https://old.") {
		t.Errorf("the logger is %q", got)
	}
}

func TestKServeUserLoggerIsKept(t *testing.T) {
	s := simulate(t, wireNamed(WireKServe), "m")
	u := isvc(t, "", "")
	u.Object["status"] = map[string]any{"deploymentMode": "Standard"}
	s.Put(u)
	cr := service("n", false, 0)
	s.settle(cr)
	own := map[string]any{"mode": "request", "url": "http://mine"}
	s.user(func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(u.Object, own, "spec", "predictor", "logger")
	})
	s.settle(cr)
	s.settle()
	if got := loggerOf(s.target()); got != fmt.Sprint(own) || len(s.target().GetAnnotations()) != 0 {
		t.Errorf("logger %s, annotations %v", got, s.target().GetAnnotations())
	}
}

func TestKServeLoggerGoesWithItsAnnotations(t *testing.T) {
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	s.settle(service("n", false, 0))
	s.user(func(u *unstructured.Unstructured) {
		a := u.GetAnnotations()
		for _, name := range loggerAnnotations {
			a[name] = "x"
		}
		u.SetAnnotations(a)
	})
	s.settle()
	if a := s.target().GetAnnotations(); len(a) != 1 || a[deploymentMode] != "Standard" {
		t.Errorf("annotations %v", a)
	}
}

func TestKServeSelector(t *testing.T) {
	cr := service("n", false, 0)
	cr.Spec.InferenceServices = &v1.InferenceServicesSpec{Selector: &keeper.LabelSelector{MatchLabels: map[string]keeper.LabelValue{"team": "y"}}}
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	s.settle(cr)
	if got := loggerOf(s.target()); got != "" {
		t.Errorf("not selected, but %s", got)
	}
	young := service("young", true, 1)
	s.settle(cr, young)
	if got := loggerOf(s.target()); !strings.Contains(got, "trustyai-service") {
		t.Errorf("the oldest that selects it wires: %s", got)
	}
	s.settle(cr)
	cr.Spec.InferenceServices.Selector.MatchLabels["team"] = "x"
	s.settle(cr)
	cr.Spec.InferenceServices.Selector.MatchExpressions = []keeper.LabelSelectorRequirement{{Key: "a", Operator: "Bad"}}
	s.settle(cr)
	if got := loggerOf(s.target()); got == "" {
		t.Error("a selector that cannot be read unwires")
	}
	if st := WiringOf(cr, Wired{Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}}}); st[0].Wired != metav1.ConditionTrue {
		t.Errorf("status %+v", st)
	}
}

// TestAdoption: what upstream left on objects of others becomes ours, and goes with the service (invariant 8).
func TestAdoption(t *testing.T) {
	cr := service("n", false, 0)
	url := ConsumerURL(cr)
	s := simulate(t, wireNamed(WireMeshDeployments), "mesh")
	original := meshDeployment(t, `[{"name":"MM_PAYLOAD_PROCESSORS","value":"http://mine"}]`)
	s.Put(original)
	s.settle(cr)
	s.user(func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	s.settle(cr)
	wantMesh(t, s.target(), "http://mine "+url, url, "n-internal")
	s.settle()
	if !sameObject(s.target(), original) {
		t.Errorf("left behind: %v", s.target().Object)
	}

	k := simulate(t, wireNamed(WireKServe), "m")
	k.Put(isvc(t, "Standard", `,"logger":{"mode":"all","url":"https://n.ns.svc.cluster.local"}`))
	k.settle(cr)
	k.settle()
	if got := loggerOf(k.target()); got != "" {
		t.Errorf("the logger of the original operator stays: %s", got)
	}
}

// TestAdoptionKeepsALoggerWithoutTLS: the original addresses a Secured service without TLS for a serverless InferenceService. Another
// address would restart the predictor, so it stays, and goes with the service. A new logger, and one of MLKeeper's own, has TLS.
func TestAdoptionKeepsALoggerWithoutTLS(t *testing.T) {
	const open, closed = "http://n.ns.svc.cluster.local", "https://n.ns.svc.cluster.local"
	original := `,"logger":{"mode":"all","url":"` + open + `"}`
	cr := service("n", false, 0)
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Serverless", original))
	s.settle(cr)
	if got := loggerOf(s.target()); !strings.Contains(got, open) {
		t.Errorf("the logger of the original is replaced by %s", got)
	}
	told := func() v1.WiringStatus {
		return WiringOf(cr, Wired{Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}}})[0]
	}
	// The NetworkPolicy lets nobody in without TLS.
	if st := told(); st.Wired != metav1.ConditionFalse || st.Reason != ReasonNotServed || !strings.Contains(st.Message, "remove spec.predictor.logger") {
		t.Errorf("status %+v", st)
	}
	before := s.target().DeepCopy()
	s.user(func(u *unstructured.Unstructured) {
		marks := before.GetAnnotations()
		marks[istioInject] = "true"
		u.SetAnnotations(marks)
	})
	s.settle(cr)
	if st := told(); st.Wired != metav1.ConditionTrue || loggerOf(s.target()) != loggerOf(before) {
		t.Errorf("with the sidecar of Istio, the status is %+v", st)
	}
	s.user(func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "predictor", "logger")
	})
	s.settle(cr)
	if got := loggerOf(s.target()); !strings.Contains(got, closed) {
		t.Errorf("where its user removed it, the logger is %q", got)
	}

	gone := simulate(t, wireNamed(WireKServe), "m")
	gone.Put(isvc(t, "Serverless", original))
	gone.settle(cr)
	gone.settle()
	if got := loggerOf(gone.target()); got != "" {
		t.Errorf("the logger of the original stays after the service: %s", got)
	}

	ours := simulate(t, wireNamed(WireKServe), "m")
	plain := service("n", false, 0)
	plain.Spec.Exposure = v1.ExposurePlain
	ours.Put(isvc(t, "Serverless", ""))
	ours.settle(plain)
	ours.settle(cr)
	if got := loggerOf(ours.target()); !strings.Contains(got, closed) {
		t.Errorf("the logger of a service that became Secured is %q", got)
	}
}

func TestModelMeshObstacles(t *testing.T) {
	for reason, change := range map[string]func(c map[string]any, p *meshPod){
		ReasonEnvFromSource: func(c map[string]any, p *meshPod) {
			p.add(c, "env", map[string]any{"name": meshEnv, "valueFrom": map[string]any{}})
		},
		ReasonMountPathConflict: func(c map[string]any, p *meshPod) {
			p.add(c, "volumeMounts", map[string]any{"name": "old-internal", "mountPath": meshTLSPath})
		},
		ReasonVolumeConflict: func(_ map[string]any, p *meshPod) {
			p.add(p.spec, "volumes", map[string]any{"name": "n-internal", "emptyDir": map[string]any{}})
		},
		ReasonNoContainers: func(_ map[string]any, p *meshPod) { p.spec["containers"] = []any{"x", int64(1)} },
	} {
		s := simulate(t, wireNamed(WireMeshDeployments), "mesh")
		original := meshDeployment(t)
		p := podOf(original)
		change(p.containers()[1], p)
		s.Put(original)
		cr := service("n", false, 0)
		s.settle(cr)
		if o := s.outcome(cr); o.Wired || o.Reason != reason || o.Message == "" || !sameObject(s.target(), original) {
			t.Errorf("%s: outcome %+v", reason, o)
		}
	}
}

func TestHostileObjectsDoNotPanic(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"spec":1}`, `{"spec":{"predictor":1}}`, `{"spec":{"template":[]}}`, `{"data":1}`, `{"data":{"config.yaml":1}}`,
		`{"spec":{"template":{"spec":{"containers":[1,{"name":1,"env":[1,{"name":{}}],"volumeMounts":"x"}],"volumes":[{"secret":1}]}}}}`,
		`{"status":1,"spec":{"predictor":{"logger":{"url":{},"mode":[]}}}}`,
	} {
		for _, wire := range Wires() {
			u := fromJSON(t, text)
			u.SetNamespace("ns")
			u.SetName("x")
			alive := []client.Object{service("a", true, 0), service("b", false, 0)}
			wanted := wire.Wanted(u, alive)
			for _, o := range []*unstructured.Unstructured{u, wire.Strip(u)} {
				recorded := []wiring.Entry{{Owner: "x", Value: "y", Detail: `{"env":["mm"],"addedVolume":true,"was":"x"}`}}
				_, _, _ = wire.Edit(o, nil, wanted)
				_, _, _ = wire.Edit(o, recorded, nil)
			}
		}
	}
}

func TestWiringStatus(t *testing.T) {
	cr := service("n", false, 0)
	named := func(u *unstructured.Unstructured, name string) *unstructured.Unstructured { u.SetName(name); return u }
	targets := map[string][]*unstructured.Unstructured{
		WireKServe: {
			named(isvc(t, "Standard", ""), "z-pending"), named(isvc(t, "ModelMesh", ""), "mesh"), named(isvc(t, "?", ""), "mode"),
			named(isvc(t, "Standard", `,"logger":{}`), "a-own"), named(isvc(t, "", ""), "untold"),
		},
		WireMeshDeployments: {meshDeployment(t)},
		WireMeshConfig:      {meshConfigMap("a: b")},
	}
	print := func(list []v1.WiringStatus) string {
		var out []string
		for _, s := range list {
			out = append(out, fmt.Sprintf("%s/%s %s %s", s.Kind, s.Name, s.Wired, s.Reason))
		}
		return strings.Join(out, "\n")
	}
	want := "Deployment/mesh False Pending\nInferenceService/a-own False UserConfigured\nInferenceService/mesh False ModelMesh\n" +
		"InferenceService/mode False DeploymentModeUnknown\nInferenceService/untold False DeploymentModePending\n" +
		"InferenceService/z-pending False Pending"
	if got := print(WiringOf(cr, Wired{Targets: targets})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s := simulate(t, wireNamed(WireMeshDeployments), "mesh")
	s.Put(targets[WireMeshDeployments][0])
	s.settle(cr)
	targets[WireMeshDeployments][0] = s.target()
	if got := print(WiringOf(cr, Wired{Targets: targets})); !strings.Contains(got, "Deployment/mesh True Wired") ||
		!strings.Contains(got, "InferenceService/mesh True ModelMesh") {
		t.Errorf("got\n%s", got)
	}
	key := plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: "ns", Name: "mesh"}
	refusal := []wiring.Outcome{{Entry: wiring.Entry{Owner: ownerID(cr)}, Reason: wiring.ReasonRefused, Message: "no"}}
	if got := print(WiringOf(cr, Wired{Targets: targets, Reported: map[plan.Key][]wiring.Outcome{key: refusal}})); !strings.Contains(got, "Deployment/mesh False WriteForbidden") {
		t.Errorf("got\n%s", got)
	}
	setReachable(cr, false)
	if got := print(WiringOf(cr, Wired{Targets: targets})); !strings.Contains(got, "z-pending False NotReachable") {
		t.Errorf("got\n%s", got)
	}
}

func TestWiringStatusIsBounded(t *testing.T) {
	cr := service("n", false, 0)
	var list []*unstructured.Unstructured
	for i := range 150 {
		u := isvc(t, "Standard", "")
		if i == 149 {
			u = isvc(t, "Standard", `,"logger":{"url":"`+strings.Repeat("x", 5000)+`"}`)
		} else {
			_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"mode": "all", "url": LoggerURL(cr), "x": "y"}, "spec", "predictor", "logger")
		}
		u.SetName(fmt.Sprintf("m%03d", i))
		list = append(list, u)
	}
	got := WiringOf(cr, Wired{Targets: map[string][]*unstructured.Unstructured{WireKServe: list}})
	if len(got) != 100 || got[99].Name != "m149" || got[99].Wired != metav1.ConditionFalse || got[0].Name != "m000" {
		t.Errorf("%d entries, last %+v", len(got), got[len(got)-1])
	}
}

// TestTheOldestIsOne: of two from the same second the one that has children keeps the names of the ADR, and so it is the one that wires.
func TestTheOldestIsOne(t *testing.T) {
	for name, tell := range map[string]func(*v1.TrustyAIServiceStatus){
		"inventory":      func(s *v1.TrustyAIServiceStatus) { s.Inventory.Entries = []keeper.InventoryEntry{{}} },
		"storage format": func(s *v1.TrustyAIServiceStatus) { s.StorageFormat = v1.StoragePVC }, // Of a Secured service.
	} {
		t.Run(name, func(t *testing.T) { oldestIsOne(t, tell) })
	}
}

func oldestIsOne(t *testing.T, tell func(*v1.TrustyAIServiceStatus)) {
	t.Helper()
	serves, stalled := service("serves", true, 0), service("stalled", true, 0)
	serves.UID, stalled.UID = "2", "1"
	tell(&serves.Status)
	alive := []client.Object{serves, stalled}
	if first(alive, stalled, olderByStatus) != "serves" || first(alive, serves, olderByStatus) != "" {
		t.Fatal("the names are not those of the one with children")
	}
	if got := wirer(services(alive, ADRShape), nil); got != serves {
		t.Errorf("%v wires", got)
	}
	target := isvc(t, "Standard", "")
	for cr, want := range map[*v1.TrustyAIService]string{serves: ReasonPending, stalled: ReasonManagedByAnotherService} {
		statuses := WiringOf(cr, Wired{Services: alive, Targets: map[string][]*unstructured.Unstructured{WireKServe: {target}}})
		if len(statuses) != 1 || statuses[0].Reason != want {
			t.Errorf("%s reports %+v, want %s", cr.Name, statuses, want)
		}
	}
}

// TestTheOrderOfOneSecondLasts: of two that have names of their own, the same one wires before and after the other has children, or the
// predictors would roll for nothing.
func TestTheOrderOfOneSecondLasts(t *testing.T) {
	a, b := service("a", false, 0), service("b", false, 0)
	a.UID, b.UID = "1", "2"
	all := func(*v1.TrustyAIService) bool { return true }
	for _, format := range []v1.StorageFormat{"", v1.StoragePVC} {
		b.Status.StorageFormat = format
		if got := services([]client.Object{b, a}, all); len(got) != 2 || got[0] != a {
			t.Errorf("format %q: the first of %d is %s", format, len(got), got[0].Name)
		}
	}
}

// TestNobodyWaitsForAStalledService: one that another keeps the names from is never reachable, even where it alone selects the target.
func TestNobodyWaitsForAStalledService(t *testing.T) {
	named, stalled, young := service("named", true, 0), service("stalled", true, 1), service("young", false, 2)
	named.Spec.InferenceServices = &v1.InferenceServicesSpec{Selector: &keeper.LabelSelector{MatchLabels: map[string]keeper.LabelValue{"no": "thing"}}}
	setReachable(stalled, false)
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	s.settle(named, stalled, young)
	if got := loggerOf(s.target()); !strings.Contains(got, "young") {
		t.Errorf("the logger is %q", got)
	}
}

// TestModelMeshTellsOfAllItsModels: it sends the payloads of all models, so that an owner who opted one out must not read that nothing is sent.
func TestModelMeshTellsOfAllItsModels(t *testing.T) {
	cr := service("n", false, 0)
	mesh := simulate(t, wireNamed(WireMeshDeployments), "mesh")
	mesh.Put(meshDeployment(t))
	mesh.settle(cr)
	cr.Spec.InferenceServices = selectorFor("team", "other")
	unselected := isvc(t, "ModelMesh", "")
	out := isvc(t, "ModelMesh", "")
	out.SetName("out")
	out.SetAnnotations(map[string]string{deploymentMode: "ModelMesh", keeper.WireAnnotation: "false"})
	for wired, targets := range map[metav1.ConditionStatus]map[string][]*unstructured.Unstructured{
		metav1.ConditionTrue:  {WireKServe: {unselected, out}, WireMeshDeployments: {mesh.target()}},
		metav1.ConditionFalse: {WireKServe: {unselected, out}},
	} {
		for _, st := range WiringOf(cr, Wired{Targets: targets}) {
			told := strings.Contains(st.Message, keeper.WireAnnotation) && strings.Contains(st.Message, "spec.inferenceServices.selector")
			if st.Kind == kindInferenceService && (st.Wired != wired || st.Reason != ReasonModelMesh || !told) {
				t.Errorf("status %+v", st)
			}
		}
	}
}

// TestASuspendedOldestIsNamed: it wires nothing new however reachable it is, and keeps the younger ones from it.
func TestASuspendedOldestIsNamed(t *testing.T) {
	old, young := service("old", false, 0), service("young", false, 1)
	told := func(cr *v1.TrustyAIService) v1.WiringStatus {
		return WiringOf(cr, Wired{
			Services: []client.Object{old, young}, Targets: map[string][]*unstructured.Unstructured{WireKServe: {isvc(t, "Standard", "")}},
		})[0]
	}
	old.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
	if st := told(young); st.Reason != ReasonManagedByAnotherService || strings.Contains(st.Message, "reachable") || !strings.Contains(st.Message, "resume") {
		t.Errorf("status %+v", st)
	}
	if st := told(old); !strings.Contains(st.Message, "resumed") {
		t.Errorf("status of the suspended one %+v", st)
	}
	old.Annotations = nil
	setReachable(old, false)
	if st := told(young); !strings.Contains(st.Message, "once it is reachable") {
		t.Errorf("status %+v", st)
	}
}
