package trustyai

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// everyField has the fields that neither TrustyAI ADR 3 nor upstream knows. What they render is the golden file secured-every-field.
const everyField = upstreamSpec + `
  tls: {secretName: mine.example}
  imagePullPolicy: Always
  imagePullSecrets: [{name: registry}]
  env:
    - {name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
    - {name: JAVA_OPTS, value: "-Xmx$(LIMIT)"}
  proxy: {resources: {requests: {cpu: 10m}, limits: {memory: 256Mi}}}
  podSecurityContext: {runAsUser: 1234, runAsNonRoot: true, fsGroup: 99}
  priorityClassName: high
  podDisruptionBudget: {maxUnavailable: 1}
  ingress: {host: trustyai.example.com, ingressClassName: nginx, tlsSecretName: trustyai-example-com}
  httpRoute: {host: trustyai.example.com, gateway: {name: public, namespace: gateways, sectionName: https}}
`

// withCertificate is a cluster with the Secret that everyField names.
func withCertificate() *cluster {
	c := newCluster()
	c.Put(secretOf2("ns", "mine.example", map[string]string{"tls.crt": "CRT", "tls.key": "KEY", "ca.crt": pemOf("CA")}))
	return c
}

func Test_EveryField(t *testing.T) {
	c := withCertificate()
	cr := custom(t, everyField)
	cr.Spec.Storage.AccessModes = append(cr.Spec.Storage.AccessModes, "ReadWriteMany")
	_, p := gatherAndRender(t, c, cr)
	golden(t, "secured-every-field", p)
}

// Test_AbsentFieldsRenderNothing: whoever removes the fields has what whoever never had them has.
func Test_AbsentFieldsRenderNothing(t *testing.T) {
	c := withCertificate()
	_, plainly := gatherAndRender(t, c, custom(t, upstreamSpec+"  tls: {secretName: mine.example}\n"))
	cr := custom(t, everyField)
	s := &cr.Spec
	s.ImagePullPolicy, s.ImagePullSecrets, s.Env, s.Proxy, s.PodSecurityContext = "", nil, nil, &v1.ProxySpec{}, nil
	s.PriorityClassName, s.PodDisruptionBudget, s.Ingress, s.HTTPRoute = "", nil, nil, nil
	_, p := gatherAndRender(t, c, cr)
	if string(print(t, p)) != string(print(t, plainly)) {
		t.Error("something stays of the fields")
	}
}

func Test_PlainIngress(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec+"  exposure: Plain\n  ingress: {host: trustyai.example.com}\n")
	c.APIs[gvkRoute] = false
	facts, p := gatherAndRender(t, c, cr)
	ingress := mustFind(t, p, "Ingress", "tas")
	text := compactJSON(t, ingress.Object["spec"])
	want := `{"rules":[{"host":"trustyai.example.com","http":{"paths":[{"backend":{"service":{"name":"tas","port":{"name":"http"}}},"path":"/","pathType":"Prefix"}]}}]}`
	if text != want || len(ingress.GetAnnotations()) > 0 {
		t.Errorf("annotations %v, spec %s\nwant %s", ingress.GetAnnotations(), text, want)
	}
	for _, tc := range []struct{ secret, kind, want string }{
		{"", "", "http://trustyai.example.com"}, {"cert", "", "https://trustyai.example.com"}, {"cert", "Ingress", ""},
	} {
		cr.Spec.Ingress.TLSSecretName = tc.secret
		testSystem().Project(cr, facts, seen(p, func(u *unstructured.Unstructured) bool { return u.GetKind() != tc.kind }))
		if cr.Status.ExternalURL != tc.want {
			t.Errorf("with the Secret %q and without %q, status.externalURL is %q", tc.secret, tc.kind, cr.Status.ExternalURL)
		}
	}
}

// Test_AGatewayVerifiesTheProxy: by the authority of the certificate, that of service-ca, or those of the system.
func Test_AGatewayVerifiesTheProxy(t *testing.T) {
	const route = "  httpRoute: {host: trustyai.example.com, gateway: {name: public}}\n"
	_, p := gatherAndRender(t, newCluster(), custom(t, upstreamSpec+"  exposure: Plain\n"+route))
	text := compactJSON(t, mustFind(t, p, "HTTPRoute", "tas").Object["spec"])
	want := `{"hostnames":["trustyai.example.com"],"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"public"}],` +
		`"rules":[{"backendRefs":[{"group":"","kind":"Service","name":"tas","port":80,"weight":1}],"matches":[{"path":{"type":"PathPrefix","value":"/"}}]}]}`
	if text != want || find(p, "BackendTLSPolicy", "tas") != nil {
		t.Errorf("Plain: %s\nwant %s", text, want)
	}
	for _, tc := range []struct {
		name, tls  string
		objects    []*unstructured.Unstructured
		served     []schema.GroupVersionKind
		ca, policy string
	}{
		{
			"the user's", "  tls: {secretName: mine}\n",
			[]*unstructured.Unstructured{secretOf2("ns", "mine", map[string]string{"tls.crt": "c", "tls.key": "k", "ca.crt": "a password\n" + pemOf("CA")})},
			nil,
			pemOf("CA"), `"caCertificateRefs":[{"group":"","kind":"ConfigMap","name":"tas-gateway-ca"}]`,
		},
		{
			"a public one", "  tls: {secretName: mine}\n",
			[]*unstructured.Unstructured{secretOf2("ns", "mine", map[string]string{"tls.crt": "c", "tls.key": "k"})},
			nil,
			"", `"wellKnownCACertificates":"System"`,
		},
		{
			"that of service-ca", "",
			[]*unstructured.Unstructured{parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: openshift-service-ca.crt, namespace: ns}\ndata: {service-ca.crt: SCA}\n")},
			[]schema.GroupVersionKind{gvkServiceCA, gvkConstraints},
			"SCA", `"caCertificateRefs":[{"group":"","kind":"ConfigMap","name":"tas-gateway-ca"}]`,
		},
	} {
		c := newCluster(tc.served...)
		for _, u := range tc.objects {
			c.Put(u)
		}
		_, p := gatherAndRender(t, c, custom(t, upstreamSpec+tc.tls+route))
		got := compactJSON(t, mustFind(t, p, "BackendTLSPolicy", "tas").Object["spec"])
		if want := `{"targetRefs":[{"group":"","kind":"Service","name":"tas-tls"}],"validation":{`; !strings.HasPrefix(got, want) || !strings.Contains(got, tc.policy) {
			t.Errorf("%s: the policy is %s", tc.name, got)
		}
		ca := ""
		if bundle := find(p, "ConfigMap", "tas-gateway-ca"); bundle != nil {
			ca, _, _ = unstructured.NestedString(bundle.Object, "data", "ca.crt")
		}
		if ca != tc.ca {
			t.Errorf("%s: the authority is %q", tc.name, ca)
		}
	}
	// The operator's own authority is known once it is stored.
	c, cr := newCluster(), custom(t, upstreamSpec+route)
	_, p = gatherAndRender(t, c, cr)
	for _, o := range p.Stages[0].Objects {
		if o.Desired.GetKind() == "BackendTLSPolicy" && !strings.Contains(o.Hold, "tas-ca") {
			t.Errorf("%s waits for %q", o.Key(), o.Hold)
		}
	}
	if _, p = stored(t, c, cr); !strings.Contains(compactJSON(t, mustFind(t, p, "BackendTLSPolicy", "tas").Object), "tas-gateway-ca") {
		t.Error("the authority of the operator is not given to the Gateway")
	}
}

func Test_ABudgetThatBlocksDrainsIsWarnedOf(t *testing.T) {
	for n, blocks := range map[int32]bool{0: false, 1: true} {
		cr := custom(t, upstreamSpec)
		cr.Spec.PodDisruptionBudget = &keeper.DisruptionSpec{MinAvailable: &n}
		_, p := gatherAndRender(t, newCluster(), cr)
		if mustFind(t, p, "PodDisruptionBudget", "tas") == nil || strings.Contains(strings.Join(p.Warnings, " "), "lets no pod be drained") != blocks {
			t.Errorf("minAvailable %d: the warnings are %q", n, p.Warnings)
		}
	}
}

func Test_VariablesOfMLKeeperAreReserved(t *testing.T) {
	for _, name := range []string{"SERVICE_STORAGE_FORMAT", "STORAGE_DATA_FOLDER", "SERVICE_METRICS_SCHEDULE"} {
		_, p := gatherAndRender(t, newCluster(), custom(t, upstreamSpec+"  env: [{name: A, value: b}, {name: "+name+", value: x}]\n"))
		if reasons(p) != "Terminal EnvReserved" || !strings.Contains(p.Problems[0].Error(), name) {
			t.Errorf("%s: the problems are %v", name, p.Problems)
		}
		if find(p, "Deployment", "tas") != nil {
			t.Errorf("%s: the pods that run are changed", name)
		}
	}
}

const existingClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared, namespace: ns}
status: {phase: PHASE}
`

func existing(t testing.TB) *v1.TrustyAIService {
	cr := custom(t, upstreamSpec)
	cr.Spec.Storage.Size, cr.Spec.Storage.ExistingClaim = "", "shared"
	return cr
}

func Test_AnExistingClaimIsUsedAndNeverWritten(t *testing.T) {
	for _, tc := range []struct{ phase, problem, condition string }{
		{"", "Waiting ClaimNotFound", "False/PVCNotFound/PersistentVolumeClaim not found"},
		{"Pending", "", "False/PVCNotBound/PersistentVolumeClaim is not bound yet"},
		{"Bound", "", "True/PVCFound/PersistentVolumeClaim found"},
		{"Lost", "Waiting ClaimLost", "False/PVCLost/PersistentVolumeClaim has lost its volume"},
	} {
		c, cr := newCluster(), existing(t)
		if tc.phase != "" {
			c.Put(parse(t, strings.ReplaceAll(existingClaim, "PHASE", tc.phase)))
		}
		facts, p := gatherAndRender(t, c, cr)
		if reasons(p) != tc.problem {
			t.Errorf("%q: the problems are %v", tc.phase, p.Problems)
		}
		for _, o := range p.Stages[0].Objects {
			if o.Desired.GetKind() == "PersistentVolumeClaim" {
				t.Errorf("%q: %s is rendered", tc.phase, o.Key())
			}
		}
		volumes, _, _ := unstructured.NestedSlice(mustFind(t, p, "Deployment", "tas").Object, "spec", "template", "spec", "volumes")
		if text := compactJSON(t, volumes); !strings.Contains(text, `"claimName":"shared"`) {
			t.Errorf("%q: the volumes are %s", tc.phase, text)
		}
		testSystem().Project(cr, facts, seen(p, nil))
		if got := condition(cr, ConditionPVCAvailable); got != tc.condition {
			t.Errorf("%q: PVCAvailable is %s", tc.phase, got)
		}
	}
}

// Test_AClaimHasOneWriter: the claim that a service names may be the one that MLKeeper made for another.
func Test_AClaimHasOneWriter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(other *v1.TrustyAIService)
		want   string
	}{
		{"both name it", func(other *v1.TrustyAIService) { other.Spec.Storage.ExistingClaim = "shared" }, "Terminal ClaimShared"},
		{"it is the other's", func(other *v1.TrustyAIService) { other.Name = "tas" }, "Terminal ClaimShared"},
		{"the other's name is another", func(*v1.TrustyAIService) {}, ""},
		{"the other is younger", func(other *v1.TrustyAIService) {
			other.Spec.Storage.ExistingClaim, other.CreationTimestamp.Time = "shared", testNow.Add(1)
		}, ""},
		{"the other has a database", func(other *v1.TrustyAIService) {
			other.Spec.Storage.ExistingClaim, other.Spec.Storage.Format = "shared", v1.StorageDatabase
		}, ""},
		{"the other's data is being copied", func(other *v1.TrustyAIService) {
			other.Spec.Storage.ExistingClaim, other.Spec.Storage.Format = "shared", v1.StorageDatabase
			other.Status.StorageFormat = v1.StoragePVC
		}, "Terminal ClaimShared"},
	} {
		c, cr := newCluster(), existing(t)
		cr.Name = "young"
		other := custom(t, strings.Replace(upstreamSpec, "name: tas", "name: other", 1))
		other.CreationTimestamp.Time = testNow.Add(-1e9)
		tc.change(other)
		if other.Name == "tas" {
			cr.Spec.Storage.ExistingClaim = "tas-pvc"
		}
		claim := parse(t, strings.ReplaceAll(existingClaim, "PHASE", "Bound"))
		claim.SetName(cr.Spec.Storage.ExistingClaim)
		c.Put(claim)
		c.Others = []client.Object{other}
		_, p := gatherAndRender(t, c, cr)
		if reasons(p) != tc.want || (find(p, "Deployment", "young") == nil) != (tc.want != "") {
			t.Errorf("%s: the problems are %v", tc.name, p.Problems)
		}
	}
}

// Test_AClaimThatAnotherNamesHasOneWriter: the older service may have named the claim that the name of this one leads to.
func Test_AClaimThatAnotherNamesHasOneWriter(t *testing.T) {
	for _, tc := range []struct {
		claim string
		age   time.Duration
		want  string
	}{{"tas-pvc", time.Hour, "Terminal ClaimShared"}, {"tas-pvc", -time.Hour, ""}, {"other-pvc", time.Hour, ""}, {"", time.Hour, ""}} {
		c, cr := newCluster(), custom(t, upstreamSpec)
		other := custom(t, strings.Replace(upstreamSpec, "name: tas", "name: other", 1))
		other.CreationTimestamp.Time, other.Spec.Storage.ExistingClaim = testNow.Add(-tc.age), tc.claim
		c.Others = []client.Object{other}
		_, p := gatherAndRender(t, c, cr)
		if shared := tc.want != ""; reasons(p) != tc.want || (find(p, "Deployment", "tas") == nil) != shared || (find(p, "PersistentVolumeClaim", "tas-pvc") == nil) != shared {
			t.Errorf("%+v: the problems are %v", tc, p.Problems)
		}
	}
}

// Test_ChildrenAreOfTheDefinition: a kind that is missing there is neither watched nor deleted when it is no longer rendered.
func Test_ChildrenAreOfTheDefinition(t *testing.T) {
	c := withCertificate()
	_, p := gatherAndRender(t, c, custom(t, everyField))
	known := map[schema.GroupKind]bool{}
	for _, gvk := range Definition().Children {
		known[gvk.GroupKind()] = true
	}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if !known[o.Key().GroupKind] {
				t.Errorf("%s is not among the children", o.Key())
			}
		}
	}
}

// TestAnInferenceServiceOptsOut: what is wired already goes, and the status says why.
func TestAnInferenceServiceOptsOut(t *testing.T) {
	cr := service("n", false, 0)
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	for _, step := range []struct {
		value string
		wired bool
	}{{"", true}, {"false", false}, {"true", true}, {"false", false}} {
		s.user(func(u *unstructured.Unstructured) {
			marks := u.GetAnnotations()
			marks[keeper.WireAnnotation] = step.value
			u.SetAnnotations(marks)
		})
		s.settle(cr)
		if got := loggerOf(s.target()); (got != "") != step.wired {
			t.Errorf("with %q the logger is %q", step.value, got)
		}
		statuses := WiringOf(cr, Wired{
			Services: []client.Object{cr}, Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}},
		})
		if want := map[bool]string{true: ReasonWired, false: ReasonOptedOut}[step.wired]; len(statuses) != 1 || statuses[0].Reason != want {
			t.Errorf("with %q the status is %+v", step.value, statuses)
		}
		users := loggedSecurely(Inference{Services: []client.Object{cr}, Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}}})
		if (len(users) > 0) != step.wired {
			t.Errorf("with %q the bundle for loggers is kept for %v", step.value, users)
		}
	}
}

// Test_ARouteThatIsLeftOutReplacesNoIngress: without the Gateway API the Ingress of before stays.
func Test_ARouteThatIsLeftOutReplacesNoIngress(t *testing.T) {
	const route = "  httpRoute: {host: trustyai.example.com, gateway: {name: public}}\n"
	for name, c := range map[string]struct {
		spec   string
		served []schema.GroupVersionKind
		keeps  bool
	}{
		"without the Gateway API": {spec: route, keeps: true},
		"with it":                 {spec: route, served: []schema.GroupVersionKind{gvkHTTPRoute}},
		"beside an Ingress":       {spec: route + "  ingress: {host: trustyai.example.com}\n"},
		"no route":                {},
	} {
		cr := custom(t, upstreamSpec+"  exposure: Plain\n"+c.spec)
		cr.Status.Inventory.Entries = []keeper.InventoryEntry{{ObjectReference: keeper.ObjectReference{
			Group: gvkIngress.Group, Version: gvkIngress.Version, Kind: gvkIngress.Kind, Namespace: cr.Namespace, Name: cr.Name,
		}}}
		_, p := gatherAndRender(t, newCluster(c.served...), cr)
		kept := slices.ContainsFunc(p.Keep, func(key plan.Key) bool { return key.Kind == "Ingress" && key.Name == "tas" && key.Namespace != "" })
		if kept != c.keeps || len(p.Keep) > 1 {
			t.Errorf("%s: kept are %v", name, p.Keep)
		}
	}
}
