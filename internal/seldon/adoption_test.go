package seldon

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// initialised is a chart whose Job initialises a database when it is installed.
const initialised = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {release: "{{ .Release.Revision }} {{ .Release.IsInstall }} {{ .Release.IsUpgrade }}"}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: two}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: initialise, annotations: {helm.sh/hook: pre-install}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}}
`

// liveObjects is a controller.Live that gets objects as one user, by kind and name.
type liveObjects struct {
	controller.Live
	objects map[string]*unstructured.Unstructured
	errors  map[string]error
	asked   int
}

func (l *liveObjects) Get(_ context.Context, as string, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if l.asked++; as != user || namespace != "ns" {
		return nil, errors.New("read as " + as + " in " + namespace)
	}
	return l.objects[gvk.Kind+"/"+name], l.errors[gvk.Kind+"/"+name]
}

// there is an object that exists, with annotations as name=value.
func there(kind string, marks ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	u.SetNamespace("ns")
	u.SetName("one")
	annotations := map[string]string{}
	for _, mark := range marks {
		name, value, _ := strings.Cut(mark, "=")
		annotations[name] = value
	}
	u.SetAnnotations(annotations)
	return u
}

// TestAReleaseOfHelmIsTakenOverAsAnUpgrade: an installation's hooks would run against live data. Nothing is taken over, and no hook is run,
// before somebody asks for it.
func TestAReleaseOfHelmIsTakenOverAsAnUpgrade(t *testing.T) {
	const (
		release, ofNS = "meta.helm.sh/release-name=any", "meta.helm.sh/release-namespace=ns"
		installs      = "1 true false: one two initialise"
		upgrades      = "2 false true: one two migrate, leaving initialise"
	)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("so"))
	from := newFakeStore(t, initialised)
	for name, c := range map[string]struct {
		there    *unstructured.Unstructured
		err      error
		recorded v1alpha1.ComponentStatus
		refused  string
		adopted  string
	}{
		"nothing":                    {nil, nil, v1alpha1.ComponentStatus{}, installs, installs},
		"a release":                  {there("ConfigMap", release, ofNS), nil, v1alpha1.ComponentStatus{}, decide.ReasonForeignOwner, upgrades},
		"one of another namespace":   {there("ConfigMap", release, "meta.helm.sh/release-namespace=other"), nil, v1alpha1.ComponentStatus{}, decide.ReasonForeignOwner, installs},
		"what a release has left":    {there("ConfigMap", release, ofNS, "helm.sh/resource-policy=keep"), nil, v1alpha1.ComponentStatus{}, decide.ReasonForeignOwner, installs},
		"what somebody made":         {there("ConfigMap"), nil, v1alpha1.ComponentStatus{}, decide.ReasonForeignOwner, installs},
		"adopted before a restart":   {there("ConfigMap", release, ofNS, keeper.OwnerAnnotation+"=it"), nil, v1alpha1.ComponentStatus{}, upgrades, upgrades},
		"ours":                       {there("ConfigMap", keeper.OwnerAnnotation+"=it"), nil, v1alpha1.ComponentStatus{}, installs, installs},
		"what may not be read":       {nil, forbidden, v1alpha1.ComponentStatus{}, installs, installs},
		"an API server that is down": {nil, errors.New("down"), v1alpha1.ComponentStatus{}, plan.ReasonFetching, plan.ReasonFetching},
		"installed by MLKeeper": {
			there("ConfigMap", release, ofNS), errors.New("not to be asked"), v1alpha1.ComponentStatus{ValuesDigest: "v", Revision: 1}, installs2, installs2,
		},
	} {
		for adopts, want := range map[bool]string{false: c.refused, true: c.adopted} {
			live := &liveObjects{
				objects: map[string]*unstructured.Unstructured{"ConfigMap/one": c.there}, errors: map[string]error{"ConfigMap/one": c.err},
			}
			result := renderedOver(t, from, live, c.recorded, adopts)
			if got := told(result); got != want {
				t.Errorf("%s, to be adopted: %t: %s, not %s", name, adopts, got, want)
			}
			if p := result.Failure; p != nil && (p.Class == plan.Terminal || result.Retry() != controller.RetryPassing) {
				t.Errorf("%s: it is not looked at again soon: %+v", name, p)
			}
		}
	}
	// Where no hook comes before the objects, the engine reports the one that is another's, and applies the others.
	from.put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n")
	live := &liveObjects{objects: map[string]*unstructured.Unstructured{"ConfigMap/one": there("ConfigMap")}}
	if got := told(renderedOver(t, from, live, v1alpha1.ComponentStatus{}, false)); got != ": one" {
		t.Error(got)
	}
}

// installs2 is what the second revision is of a component that was never ready.
const installs2 = "2 true false: one two initialise"

// renderedOver renders a component over what exists.
func renderedOver(t *testing.T, from *fakeStore, live controller.Live, recorded v1alpha1.ComponentStatus, adopts bool) *Result {
	t.Helper()
	r := request{
		component: component{name: core, release: "seldon-core", chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, namespace: "ns", user: user,
		field: "spec.core", keys: made(t, nil, testNow), from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}},
		recorded: recorded, adopts: adopts, cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return true }},
	}
	s, cluster := New(Settings{Sources: from}).(*system), controllertest.New(testNow)
	s.results.Get(cluster, r.job(&v1alpha1.SeldonOperator{}))
	result, _ := cluster.Asked[0].Job(t.Context(), live).(*Result)
	return result
}

// told is what templates were told and what is applied of it, or why nothing is.
func told(r *Result) string {
	if r.Failure != nil {
		return r.Failure.Reason
	}
	release, _, _ := unstructured.NestedString(r.Content.Objects[0].Object, "data", "release")
	out := release + ": " + strings.Join(sortedNames(Part{Result: r}), " ")
	if len(r.Content.Left) > 0 {
		out += ", leaving " + names(Part{Result: &Result{Content: Content{Objects: r.Content.Left}}})
	}
	return out
}

// TestATakenOverReleaseIsTheFirstRevision: what the status records of it stays an upgrade, also before it was ready and after a restart.
func TestATakenOverReleaseIsTheFirstRevision(t *testing.T) {
	now := adopted("chart", "values")
	recorded := v1alpha1.ComponentStatus{Digest: "chart", ValuesDigest: "values", Revision: now.Number, InstalledRevision: now.Installed}
	if again := next(recorded, "chart", "values"); again != now || !again.upgrade() {
		t.Errorf("after a restart it is %+v, and was %+v", again, now)
	}
	if other := next(recorded, "chart", "others"); other.Number != 3 || !other.upgrade() {
		t.Errorf("with other values it is %+v", other)
	}
}
