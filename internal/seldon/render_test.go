package seldon

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

func TestWhatIsMadeAgainWhereAFieldCannotBeChanged(t *testing.T) {
	for _, c := range []struct {
		group, kind       string
		retained, consent bool
		want              plan.Immutable
	}{
		{"apps", "Deployment", false, false, plan.ImmutableRecreate},
		{"", "Service", false, false, plan.ImmutableRecreate},
		{"networking.k8s.io", "Ingress", false, false, plan.ImmutableRecreate},
		{"apps", "Deployment", true, false, plan.ImmutableByKind},
		{"apps", "StatefulSet", false, false, plan.ImmutableByKind},
		{"apps", "StatefulSet", false, true, plan.ImmutableRecreate},
		{"", "Namespace", false, true, plan.ImmutableByKind},
		{"", "PersistentVolume", false, true, plan.ImmutableByKind},
		{"apiextensions.k8s.io", "CustomResourceDefinition", false, true, plan.ImmutableByKind},
		// Custom resources: their operators may delete data with them.
		{"postgres-operator.crunchydata.com", "PostgresCluster", false, true, plan.ImmutableByKind},
		{"snapshot.storage.k8s.io", "VolumeSnapshot", false, true, plan.ImmutableByKind},
	} {
		b := builder{}
		b.part.spec.RecreateStatefulSets = c.consent
		key := plan.Key{GroupKind: schema.GroupKind{Group: c.group, Kind: c.kind}, Name: "n"}
		if got := b.onImmutable(key, c.retained); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestOrphanCountsForObjectsOfNoChartToo: what the controller makes itself stays too, such as the Gateway and the detectors.
func TestOrphanCountsForObjectsOfNoChartToo(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "seldon"}}
	cr.Spec.Enable.Routing, cr.Spec.Enable.Detectors, cr.Spec.DeletionPolicy = true, true, keeper.DeletionOrphan
	objects := 0
	for _, stage := range (&system{settings: Settings{ClusterDomain: "cluster.local"}}).Render(cr, Facts{Istio: istioVersions[0], Keys: &keys{}}).Stages {
		for _, o := range stage.Objects {
			objects++
			if o.Policy() == "" {
				t.Errorf("%s is deleted with the SeldonOperator", o.Key())
			}
		}
	}
	if objects == 0 {
		t.Error("nothing was rendered")
	}
}

// TestObjectsOfNoChart shows what the controller makes itself, for every version of Istio's Gateway.
func TestObjectsOfNoChart(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "seldon"}}
	cr.Spec.Enable.Routing, cr.Spec.Enable.Detectors, cr.Spec.Detectors.ReplyAlias = true, true, true
	s := &system{settings: Settings{ClusterDomain: "cluster.local"}}
	for _, version := range istioVersions {
		facts := Facts{Istio: version, AliasNamespace: true}
		controllertest.Golden(t, "istio-"+version, plan.Plan{Stages: []plan.Stage{
			{Name: routing, Objects: routingObjects(cr, facts)}, {Name: detectors, Objects: s.detectorObjects(cr, facts)},
		}})
	}
}

// TestAPolicyIsReadAsHelmReadsIt: Helm ignores the case and the spaces of helm.sh/resource-policy.
func TestAPolicyIsReadAsHelmReadsIt(t *testing.T) {
	const spaced = " KEEP "
	for policy, kept := range map[string]bool{"keep": true, "Keep": true, spaced: true, "delete": false, "": false} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		u.SetName("one")
		u.SetAnnotations(map[string]string{"helm.sh/resource-policy": policy})
		b := builder{cr: &v1alpha1.SeldonOperator{}, part: Part{Result: &Result{}}, seen: map[plan.Key]bool{}}
		if got := b.objects([]*unstructured.Unstructured{u})[0].Retain; got != kept {
			t.Errorf("%q: retained is %t", policy, got)
		}
	}
}

// TestAHookIsMadeAgainWhateverIsRetained: no field of the pods of a Job can be changed, and Helm deletes a hook by its own policy, whatever its
// helm.sh/resource-policy says (pkg/action/hooks.go, deleteHookByPolicy, and resource_policy.go, which is for the other manifests).
func TestAHookIsMadeAgainWhateverIsRetained(t *testing.T) {
	for kind, want := range map[string]plan.Immutable{"batch/v1 Job": plan.ImmutableRecreate, "v1 Pod": plan.ImmutableRecreate, "v1 Secret": plan.ImmutableByKind} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		version, name, _ := strings.Cut(kind, " ")
		u.SetAPIVersion(version)
		u.SetKind(name)
		u.SetName("one")
		u.SetAnnotations(map[string]string{"helm.sh/hook": "pre-install", "helm.sh/resource-policy": "keep"})
		b := builder{cr: &v1alpha1.SeldonOperator{}, part: Part{Result: &Result{Content: Content{revision: revision{Run: "2"}}}}, seen: map[plan.Key]bool{}}
		b.hooks([]*unstructured.Unstructured{u}, 0, func(o plan.Object, _ int) {
			if o.OnImmutable != want || !o.Retain {
				t.Errorf("%s: %q, retained: %t", kind, o.OnImmutable, o.Retain)
			}
		})
	}
}

// TestFactsThatChangeThePlan holds that a plan is kept only while all that it follows from is the same.
func TestFactsThatChangeThePlan(t *testing.T) {
	changes := map[string]func(*Facts){
		"ActAs":           func(f *Facts) { f.ActAs = "user" },
		"Keys":            func(f *Facts) { f.Keys = &keys{there: true} },
		"Parts":           func(f *Facts) { f.Parts = []Part{{}} },
		"Missing":         func(f *Facts) { f.Missing = map[string]plan.Problem{routing: {}} },
		"Istio":           func(f *Facts) { f.Istio = "v1" },
		"AliasNamespace":  func(f *Facts) { f.AliasNamespace = true },
		"Postgres":        func(f *Facts) { f.Postgres.Text = "s3cret" },
		"Elastic":         func(f *Facts) { f.Elastic.Theirs = true },
		"URLWarning":      func(f *Facts) { f.URLWarning = "it may not be read" },
		"KeepsRevisions":  func(f *Facts) { f.KeepsRevisions = true },
		"RevisionsAbsent": func(f *Facts) { f.RevisionsAbsent = true },
		"Namespaced":      func(f *Facts) { f.Namespaced = map[schema.GroupKind]bool{{Kind: "Secret"}: true} },
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Facts]()) {
		change := changes[field.Name]
		if change == nil {
			if field.Name != "URL" { // It is in the status alone.
				t.Errorf("nothing changes %s", field.Name)
			}
			continue
		}
		before, now := Facts{Keys: &keys{}}, Facts{Keys: &keys{}}
		if change(&now); (&system{}).SamePlan(before, now) {
			t.Errorf("with another %s, the plan is taken for the same", field.Name)
		}
	}
}

// TestWhatAChartRendersToo: two objects of one name in a plan would be written in turns, and of the generated credentials others made each time.
func TestWhatAChartRendersToo(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "stack"}}
	cr.Spec.Enable.Routing, cr.Spec.Enable.Detectors = true, true
	s := &system{settings: Settings{ClusterDomain: "cluster.local"}}
	facts := Facts{Istio: "v1", Keys: made(t, nil, testNow), Postgres: Password{Text: "p"}}
	var theirs []*unstructured.Unstructured
	for _, stage := range s.Render(cr, facts).Stages {
		for _, o := range stage.Objects {
			theirs = append(theirs, o.Desired.DeepCopy())
		}
	}
	only := theirs[0].DeepCopy()
	only.SetName("only")
	facts.Parts = []Part{{component: component{name: core}, Result: &Result{Inputs: "i", Content: Content{Before: theirs[:1], Objects: append(theirs[1:], only)}}}}
	names := map[plan.Key]int{}
	for _, stage := range s.Render(cr, facts).Stages {
		for _, o := range stage.Objects {
			if names[o.Key()]++; names[o.Key()] > 1 || stage.Name == core && o.Desired.GetName() != "only" {
				t.Errorf("%s is rendered in stage %s", o.Key(), stage.Name)
			}
		}
	}
	if len(theirs) < 4 || len(names) != len(theirs)+1 {
		t.Errorf("of %d objects and another, there are %v", len(theirs), names)
	}
}
