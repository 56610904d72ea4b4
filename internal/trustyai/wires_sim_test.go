package trustyai

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
	"mlkeeper.dev/internal/engine/wiring/wiringtest"
)

// service is a custom resource that is reachable; age is its place in the order of creation.
func service(name string, adr bool, age int) *v1.TrustyAIService {
	cr := &v1.TrustyAIService{}
	cr.Name, cr.Namespace, cr.UID = name, "ns", types.UID(name)
	cr.CreationTimestamp = metav1.Unix(int64(1000+age), 0)
	if adr {
		cr.Spec.TrustyAIMetrics = &v1.TrustyAIMetricsSpec{Schedule: "5s"}
	} else {
		cr.Spec.Metrics = &v1.MetricsSpec{Schedule: "5s"}
	}
	setReachable(cr, true)
	return cr
}

func setReachable(cr *v1.TrustyAIService, yes bool) {
	status := metav1.ConditionFalse
	if yes {
		status = metav1.ConditionTrue
		cr.Status.URL = ConsumerURL(cr)
	}
	cr.Status.Conditions = []metav1.Condition{{Type: "Available", Status: status}}
}

// simulation runs the reconciler of one wire on one target.
type simulation struct {
	*wiringtest.Cluster
	wire     wiring.Wire
	r        *wiring.Reconciler
	key      types.NamespacedName
	alive    []client.Object
	outcomes map[string][]wiring.Outcome
	fatalf   func(string, ...any)
}

func simulate(t interface{ Fatalf(string, ...any) }, wire wiring.Wire, name string) *simulation {
	s := &simulation{
		Cluster: wiringtest.New(wire), wire: wire, key: types.NamespacedName{Namespace: "ns", Name: name},
		outcomes: map[string][]wiring.Outcome{}, fatalf: t.Fatalf,
	}
	s.r = wiring.NewReconciler(wire, wiring.Deps{
		Client: s.Cluster, Resource: s.ResourceOf, Source: s.Cluster, Log: logr.Discard(),
		Clock:  clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		Alive:  func(string, string) ([]client.Object, error) { return s.alive, nil },
		Report: func(owner string, _ plan.Key, o []wiring.Outcome) { s.outcomes[owner] = o },
	})
	return s
}

// settle reconciles and asserts that a second time costs nothing.
func (s *simulation) settle(alive ...client.Object) {
	s.alive = alive
	s.Writes = 0
	for i := range 2 {
		if i == 1 {
			s.Reads, s.Writes = 0, 0
		}
		if after, err := s.r.Reconcile(context.Background(), s.key); err != nil || after != 0 {
			s.fatalf("reconcile: %v, %v", after, err)
		}
		if s.Writes > 1 {
			s.fatalf("%d writes for one change", s.Writes)
		}
	}
	if s.Reads+s.Writes > 0 {
		s.fatalf("not idempotent: %d reads, %d writes", s.Reads, s.Writes)
	}
}

func (s *simulation) target() *unstructured.Unstructured {
	return s.Object(s.key.Namespace, s.key.Name)
}

// user edits the live object as its user does.
func (s *simulation) user(edit func(*unstructured.Unstructured)) {
	u := s.target()
	edit(u)
	s.Put(u)
}

func (s *simulation) outcome(cr *v1.TrustyAIService) wiring.Outcome {
	if o := s.outcomes[ownerID(cr)]; len(o) == 1 {
		return o[0]
	}
	return wiring.Outcome{}
}

func fromJSON(t interface{ Fatalf(string, ...any) }, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return u
}

func sameObject(a, b *unstructured.Unstructured) bool {
	bare := func(u *unstructured.Unstructured) map[string]any {
		u = u.DeepCopy()
		u.SetUID("")
		u.SetResourceVersion("")
		return u.Object
	}
	return reflect.DeepEqual(bare(a), bare(b))
}

// isvc is an InferenceService; fields are further JSON of its predictor, beginning with a comma.
func isvc(t interface{ Fatalf(string, ...any) }, mode, fields string) *unstructured.Unstructured {
	u := fromJSON(t, `{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{"name":"m","namespace":"ns",
		"labels":{"team":"x"}},"spec":{"predictor":{"model":{"modelFormat":{"name":"sklearn"},"futureField":[1,{"a":null}]}`+fields+`}}}`)
	if mode != "" {
		u.SetAnnotations(map[string]string{deploymentMode: mode})
	}
	return u
}

// meshDeployment is a ModelMesh Deployment with containers mm and puller; env are the JSON lists of their variables.
func meshDeployment(t interface{ Fatalf(string, ...any) }, env ...string) *unstructured.Unstructured {
	var containers []string
	for i, name := range []string{"mm", "puller"} {
		c := fmt.Sprintf(`{"name":%q,"image":"i","futureField":{"x":1}`, name)
		if i < len(env) && env[i] != "" {
			c += `,"env":` + env[i]
		}
		containers = append(containers, c+"}")
	}
	return fromJSON(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"mesh","namespace":"ns",
		"labels":{"modelmesh-service":"modelmesh-serving"}},"spec":{"replicas":2,"template":{"spec":{"containers":[`+
		strings.Join(containers, ",")+`]}}}}`)
}

// drawnTarget draws an object as its user might have it, and what its user may do to it later.
func drawnTarget(t *rapid.T, wire string) (*unstructured.Unstructured, []func(*unstructured.Unstructured)) {
	label := func(u *unstructured.Unstructured) {
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["later"] = "yes"
		u.SetLabels(labels)
	}
	annotate := func(u *unstructured.Unstructured) {
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a["user/note"] = "x"
		u.SetAnnotations(a)
	}
	edits := []func(*unstructured.Unstructured){label, annotate}
	switch wire {
	case WireMeshConfig:
		u := meshConfigMap(meshTexts().Draw(t, "text"))
		switch rapid.IntRange(0, 3).Draw(t, "config") {
		case 0:
			delete(u.Object, "data")
		case 1:
			u.Object["data"] = map[string]any{"other": "x"}
		default:
			edits = append(edits, appendLine)
		}
		return u, append(edits, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "v", "data", "more")
		})
	case WireMeshDeployments:
		env := rapid.SampledFrom([]string{
			"", `[{"name":"A","value":"1"}]`, `[{"name":"MM_PAYLOAD_PROCESSORS","value":"http://u1"}]`,
			`[{"name":"MM_PAYLOAD_PROCESSORS","value":" http://u1  http://u2"},{"name":"A","value":"1"}]`,
			`[{"name":"MM_PAYLOAD_PROCESSORS"}]`, `[{"name":"MM_PAYLOAD_PROCESSORS","value":"https://a.ns.svc/consumer/kserve/v2"}]`,
			`[{"name":"MM_TLS_KEY_CERT_PATH","value":"/mine"}]`, `[{"name":"MM_PAYLOAD_PROCESSORS","valueFrom":{"fieldRef":{}}}]`,
		})
		return meshDeployment(t, env.Draw(t, "env of mm"), env.Draw(t, "env of puller")), append(edits, addUserEnv, addUserURL)
	default:
		mode := rapid.SampledFrom([]string{"", "RawDeployment", "Standard", "Serverless", "Knative", "ModelMesh", "?"}).Draw(t, "mode")
		logger := rapid.SampledFrom([]string{
			"", "", "", `,"logger":{"url":"http://mine","mode":"all"}`, `,"logger":{"mode":"request"}`, `,"logger":{}`,
			`,"logger":{"mode":"all","url":"http://trustyai-service.ns.svc.cluster.local","metadataHeaders":["x"]}`,
		}).Draw(t, "logger")
		return isvc(t, mode, logger), append(edits, tellMode("Knative"), tellMode("Standard"), tellMode(""))
	}
}

// tellMode has KServe report a mode, or lose what it had reported.
func tellMode(mode string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if mode == "" {
			delete(u.Object, "status")
			return
		}
		u.Object["status"] = map[string]any{"deploymentMode": mode}
	}
}

// appendLine adds a key at the end of a configuration that has one, where that is safe to do by text.
func appendLine(u *unstructured.Unstructured) {
	text, ok, _ := unstructured.NestedString(u.Object, "data", meshConfigFile)
	if !ok {
		return
	}
	config, err := parseMeshConfig(text)
	if err != nil || config.root == nil || !strings.HasSuffix(text, "\n") || strings.Contains(text, "...") ||
		strings.Contains(text, "later:") {
		return
	}
	_ = unstructured.SetNestedField(u.Object, text+"later: [1]"+config.newline(), "data", meshConfigFile)
}

func addUserEnv(u *unstructured.Unstructured) {
	p := podOf(u)
	c := p.containers()[0]
	if envOf(c, "LATER") == nil {
		p.add(c, "env", map[string]any{"name": "LATER", "value": "1"})
	}
}

// addUserURL appends a URL of the user's to a list that he has.
func addUserURL(u *unstructured.Unstructured) {
	for _, c := range podOf(u).containers() {
		e := envOf(c, meshEnv)
		if value, _ := e["value"].(string); strings.Contains(value, "u1") && !strings.Contains(value, "later") {
			e["value"] = value + " http://later"
		}
	}
}

// TestWiringLeavesNothingBehind draws objects of users, custom resources that come, go and change, and edits of users in
// between. When all custom resources are gone, the object must be what its user made of it, and nothing else.
func TestWiringLeavesNothingBehind(t *testing.T) {
	for _, wire := range Wires() {
		t.Run(wire.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				original, edits := drawnTarget(t, wire.Name)
				s := simulate(t, wire, original.GetName())
				s.Put(original)
				shadow := original.DeepCopy()
				alive := map[string]*v1.TrustyAIService{}
				for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
					name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
					switch rapid.IntRange(0, 4).Draw(t, "step") {
					case 0:
						delete(alive, name)
					case 1:
						edit := edits[rapid.IntRange(0, len(edits)-1).Draw(t, "edit")]
						userEdit(s, shadow, edit)
					case 2:
						if cr := alive[name]; cr != nil {
							setReachable(cr, rapid.Bool().Draw(t, "reachable"))
						}
					default:
						if alive[name] == nil {
							alive[name] = service(name, rapid.Bool().Draw(t, "adr"), step)
						}
						exposures := []v1.Exposure{"", v1.ExposurePlain, v1.ExposureSecured}
						alive[name].Spec.Exposure = rapid.SampledFrom(exposures).Draw(t, "exposure")
					}
					s.settle(byAge(alive)...)
				}
				s.settle()
				if !sameObject(s.target(), shadow) {
					t.Fatalf("left behind:\n%v\nwant\n%v", s.target().Object, shadow.Object)
				}
			})
		})
	}
}

// userEdit does the same to the live object and to the one that MLKeeper never saw, if it can be done to both.
func userEdit(s *simulation, shadow *unstructured.Unstructured, edit func(*unstructured.Unstructured)) {
	live, other := s.target(), shadow.DeepCopy()
	edit(live)
	edit(other)
	if !sameObject(live, s.target()) && !sameObject(other, shadow) {
		s.Put(live)
		*shadow = *other
	}
}

func byAge(alive map[string]*v1.TrustyAIService) []client.Object {
	var out []client.Object
	for _, cr := range alive {
		out = append(out, cr)
	}
	slices.SortFunc(out, func(a, b client.Object) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	return out
}
