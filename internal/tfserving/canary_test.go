package tfserving

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

const withCanary = `
metadata: {name: tfs}
spec:
  replicas: 3
  restPort: 8501
  grpcPort: 8500
  models:
    - {name: embedder, basePath: "gs://bucket/embedder"}
    - name: resnet
      basePath: gs://bucket/resnet
      versionPolicy: {specific: {versions: [41]}}
      versionLabels: {stable: 41}
  service: {headless: true}
  monitoring: {}
  autoscaling: {maxReplicas: 9}
  podDisruptionBudget: {maxUnavailable: 1}
  configReload: Poll
  httpRoute: {host: models.example.com, gateway: {name: public}}
  grpcRoute: {host: grpc.example.com, gateway: {name: public}}
  canary: {model: resnet, version: 42, weight: 10, replicas: 2}
`

const (
	alone  = "tfs-service 1"
	shared = "tfs-service 90, tfs-canary-service 10"
)

// TestACanaryIsATrackOfItsOwn: the golden file has its objects beside those of the stable track, which are as without it.
func TestACanaryIsATrackOfItsOwn(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs-canary", 2)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE"), "10.0.0.2": says("42 AVAILABLE")})
	p := s.write()
	controllertest.Golden(t, "canary", p)
	without := s.cr.DeepCopy()
	without.Spec.Canary = nil
	_, plain := gatherAndRender(t, controllertest.New(testNow, gvkServiceMonitor), without)
	for _, o := range plain.Stages[0].Objects {
		if kind := o.Key().Kind; kind == "HTTPRoute" || kind == "GRPCRoute" {
			continue
		}
		with := controllertest.MustFind(t, p, o.Key().Kind, o.Key().Name)
		a, _ := json.Marshal(o.Desired)
		if b, _ := json.Marshal(with); !bytes.Equal(a, b) {
			t.Errorf("a canary changes %s of the stable track to %s", o.Key(), b)
		}
	}
	for _, o := range p.Stages[0].Objects[len(plain.Stages[0].Objects):] {
		if !o.IgnoreHealth || !strings.HasPrefix(o.Key().Name, "tfs-canary") {
			t.Errorf("%s of the canary counts for Ready: %t", o.Key(), !o.IgnoreHealth)
		}
	}
	d := deployed(t, p, "tfs-canary")
	selects, has := d.Spec.Selector.MatchLabels[selectorLabel], d.Spec.Template.Labels[selectorLabel]
	if selects != "tfs-canary" || has != "tfs-canary" || *d.Spec.Replicas != 2 {
		t.Errorf("the pods of the two tracks are mixed: %+v", d.Spec)
	}
	if path := d.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Path; path != "/v1/models/resnet/metadata" {
		t.Errorf("readiness asks for %s, not for the model of the canary", path)
	}
}

// TestOnlyRequestsWithoutAVersionAreSplit: a server of the canary has no other version, and would answer those with 404.
func TestOnlyRequestsWithoutAVersionAreSplit(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs-canary", 2)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE")})
	for mode, want := range map[v1alpha1.CanaryMode][]string{
		"": {`{"backendRefs":[{"group":"","kind":"Service","name":"tfs-service","port":8501,"weight":90},` +
			`{"group":"","kind":"Service","name":"tfs-canary-service","port":8501,"weight":10}],"matches":[` +
			`{"path":{"type":"Exact","value":"/v1/models/resnet:predict"}},{"path":{"type":"Exact","value":"/v1/models/resnet:classify"}},` +
			`{"path":{"type":"Exact","value":"/v1/models/resnet:regress"}}]}`},
		v1alpha1.CanaryShadow: {
			`"backendRefs":[{"group":"","kind":"Service","name":"tfs-service","port":8501,"weight":1}]`,
			`"filters":[{"requestMirror":{"backendRef":{"group":"","kind":"Service","name":"tfs-canary-service","port":8501},"percent":10},` +
				`"type":"RequestMirror"}]`,
			`"value":"/v1/models/resnet:predict"`,
		},
	} {
		s.cr.Spec.Canary.Mode = mode
		p := s.write()
		rules, _, _ := unstructured.NestedSlice(controllertest.MustFind(t, p, "HTTPRoute", "tfs").Object, "spec", "rules")
		first, _ := json.Marshal(rules[0])
		for _, part := range want {
			if !strings.Contains(string(first), part) {
				t.Errorf("mode %q: the rule has no %s: %s", mode, part, first)
			}
		}
		rest, _ := json.Marshal(rules[1:])
		if want := `[{"backendRefs":[{"group":"","kind":"Service","name":"tfs-service","port":8501,"weight":1}],` +
			`"matches":[{"path":{"type":"PathPrefix","value":"/"}}]}]`; string(rest) != want {
			t.Errorf("mode %q: the rest of the requests goes to %s", mode, rest)
		}
	}
	s.cr.Spec.Canary.Mode, s.cr.Spec.Canary.Weight = v1alpha1.CanaryShadow, ptr.To[int32](100)
	if text := printed(t, controllertest.MustFind(t, s.write(), "GRPCRoute", "tfs").Object); strings.Contains(text, "percent") ||
		!strings.Contains(text, "RequestMirror") || !strings.Contains(text, "port: 8500") {
		t.Errorf("all requests are copied by %s", text)
	}
}

// TestTheWeightFollowsTheVersion: no request goes to servers of the canary before every ready one has its version available, or after.
func TestTheWeightFollowsTheVersion(t *testing.T) {
	s := bothTracks(t)
	step := func(what, want, status, reason string) {
		t.Helper()
		if got := weights(t, s.write()); got != want {
			t.Errorf("%s: the weights are %s, not %s", what, got, want)
		}
		project(t, s.Cluster, s.cr)
		condition(t, s.cr, ConditionCanaryAvailable, status, reason)
		if c := s.cr.Status.Canary; c == nil || (c.Weight == 10) != (want == shared) || (c.AvailableReplicas > 0) != (want == shared) {
			t.Errorf("%s: the status is %+v", what, c)
		}
	}
	has, lacks := says("42 AVAILABLE"), says("41 AVAILABLE")
	step("nothing runs", alone, "False", reasonRollingOut)
	s.runs("tfs-canary", 2)
	step("nobody has answered", alone, "Unknown", reasonEndpointUnreachable)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": has, "10.0.0.2": lacks})
	step("one of two has the version", alone, "False", reasonVersionUnavailable)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 LOADING"), "10.0.0.2": says("42 LOADING")})
	step("it is being loaded", alone, "False", reasonVersionUnavailable)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": has, "10.0.0.2": nil})
	step("one of two does not answer", alone, "Unknown", reasonEndpointUnreachable)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": has, "10.0.0.2": has})
	step("both have it", shared, "True", reasonCanaryAvailable)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 UNLOADING"), "10.0.0.2": nil})
	step("one has it no more, and the other does not answer", alone, "False", reasonVersionUnavailable)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": has, "10.0.0.2": has})
	step("both have it again", shared, "True", reasonCanaryAvailable)
	s.runs("tfs-canary", 0)
	step("none is ready", alone, "False", reasonRollingOut)
	s.cr.Spec.Replicas = ptr.To[int32](0)
	step("everything is paused", alone, "False", reasonPaused)
	if n := *deployed(t, s.write(), "tfs-canary").Spec.Replicas; n != 0 {
		t.Errorf("%d servers of the canary run on", n)
	}
}

// TestAnUnansweredQuestionChangesNoWeight: neither a manager that starts, nor a pod that comes, nor a server that is late moves requests.
func TestAnUnansweredQuestionChangesNoWeight(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs-canary", 2)
	has := says("42 AVAILABLE")
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": has, "10.0.0.2": has})
	s.write()
	project(t, s.Cluster, s.cr)
	before := s.cr.Status.Canary.DeepCopy()
	for what, change := range map[string]func(){
		"a manager starts":                     func() { clear(s.Answers) },
		"another pod comes":                    func() { clear(s.Answers); s.runs("tfs-canary", 3); s.runs("tfs-canary", 2) },
		"one of two does not answer":           func() { s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": has, "10.0.0.2": nil}) },
		"none answers":                         func() { s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": nil, "10.0.0.2": nil}) },
		"the model config cannot be read":      func() { clear(s.Answers); s.cr.Spec.Models, s.cr.Spec.ConfigMap = nil, "missing" },
		"the status of the Tfserv was deleted": func() { clear(s.Answers); s.cr.Status = v1alpha1.TfservStatus{} },
	} {
		spec := s.cr.Spec.DeepCopy()
		change()
		if got := weights(t, s.write()); got != shared {
			t.Errorf("%s: the weights are %s", what, got)
		}
		project(t, s.Cluster, s.cr)
		if got := s.cr.Status.Canary; *got != *before {
			t.Errorf("%s: the status is %+v", what, got)
		}
		s.cr.Spec = *spec
	}
}

// TestACanaryThereAndBack: each misoperation is taken back, and everything is as before; nothing of what was before counts meanwhile.
func TestACanaryThereAndBack(t *testing.T) {
	has := map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE"), "10.0.0.2": says("42 AVAILABLE")}
	for name, change := range map[string]func(*v1alpha1.Tfserv){
		"another version": func(cr *v1alpha1.Tfserv) { cr.Spec.Canary.Version = 43 },
		"another model":   func(cr *v1alpha1.Tfserv) { cr.Spec.Canary.Model = "embedder" },
		"no such model":   func(cr *v1alpha1.Tfserv) { cr.Spec.Canary.Model = "nobody" },
		"aborted":         func(cr *v1alpha1.Tfserv) { cr.Spec.Canary.State = v1alpha1.CanaryAborted },
		"taken out":       func(cr *v1alpha1.Tfserv) { cr.Spec.Canary = nil },
		"no weight":       func(cr *v1alpha1.Tfserv) { cr.Spec.Canary.Weight = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := bothTracks(t)
			s.write()
			s.runs("tfs-canary", 2)
			s.say("canary: ", has)
			first := s.write()
			spec := s.cr.Spec.DeepCopy()
			change(s.cr)
			s.cr.Generation++
			clear(s.Answers)
			gone := s.cr.Spec.Canary == nil || name == "aborted" || name == "no such model"
			for range 2 {
				p := s.write()
				if got := weights(t, p); got != alone {
					t.Errorf("the weights are %s", got)
				}
				if there := controllertest.Find(p, "Deployment", "tfs-canary") != nil; there == gone {
					t.Errorf("the servers of the canary are declared: %t", there)
				}
			}
			if gone {
				for k := range s.Children {
					if strings.HasPrefix(k.Name, "tfs-canary") {
						t.Errorf("%s is left of the canary", k)
					}
				}
				if left := s.remembered(); len(left) > 0 {
					t.Errorf("%v is remembered", left)
				}
			}
			s.cr.Spec = *spec
			s.cr.Generation++
			clear(s.Answers)
			if got := weights(t, s.write()); got != alone && name != "no weight" {
				t.Errorf("the servers that come back have not answered, and the weights are %s", got)
			}
			s.runs("tfs-canary", 2)
			s.say("canary: ", has)
			if last := s.write(); !bytes.Equal(controllertest.Print(t, first), controllertest.Print(t, last)) {
				t.Errorf("it is not as before:\n%s", controllertest.Print(t, last))
			}
		})
	}
}

// TestAPromotedCanaryGoesWhenTheOthersHaveItsVersion, which the owner has the model config say; and it does not come back.
func TestAPromotedCanaryGoesWhenTheOthersHaveItsVersion(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs", 3)
	s.runs("tfs-canary", 2)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE")})
	s.cr.Spec.Canary.State = v1alpha1.CanaryPromoted
	told := func(state v1alpha1.CanaryState, weight int32, text string) {
		t.Helper()
		project(t, s.Cluster, s.cr)
		if c := s.cr.Status.Canary; c.State != state || c.Weight != weight || !strings.Contains(c.Message, text) {
			t.Errorf("the status is %+v, not %s, %d, %q", c, state, weight, text)
		}
	}
	if got := weights(t, s.write()); got != shared {
		t.Errorf("nobody else has the version, and the weights are %s", got)
	}
	told(v1alpha1.CanaryRunning, 10, "Set versionPolicy of model resnet in spec.models to {specific: {versions: [42]}}.")
	s.cr.Spec.Models[1].VersionPolicy.Specific.Versions, s.cr.Spec.Models[1].VersionLabels = []int64{42}, nil
	s.write()
	both := func(w http.ResponseWriter, r *http.Request) {
		version := "42 AVAILABLE"
		if strings.Contains(r.URL.Path, "embedder") {
			version = "1 AVAILABLE"
		}
		says(version)(w, r)
	}
	s.say("", map[string]http.HandlerFunc{"10.0.0.1": both, "10.0.0.2": says("41 AVAILABLE")})
	if got := weights(t, s.write()); got != shared {
		t.Errorf("one server has the version, and the weights are %s", got)
	}
	told(v1alpha1.CanaryRunning, 10, "The canary goes when every other server has it available.")
	s.say("", map[string]http.HandlerFunc{"10.0.0.1": both, "10.0.0.2": both})
	p := s.write()
	if got := weights(t, p); got != alone || controllertest.Find(p, "Deployment", "tfs-canary") != nil {
		t.Errorf("every server has the version, and the weights are %s", got)
	}
	told(v1alpha1.CanaryPromoted, 0, "Take spec.canary out.")
	// Nobody answers, and later the servers go on to another version.
	clear(s.Answers)
	for range 2 {
		if p := s.write(); controllertest.Find(p, "Deployment", "tfs-canary") != nil || weights(t, p) != alone {
			t.Error("a canary that was promoted comes back")
		}
		s.say("", map[string]http.HandlerFunc{"10.0.0.1": says("43 AVAILABLE"), "10.0.0.2": says("43 AVAILABLE")})
	}
}

func TestWhatIsKeptOfACanaryGoesWithItsTfserv(t *testing.T) {
	sys, gone := testSystem(), types.NamespacedName{Namespace: "ns", Name: "tfs"}
	sys.hosts.put(t.Context(), canaryTrack(gone), found{"1", []string{"10.0.0.1"}})
	sys.rolls.run(t.Context(), canaryTrack(gone), "pods of generation 1")
	sys.Forget(gone)
	if len(sys.hosts.by) > 0 || len(sys.rolls.by) > 0 {
		t.Errorf("%v and %v are kept", sys.hosts.by, sys.rolls.by)
	}
}

// TestACanaryThatFailsIsTold, and takes nothing from Ready.
func TestACanaryThatFailsIsTold(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs", 3)
	u := s.Children[key("Deployment", "tfs-canary")]
	u.SetGeneration(1)
	s.Answers["canary: pods of generation 1"] = podsAnswer{failure: &PodFailure{reasonCrashLoop, "pod tfs-canary-a: container tfs-main ended"}}
	s.write()
	if got := verdict(t, s.Cluster, s.cr, true); got.Failed || got.Reason == reasonCrashLoop {
		t.Errorf("Ready is %+v", got)
	}
	condition(t, s.cr, ConditionCanaryAvailable, "False", reasonCrashLoop)
	if c := s.cr.Status.Canary; !strings.Contains(c.Message, "tfs-canary-a") || c.Weight != 0 {
		t.Errorf("the status is %+v", c)
	}
	s.cr.Spec.Canary = nil
	s.write()
	project(t, s.Cluster, s.cr)
	if s.cr.Status.Canary != nil || meta.FindStatusCondition(s.cr.Status.Conditions, ConditionCanaryAvailable) != nil {
		t.Errorf("a canary that was taken out is told: %+v", s.cr.Status)
	}
}

// TestACanaryIsNobodyElsesServers: another Tfserv may have the name of the track, one of the same name may have been deleted, and the
// Service may be missing.
func TestACanaryIsNobodyElsesServers(t *testing.T) {
	for name, change := range map[string]func(s *tracks){
		"the servers of another Tfserv": func(s *tracks) {
			s.Own(s.Children[key("Deployment", "tfs-canary")], ownerOf(custom(t, inline))+"-canary")
		},
		"the Service of another Tfserv": func(s *tracks) { s.Own(s.Children[serviceKey], ownerOf(custom(t, inline))+"-canary") },
		"no Service":                    func(s *tracks) { s.Remove(serviceKey) },
		"servers of an earlier Tfserv": func(s *tracks) {
			s.Children[key("Deployment", "tfs-canary")].SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Tfserv", Name: "tfs", UID: "earlier", Controller: ptr.To(true),
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := givenItsShare(t)
			change(s)
			_, p := gatherAndRender(t, s.Cluster, s.cr)
			if got := weights(t, p); got != alone {
				t.Errorf("the weights are %s", got)
			}
		})
	}
}

// serviceKey is the Service of the canary.
var serviceKey = plan.Key{GroupKind: gvkService.GroupKind(), Namespace: "ns", Name: "tfs-canary-service"}

// TestNothingIsSaidOfAWeightWithoutARoute: where the Gateway API is not served, nothing splits the requests.
func TestNothingIsSaidOfAWeightWithoutARoute(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs-canary", 2)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE")})
	s.write()
	for k := range s.Children {
		if k.Kind == "HTTPRoute" || k.Kind == "GRPCRoute" {
			s.Remove(k)
		}
	}
	project(t, s.Cluster, s.cr)
	if c := s.cr.Status.Canary; c.Weight != 0 || !strings.Contains(c.Message, "status.skipped") {
		t.Errorf("the status is %+v", c)
	}
}

// TestNothingIsSaidOfAWeightThatNoGatewayHasAccepted: a Gateway whose name is mistyped says nothing, or that it has no such listener.
func TestNothingIsSaidOfAWeightThatNoGatewayHasAccepted(t *testing.T) {
	s := bothTracks(t)
	s.write()
	s.runs("tfs-canary", 2)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE")})
	s.write()
	told := func(what string, weight int32, texts ...string) {
		t.Helper()
		if got := weights(t, s.write()); got != shared {
			t.Errorf("%s: the weights are %s: a Gateway that comes later is to find them", what, got)
		}
		project(t, s.Cluster, s.cr)
		condition(t, s.cr, ConditionCanaryAvailable, "True", reasonCanaryAvailable)
		c, said := s.cr.Status.Canary, meta.FindStatusCondition(s.cr.Status.Conditions, ConditionCanaryAvailable).Message
		if c.Weight != weight || c.Message != said || strings.Contains(said, "10 % of the requests go there") != (weight > 0) {
			t.Errorf("%s: the status is %+v, and the condition says %q", what, c, said)
		}
		for _, text := range texts {
			if !strings.Contains(said, text) {
				t.Errorf("%s: %q lacks %q", what, said, text)
			}
		}
	}
	told("both are accepted", 10)
	s.accept("HTTPRoute", "False", "NotAllowedByListeners")
	told("one of two is accepted", 10)
	s.accept("GRPCRoute", "False", "NoMatchingParent")
	told("none is accepted", 0, "it gets no requests", "the GRPCRoute tfs (NoMatchingParent)", "status.parents")
	for k := range s.Children {
		if k.Group == gvkHTTPRoute.Group {
			s.Children[k].Object["status"] = map[string]any{"parents": []any{}}
		}
	}
	told("nobody has looked at them", 0, "No Gateway has accepted the GRPCRoute tfs:")
	s.accept("HTTPRoute", "True", "Accepted")
	told("one is accepted later", 10)
}

// TestWhatMakesACanaryPointlessIsWarnedOf: other servers that may have its version too, and a claim that its pods cannot mount.
func TestWhatMakesACanaryPointlessIsWarnedOf(t *testing.T) {
	for policy, warned := range map[string]bool{
		"{specific: {versions: [41]}}": false, "{specific: {versions: [41, 42]}}": true, "{latest: {numVersions: 1}}": true, "{all: {}}": true,
	} {
		text := strings.ReplaceAll(withCanary, "{specific: {versions: [41]}}", policy)
		_, p := gatherAndRender(t, controllertest.New(testNow, gvkServiceMonitor), custom(t, text))
		told := slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, "spec.canary: the other servers") })
		if told != warned {
			t.Errorf("%s: warnings %q", policy, p.Warnings)
		}
	}
	for modes, want := range map[string]string{
		"ReadWriteOncePod": "one pod only, so that the canary's cannot start",
		"ReadWriteOnce":    "on one node, so that the canary's pods start only on the node that has it",
		"ReadOnlyMany":     "",
	} {
		_, p := gatherAndRender(t, withClaim(t, modes), custom(t, withCanary+"  modelVolume: {claimName: models}\n"))
		told := slices.DeleteFunc(p.Warnings, func(w string) bool { return !strings.HasPrefix(w, "spec.canary: ") })
		if len(told) > 1 || (want == "") != (len(told) == 0) || !strings.Contains(strings.Join(told, ""), want) {
			t.Errorf("%s: warnings %q", modes, told)
		}
	}
}

// TestAnOlderConfigMapOfACanaryIsKept until its rollout is complete, whatever the stable track has.
func TestAnOlderConfigMapOfACanaryIsKept(t *testing.T) {
	s := bothTracks(t)
	p := s.write()
	s.runs("tfs", 3)
	s.runs("tfs-canary", 2)
	old := deployed(t, p, "tfs-canary").Annotations[configAnnotation]
	s.cr.Status.Inventory.Entries = []keeper.InventoryEntry{inventoryEntry(old), inventoryEntry("tfs-config-live")}
	s.cr.Spec.Canary.Version = 43
	if p = s.write(); !slices.Equal(p.Keep, []plan.Key{key("ConfigMap", old)}) {
		t.Errorf("kept %v, not %s", p.Keep, old)
	}
}

// TestAPromotedCanaryWaitsForEveryOtherServer, also for those that are not asked for every model.
func TestAPromotedCanaryWaitsForEveryOtherServer(t *testing.T) {
	for what, c := range map[string]struct {
		last http.HandlerFunc
		goes bool
	}{
		"the last has the version": {says("42 AVAILABLE"), true}, "the last has it not": {says("41 AVAILABLE"), false},
		"the last loads it": {says("42 LOADING"), false}, "the last says nothing": {nil, false},
	} {
		s := bothTracks(t)
		s.cr.Spec.Autoscaling, s.cr.Spec.Replicas = nil, ptr.To[int32](25)
		s.write()
		s.runs("tfs", 25)
		s.runs("tfs-canary", 2)
		s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE")})
		s.cr.Spec.Canary.State = v1alpha1.CanaryPromoted
		s.cr.Spec.Models[1].VersionPolicy.Specific.Versions, s.cr.Spec.Models[1].VersionLabels = []int64{42}, nil
		s.write()
		servers := map[string]http.HandlerFunc{"10.9.9.9": c.last}
		for i := range 24 {
			servers[fmt.Sprintf("10.0.0.%d", i)] = says("42 AVAILABLE")
		}
		s.say("", servers)
		p := s.write()
		if gone := controllertest.Find(p, "Deployment", "tfs-canary") == nil; gone != c.goes {
			t.Errorf("%s, and the canary has gone: %t", what, gone)
		}
	}
}

// TestAPromotedModelIsAskedForFirst, since not all models of a long config are asked for.
func TestAPromotedModelIsAskedForFirst(t *testing.T) {
	var models []modelconfig.Declared
	for i := range 300 {
		models = append(models, modelconfig.Declared{Model: modelconfig.Model{Name: fmt.Sprintf("m%d", i), BasePath: "/m"}})
	}
	config, err := modelconfig.New(models)
	if err != nil {
		t.Fatal(err)
	}
	asked := wantedOf(config, modelconfig.Config{}, &v1alpha1.CanarySpec{Model: "m299", Version: 42})
	if got := asked[0]; got.name != "m299" || !slices.Equal(got.moving, []int64{42}) || !slices.Equal(got.labelled, []int64{42}) {
		t.Errorf("asked first is %+v", got)
	}
}

// TestWhatCompletesAPromotionIsSaidAsItIs: with the policy latest the servers may go on to another version, and the canary would stay for ever.
func TestWhatCompletesAPromotionIsSaidAsItIs(t *testing.T) {
	const set = "Set versionPolicy of model resnet in spec.models to {specific: {versions: [42]}}."
	const may = "The policy of model resnet does not list version 42, so that the other servers may serve others without it."
	for policy, want := range map[string]string{
		"{specific: {versions: [41]}}":     set,
		"{specific: {versions: [41, 42]}}": "The model config lists version 42 already.",
		"{latest: {numVersions: 1}}":       may + " " + set,
		"{all: {}}":                        may + " " + set,
	} {
		s := bothTracks(t)
		s.cr = custom(t, strings.ReplaceAll(withCanary, "{specific: {versions: [41]}}", policy))
		s.write()
		s.runs("tfs", 3)
		s.runs("tfs-canary", 2)
		s.cr.Spec.Canary.State = v1alpha1.CanaryPromoted
		s.write()
		project(t, s.Cluster, s.cr)
		if got := s.cr.Status.Canary.Message; !strings.HasSuffix(got, " "+want+" The canary goes when every other server has it available.") {
			t.Errorf("%s: %q", policy, got)
		}
	}
	// Of a config that cannot be read nothing is known.
	s := bothTracks(t)
	s.write()
	s.runs("tfs", 3)
	s.runs("tfs-canary", 2)
	s.cr.Spec.Canary.State, s.cr.Spec.Models, s.cr.Spec.ConfigMap = v1alpha1.CanaryPromoted, nil, "missing"
	s.write()
	project(t, s.Cluster, s.cr)
	const then = "available. The canary goes when every other server has it available."
	if got := s.cr.Status.Canary.Message; !strings.HasSuffix(got, then) {
		t.Errorf("%q", got)
	}
}
