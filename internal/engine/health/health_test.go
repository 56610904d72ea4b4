package health

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// sample is one case: the rest of an object of the kind, and the health that it must have.
type sample struct {
	name   string
	kind   string // apiVersion and kind, separated by a space
	body   string // YAML without apiVersion and kind
	status Status
	reason string
	// differs explains why kstatus judges otherwise; empty means that it must agree.
	differs string
}

// samples are the cases of all subjects; the files of the subjects define them.
func samples() []sample {
	var all []sample
	for _, s := range [][]sample{
		genericSamples, workloadSamples, podSamples, storageSamples, clusterSamples, customSamples, routeSamples,
	} {
		all = append(all, s...)
	}
	return all
}

// object builds the object of a case as the API machinery would decode it.
func (s sample) object(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	apiVersion, kind, _ := strings.Cut(s.kind, " ")
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", apiVersion, kind, s.body)
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// check runs the cases of one subject.
func check(t *testing.T, cases []sample) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			got := Of(c.object(t))
			if got.Status != c.status || got.Reason != c.reason {
				t.Errorf("got %+v, want %s, %s", got, c.status, c.reason)
			}
		})
	}
}

// genericSamples are about the rules for all kinds.
var genericSamples = []sample{
	{"exists", "v1 ConfigMap", `data: {a: b}`, Current, ReasonExists, ""},
	{"deleted", "v1 ConfigMap", `metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}`, Terminating, ReasonDeleting, ""},
	{"deleted", "a.example/v1 Thing", `
metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}
status: {conditions: [{type: Ready, status: "True"}]}`, Terminating, ReasonDeleting, ""},
	{
		"deletion of a wrong type", "v1 Secret", `metadata: {deletionTimestamp: {}}`, Terminating, ReasonDeleting,
		"kstatus refuses the object",
	},
	{"not observed", "a.example/v1 Thing", `
metadata: {generation: 2}
status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`, InProgress, ReasonNotObserved, ""},
	{"observed too much", "a.example/v1 Thing", `
metadata: {generation: 2}
status: {observedGeneration: 9, conditions: [{type: Ready, status: "True"}]}`, InProgress, ReasonNotObserved, ""},
	{"status of a wrong type", "a.example/v1 Thing", `status: fine`, Unknown, ReasonMalformed, "kstatus refuses the object"},
	{"status of a wrong type", "v1 Pod", `status: [fine]`, Unknown, ReasonMalformed, "kstatus refuses the object"},
	{
		"conditions of a wrong type", "a.example/v1 Thing", `status: {conditions: {Ready: true}}`, Unknown, ReasonMalformed,
		"kstatus refuses the object",
	},
	{
		"condition of a wrong type", "a.example/v1 Thing", `status: {conditions: [7, {type: Ready, status: "True"}]}`,
		Current, "Ready", "kstatus refuses the object",
	},
	{"null status", "a.example/v1 Thing", `status: null`, Current, ReasonExists, ""},
	{"generation of a wrong type", "a.example/v1 Thing", `
metadata: {generation: "2"}
status: {observedGeneration: {}}`, Current, ReasonExists, "kstatus refuses the object"},
}

func TestGeneric(t *testing.T) { check(t, genericSamples) }

func TestOfNothing(t *testing.T) {
	for _, u := range []*unstructured.Unstructured{nil, {}, {Object: map[string]any{}}, {Object: map[string]any{"kind": 7}}} {
		if got := Of(u); got.Status != Unknown || got.Reason != ReasonMalformed {
			t.Errorf("Of(%v) = %+v", u, got)
		}
		Strip(u)
	}
}

// TestAgreesWithKstatus holds every case against the library, so that a difference is a decision and not an accident.
func TestAgreesWithKstatus(t *testing.T) {
	for _, c := range samples() {
		res, err := status.Compute(c.object(t))
		agrees := err == nil && string(res.Status) == string(c.status)
		if agrees == (c.differs != "") {
			t.Errorf("%s/%s: kstatus says %+v, %v; the case says %s, differs: %q", c.kind, c.name, res, err, c.status, c.differs)
		}
	}
}

// TestStripPreservesOf is the property that caches rest on.
func TestStripPreservesOf(t *testing.T) {
	for _, c := range samples() {
		u := c.object(t)
		before := u.DeepCopy()
		want, stripped := Of(u), Strip(u)
		if got := Of(stripped); got != want {
			t.Errorf("%s/%s: %+v, stripped %+v", c.kind, c.name, want, got)
		}
		if again := Strip(stripped); !reflect.DeepEqual(again, stripped) {
			t.Errorf("%s/%s: stripping twice changes %v to %v", c.kind, c.name, stripped, again)
		}
		if !reflect.DeepEqual(u, before) {
			t.Errorf("%s/%s: the original has changed", c.kind, c.name)
		}
	}
}

// TestMetadataIsEnough proves NeedsStatus: where it is false, the health follows from the metadata alone.
func TestMetadataIsEnough(t *testing.T) {
	for _, c := range samples() {
		u := c.object(t)
		if NeedsStatus(u.GroupVersionKind().GroupKind()) {
			continue
		}
		partial := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": u.Object["apiVersion"], "kind": u.Object["kind"], "metadata": u.Object["metadata"],
		}}
		if got, want := Of(partial), Of(u); got != want {
			t.Errorf("%s/%s: %+v, from metadata %+v", c.kind, c.name, want, got)
		}
	}
}

// TestMessages holds the promises of Result for every case: words, one line, nothing that changes by itself.
func TestMessages(t *testing.T) {
	digits := regexp.MustCompile(`\d\d:\d\d|\d+s\b`)
	for _, c := range samples() {
		got := Of(c.object(t))
		if !reasonShape.MatchString(got.Reason) || got.Message == "" || strings.Contains(got.Message, "\n") ||
			digits.MatchString(got.Message) {
			t.Errorf("%s/%s: %+v", c.kind, c.name, got)
		}
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "otherwise",
		"plain":                       "plain",
		"two\nlines\x00 and\ta tab":   "two lines and a tab",
		"since 2026-01-02T03:04:05Z!": "since …!",
		"at 2026-01-02 03:04:05.678 +0000 UTC m=+12.5 it broke": "at … it broke",
		"back-off 5m0s restarting":                              "back-off … restarting",
		"Get \"https://x\": timeout after 1.5s":                 "Get \"https://x\": timeout after …",
		`pods "web-7d9-xk2" is forbidden: exceeded quota: q`:    "pods is forbidden: exceeded quota: q",
		"needs 100m of cpu and 5Gi":                             "needs 100m of cpu and 5Gi",
		"a\xffb":                                                "ab",
	} {
		if got := sentence(in, "otherwise"); got != want {
			t.Errorf("sentence(%q) = %q, want %q", in, got, want)
		}
	}
	if got := []rune(sentence(strings.Repeat("ä", 1<<20), "")); len(got) != maxMessage || got[maxMessage-1] != '…' {
		t.Errorf("a long message has %d runes", len(got))
	}
}

func TestNumber(t *testing.T) {
	for _, v := range []any{int64(3), int(3), int32(3), float64(3)} {
		if n, ok := (object{"n": v}).number("n"); !ok || n != 3 {
			t.Errorf("%T: %d, %v", v, n, ok)
		}
	}
	for _, v := range []any{"3", 3.5, 1e300, nil, true, map[string]any{}} {
		if n, ok := (object{"n": v}).number("n"); ok {
			t.Errorf("%v: %d", v, n)
		}
	}
}

// TestBuiltinKinds walks client-go's scheme: every persistent kind has a health when empty, and every one with a status has
// a rule, so that a new one in a later release fails here.
func TestBuiltinKinds(t *testing.T) {
	// These are answered and never stored, or are the views of subresources.
	ephemeral := regexp.MustCompile(`Review$|^(Scale|TokenRequest)$`)
	seen := 0
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		if _, ok := goType.FieldByName("ObjectMeta"); !ok {
			continue
		}
		seen++
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		if got := Of(u); got.Status == Unknown || got.Status == Failed || got.Reason == "" {
			t.Errorf("%s: %+v", gvk, got)
		}
		if !builtinGroups[gvk.Group] {
			t.Errorf("group %q is not known as built in", gvk.Group)
		}
		_, ruled := rules[gvk.GroupKind()]
		if _, has := goType.FieldByName("Status"); has && !ruled && !ephemeral.MatchString(gvk.Kind) {
			t.Errorf("%s has a status and no rule", gvk)
		}
	}
	if seen < 80 {
		t.Errorf("only %d kinds", seen)
	}
}

func TestNeedsStatus(t *testing.T) {
	for kind, want := range map[schema.GroupKind]bool{
		{Kind: "ConfigMap"}:      false,
		{Kind: "Secret"}:         false,
		{Kind: "ServiceAccount"}: false,
		{Kind: "Namespace"}:      false,
		{Kind: "Endpoints"}:      false,
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                              false,
		{Group: "batch", Kind: "CronJob"}:                                               false,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                              false,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: false,
		{Kind: "Pod"}:                                         true,
		{Kind: "Service"}:                                     true,
		{Kind: "PersistentVolumeClaim"}:                       true,
		{Group: "apps", Kind: "Deployment"}:                   true,
		{Group: "apps.example", Kind: "ConfigMap"}:            true,
		{Group: "gateway.networking.k8s.io", Kind: "Gateway"}: true,
		{Group: "route.openshift.io", Kind: "Route"}:          true,
	} {
		if got := NeedsStatus(kind); got != want {
			t.Errorf("NeedsStatus(%s) = %v", kind, got)
		}
	}
}
