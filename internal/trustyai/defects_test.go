package trustyai

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// The tests of this file show, one by one, that the defects of section 4.4 of reference/trustyai.md have no place in
// the controller. Those of the wiring (2, 3, 4, 6) are shown with the wires, the rest of 8 and 9 with the engine.

func Test_Defect01_ClusterRoleBindingsHaveNoOwnerOfANamespace(t *testing.T) {
	_, p := gatherAndRender(t, newCluster(), custom(t, upstreamSpec))
	binding := mustFind(t, p, "ClusterRoleBinding", "mlkeeper:trustyai-proxy:ns:tas")
	if len(binding.GetOwnerReferences()) > 0 || len(binding.GetFinalizers()) > 0 || binding.GetNamespace() != "" {
		t.Error("the binding has an owner, which is the engine's to set")
	}
	_, p = gatherAndRender(t, newCluster(), custom(t, upstreamSpec+"  exposure: Plain\n"))
	if find(p, "ClusterRoleBinding", "mlkeeper:trustyai-proxy:ns:tas") != nil {
		t.Error("a Plain service is bound to a ClusterRole")
	}
}

func Test_Defect05_ASizeThatDoesNotParseIsAProblem(t *testing.T) {
	for _, size := range []string{"", "abc", "-1Gi", "0", "1Gi1", strings.Repeat("9", 400)} {
		cr := custom(t, upstreamSpec)
		cr.Spec.Storage.Size = size
		_, p := gatherAndRender(t, newCluster(), cr)
		if size != strings.Repeat("9", 400) && reasons(p) != "Terminal InvalidSize" {
			t.Errorf("%q: %v", size, p.Problems)
		}
	}
}

func Test_Defect06_TheSecondOfTheADRsShapeIsStalled(t *testing.T) {
	c := newCluster()
	older, younger := custom(t, adrSpec), custom(t, strings.Replace(adrSpec, "trustyai-service-example", "second", 1))
	younger.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(1))
	c.Others = []client.Object{older}
	facts, p := gatherAndRender(t, c, younger)
	if facts.First != older.Name || reasons(p) != "Terminal DuplicateService" || len(p.Stages) > 0 || !strings.Contains(p.Problems[0].Error(), older.Name) {
		t.Errorf("%v", p.Problems)
	}
	c.Others = []client.Object{younger}
	if facts, _ := gatherAndRender(t, c, older); facts.First != "" {
		t.Error("the older one is stalled too")
	}
	// Of the same second, the UID decides, for both in the same way.
	younger.CreationTimestamp = older.CreationTimestamp
	older.UID, younger.UID = "a", "b"
	if first([]client.Object{younger}, older, olderByStatus) != "" || first([]client.Object{older}, younger, olderByStatus) != older.Name {
		t.Error("the UID does not decide")
	}
	upstream := custom(t, upstreamSpec)
	if first([]client.Object{older}, upstream, olderByStatus) != "" {
		t.Error("another shape is stalled")
	}
}

// Test_OfTheSameSecondTheOneWithChildrenKeepsTheNames: its status may not tell of them yet, and of a Secured service has no entries. If
// it gave way to the other, which cannot get the children, both would be stalled.
func Test_OfTheSameSecondTheOneWithChildrenKeepsTheNames(t *testing.T) {
	for _, spec := range []string{adrSpec, adrSpec + "  exposure: Secured\n"} {
		for _, child := range []string{"Deployment", "PersistentVolumeClaim", "Service", "ServiceAccount"} {
			c := newCluster()
			serves, late := custom(t, spec), custom(t, strings.Replace(spec, "trustyai-service-example", "late", 1))
			serves.UID, late.UID = "2", "1"
			_, p := gatherAndRender(t, c, serves)
			written := 0
			for _, o := range p.Stages[0].Objects {
				if o.Desired.GetKind() == child {
					c.Own(o.Desired.DeepCopy(), ownerID(serves))
					written++
				}
			}
			if secured := strings.Contains(spec, "Secured"); written == 0 && (secured || child != "ServiceAccount") {
				t.Fatalf("%s: there is no %s to begin with", spec, child)
			} else if written == 0 {
				continue
			}
			c.Others = []client.Object{serves}
			if facts, _ := gatherAndRender(t, c, late); facts.First != serves.Name {
				t.Errorf("%s of %s: the late one is not stalled", child, spec)
			}
			c.Others = []client.Object{late}
			if facts, _ := gatherAndRender(t, c, serves); facts.First != "" {
				t.Errorf("%s of %s: the one with children gives way to %s", child, spec, facts.First)
			}
		}
	}
}

// Test_OfTheSameSecondTheOneWithPodsKeepsTheClaim: two pods that write to one volume lose data, whatever the UIDs are.
func Test_OfTheSameSecondTheOneWithPodsKeepsTheClaim(t *testing.T) {
	c := newCluster()
	runs, late := custom(t, upstreamSpec), custom(t, strings.Replace(upstreamSpec, "name: tas", "name: late", 1))
	runs.UID, late.UID = "2", "1"
	late.Spec.Storage.ExistingClaim = "tas-pvc"
	_, p := stored(t, c, runs)
	c.Written(p, ownerID(runs))
	for cr, want := range map[*v1.TrustyAIService]string{runs: "", late: runs.Name} {
		c.Others = []client.Object{late}
		if cr == late {
			c.Others[0] = runs
		}
		if facts, _ := gatherAndRender(t, c, cr); facts.Sharer != want {
			t.Errorf("%s shares the claim of %q, want %q", cr.Name, facts.Sharer, want)
		}
	}
}

func Test_Defect07_SpecChangesAreApplied(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	stored(t, c, cr)
	replicas, batch := int32(0), int32(7)
	cr.Spec.Replicas, cr.Spec.Metrics.BatchSize, cr.Spec.Metrics.Schedule = &replicas, &batch, "9s"
	cr.Spec.Image, cr.Spec.ImageGeneration, cr.Spec.Storage.Folder = "other", v1.GenerationJavaTLS, "/elsewhere"
	_, p := gatherAndRender(t, c, cr)
	got := env(t, p, "tas")
	for _, want := range []string{"SERVICE_METRICS_SCHEDULE=9s", "SERVICE_BATCH_SIZE=7", "STORAGE_DATA_FOLDER=/elsewhere"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not applied:\n%s", want, got)
		}
	}
	d := mustFind(t, p, "Deployment", "tas")
	if n, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); n != 0 {
		t.Errorf("%d replicas", n)
	}
	if !strings.Contains(compactJSON(t, d.Object), `"image":"other"`) {
		t.Error("the image is not applied")
	}
	cr.Spec.Storage.Format = v1.StorageDatabase
	c.Put(credentials("p"))
	cr.Spec.Storage.DatabaseConfigurations = "db"
	if facts, _ := gatherAndRender(t, c, cr); facts.Next == nil || facts.Running != v1.StoragePVC {
		t.Error("a change of the format is not noticed without the annotation")
	}
}

func Test_Defect08_EveryFieldOfServiceAndRouteIsDeclared(t *testing.T) {
	_, p := gatherAndRender(t, newCluster(), custom(t, upstreamSpec))
	for path, u := range map[string]*unstructured.Unstructured{
		"selector": mustFind(t, p, "Service", "tas"), "to": mustFind(t, p, "Route", "tas"),
	} {
		if _, found, _ := unstructured.NestedMap(u.Object, "spec", path); !found {
			t.Errorf("%s has no %s, so that its drift goes unnoticed", u.GetKind(), path)
		}
	}
}

func Test_Defect09_NothingHasAFinalizer(t *testing.T) {
	for name, build := range goldenCases(t) {
		c, cr := build()
		_, p := gatherAndRender(t, c, cr)
		for _, stage := range p.Stages {
			for _, o := range stage.Objects {
				if len(o.Desired.GetFinalizers()) > 0 {
					t.Errorf("%s: %s", name, o.Key())
				}
			}
		}
	}
}

func Test_Defect10_TheDefaultSecretOfTheDatabaseWorks(t *testing.T) {
	c, cr := newCluster(), custom(t, databaseSpec)
	cr.Spec.Storage.DatabaseConfigurations, cr.Spec.Storage.Folder, cr.Spec.Storage.Size = "", "", ""
	secret := credentials("p")
	secret.SetName("tas-db-credentials")
	c.Put(secret)
	_, p := gatherAndRender(t, c, cr)
	if len(p.Problems) > 0 || find(p, "PersistentVolumeClaim", "tas-pvc") != nil {
		t.Fatal(p.Problems)
	}
	if !strings.Contains(compactJSON(t, mustFind(t, p, "Deployment", "tas").Object), `"key":"databasePassword","name":"tas-db-credentials"`) {
		t.Error("the pods do not read the default Secret")
	}
}

const upstreamDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: tas
  namespace: ns
  generation: 1
  labels: {app: tas, app.kubernetes.io/version: 1.38.0}
spec:
  selector:
    matchLabels: {app: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/name: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.38.0}
  template:
    spec:
      containers:
        - name: trustyai-service
          env: [{name: SERVICE_STORAGE_FORMAT, value: PVC}]
`

func Test_Defect11_TheVersionIsInNoNewSelectorAndALiveOneStays(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	_, p := gatherAndRender(t, c, cr)
	for _, u := range []*unstructured.Unstructured{mustFind(t, p, "Deployment", "tas"), mustFind(t, p, "Service", "tas"), mustFind(t, p, "Service", "tas-tls")} {
		selector, _, _ := unstructured.NestedMap(u.Object, "spec", "selector")
		if strings.Contains(compactJSON(t, selector), "version") {
			t.Errorf("%s selects by version", u.GetKind())
		}
	}
	stored(t, c, cr)
	delete(c.Children, plan.KeyOf(mustFind(t, p, "Deployment", "tas")))
	c.Put(parse(t, upstreamDeployment))
	cr.Status.Phase = "Ready"
	for range 2 {
		_, p = gatherAndRender(t, c, cr)
		d := mustFind(t, p, "Deployment", "tas")
		selector, _, _ := unstructured.NestedStringMap(d.Object, "spec", "selector", "matchLabels")
		pods, _, _ := unstructured.NestedStringMap(d.Object, "spec", "template", "metadata", "labels")
		if selector["app.kubernetes.io/version"] != "1.38.0" || pods["app.kubernetes.io/version"] != "1.38.0" {
			t.Fatalf("the live selector is lost: %v, %v", selector, pods)
		}
		// From now on the Deployment is ours, and is read from the cache alone.
		c.Written(p, testOwner)
		delete(c.Objects, plan.KeyOf(d))
	}
}

func Test_Defect12_InputStaysData(t *testing.T) {
	evil := "x\n          securityContext: {privileged: true}\n        $(DATABASE_PASSWORD)"
	c, cr := newCluster(), custom(t, upstreamSpec)
	cr.Spec.Data.Filename, cr.Spec.Data.Format = evil, evil
	_, p := gatherAndRender(t, c, cr)
	d := mustFind(t, p, "Deployment", "tas")
	if strings.Contains(compactJSON(t, d.Object), `"privileged"`) {
		t.Error("input became a field")
	}
	if got := env(t, p, "tas"); !strings.Contains(got, "STORAGE_DATA_FILENAME="+strings.ReplaceAll(evil, "$", "$$")) {
		t.Errorf("input is changed, or is expanded by the kubelet:\n%s", got)
	}
}

func Test_Defect13_AbsentAPIsAreOptional(t *testing.T) {
	c, cr := newCluster(gvkCertificate), custom(t, upstreamSpec)
	_, p := gatherAndRender(t, c, cr)
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			group := o.Desired.GroupVersionKind().Group
			builtin := slices.Contains([]string{"", "apps", "networking.k8s.io", "rbac.authorization.k8s.io"}, group)
			if o.Optional == builtin {
				t.Errorf("%s: optional=%t", o.Key(), o.Optional)
			}
		}
	}
	clear(c.APIs)
	if _, p = gatherAndRender(t, c, cr); len(p.Problems) > 0 {
		t.Error(p.Problems)
	}
}

func Test_Defect14_NamesAreCheckedByTheirOwner(t *testing.T) {
	// The names stay upstream's, so two custom resources may want the same; what the controller renders carries no owner, so
	// that the engine creates it before it applies (invariant 1) and reports the conflict.
	_, a := gatherAndRender(t, newCluster(), custom(t, strings.Replace(upstreamSpec, "name: tas", "name: a", 1)))
	_, b := gatherAndRender(t, newCluster(), custom(t, strings.Replace(upstreamSpec, "name: tas", "name: a-tls", 1)))
	first, second := mustFind(t, a, "Service", "a-tls"), mustFind(t, b, "Service", "a-tls")
	if first.GetUID() != types.UID("") || second.GetUID() != types.UID("") || len(first.GetOwnerReferences())+len(second.GetOwnerReferences()) > 0 {
		t.Error("the controller claims objects")
	}
	if len(mustFind(t, b, "Service", "a-tls").GetLabels()) == 0 {
		t.Error("no labels")
	}
}

func Test_Defect15_AServiceMonitorScrapesOneService(t *testing.T) {
	var services []*unstructured.Unstructured
	monitors := map[string]map[string]string{}
	for _, spec := range []string{upstreamSpec, strings.Replace(upstreamSpec, "name: tas", "name: other", 1), adrSpec + "  exposure: Secured\n"} {
		cr := custom(t, spec)
		_, p := gatherAndRender(t, newCluster(), cr)
		count := 0
		for _, o := range p.Stages[0].Objects {
			switch o.Desired.GetKind() {
			case "Service":
				services = append(services, o.Desired)
			case "ServiceMonitor":
				count++
				monitors[ServiceName(cr)], _, _ = unstructured.NestedStringMap(o.Desired.Object, "spec", "selector", "matchLabels")
			}
			if ns := o.Desired.GetNamespace(); ns != "" && ns != cr.Namespace {
				t.Errorf("%s is in another namespace", o.Key())
			}
		}
		if count != 1 {
			t.Errorf("%d ServiceMonitors", count)
		}
	}
	for name, selector := range monitors {
		var selected []string
		for _, service := range services {
			matches := true
			for key, want := range selector {
				matches = matches && service.GetLabels()[key] == want
			}
			if matches {
				selected = append(selected, service.GetName())
			}
		}
		if len(selected) != 1 || selected[0] != name {
			t.Errorf("%s scrapes %v", name, selected)
		}
	}
}

// Test_AReleaseRestartsNoPods: the version label names the release that a shape was taken from, which another release raises.
func Test_AReleaseRestartsNoPods(t *testing.T) {
	var templates, versions []string
	for _, version := range []string{"1", "2"} {
		c, cr, s := newCluster(), custom(t, upstreamSpec), testSystem()
		s.settings.Version = version
		facts, err := s.Gather(t.Context(), c, cr)
		if err != nil {
			t.Fatal(err)
		}
		d := mustFind(t, s.Render(cr, facts), "Deployment", "tas")
		template, _, _ := unstructured.NestedMap(d.Object, "spec", "template")
		templates, versions = append(templates, compactJSON(t, template)), append(versions, d.GetLabels()["app.kubernetes.io/version"])
	}
	if templates[0] != templates[1] || versions[0] == versions[1] {
		t.Errorf("the versions %v make the templates %v", versions, templates)
	}
}

// TestADatabaseAuthorityWithoutCertificateIsRefused: pods with it would have a file that is not there, and connect to nothing.
func TestADatabaseAuthorityWithoutCertificateIsRefused(t *testing.T) {
	for text, complete := range map[string]bool{"": false, pemOf("authority"): true} {
		c, cr := newCluster(), custom(t, databaseSpec)
		c.Put(credentials("p"))
		c.Put(secretOf2("ns", "tas-db-ca", map[string]string{"ca.crt": text, "other": "x"}))
		facts, p := gatherAndRender(t, c, cr)
		if facts.Database.usable() != complete || (find(p, "Deployment", "tas") != nil) != complete {
			t.Errorf("ca.crt %q: usable %t, problems %s", text, facts.Database.usable(), reasons(p))
		}
		if complete {
			continue
		}
		if reasons(p) != "Waiting DBCredentialsError" {
			t.Fatal(reasons(p))
		}
		problem := p.Problems[0].Error()
		for _, want := range []string{"tas-db-ca", "add ca.crt"} {
			if !strings.Contains(problem, want) {
				t.Errorf("the problem does not say %q: %s", want, problem)
			}
		}
		testSystem().Project(cr, facts, seen(p, nil))
		if got := condition(cr, ConditionDBAvailable); !strings.HasPrefix(got, "False/DBCredentialsError/") {
			t.Errorf("DBAvailable is %s", got)
		}
	}
}

// TestAMigrationWaitsForTheDatabaseAuthority: it interrupts the service, for pods that cannot connect.
func TestAMigrationWaitsForTheDatabaseAuthority(t *testing.T) {
	c, cr := newCluster(), custom(t, databaseSpec)
	cr.Status.StorageFormat = v1.StoragePVC
	c.Put(credentials("p"))
	c.Put(secretOf2("ns", "tas-db-ca", map[string]string{"other": "x"}))
	for range 2 {
		facts, p := gatherAndRender(t, c, cr)
		if facts.Next == nil || facts.Next.Phase != v1.MigrationPending || reasons(p) != "Waiting DBCredentialsError" {
			t.Errorf("the migration is %+v, the problems are %s", facts.Next, reasons(p))
		}
		cr.Status.Migration = facts.Next
	}
}
