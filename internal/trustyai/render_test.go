package trustyai

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// subset says where got lacks what want gives.
func subset(want, got any, path string) string {
	switch w := want.(type) {
	case nil:
		if got == nil {
			return ""
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return path + " is missing"
		}
		for key := range w {
			if s := subset(w[key], g[key], path+"."+key); s != "" {
				return s
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return path + " has another length"
		}
		for i := range w {
			if s := subset(w[i], g[i], path+"[]"); s != "" {
				return s
			}
		}
		return ""
	}
	if wf, ok := want.(float64); ok {
		want = int64(wf)
	}
	if !reflect.DeepEqual(want, got) {
		return path + " differs"
	}
	return ""
}

func Test_ADR_ExpectedChildren(t *testing.T) {
	raw, err := os.ReadFile("../../test/testdata/seeds/trustyai-expected-children.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile("../../test/testdata/seeds/trustyai-service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster()
	c.Put(parse(t, pvYAML))
	_, p := gatherAndRender(t, c, custom(t, string(seed)))
	if len(p.Problems) > 0 {
		t.Fatal(p.Problems)
	}
	checked := 0
	for _, doc := range strings.Split(string(raw), "\n---\n") {
		want := parse(t, doc)
		if want.GetName() == "model-serving-config" {
			continue // a wire edits it
		}
		got := mustFind(t, p, want.GetKind(), want.GetName())
		if s := subset(want.Object, got.Object, want.GetKind()); s != "" {
			t.Error(s)
		}
		if !reflect.DeepEqual(want.GetLabels(), got.GetLabels()) {
			t.Errorf("%s has labels %v", want.GetKind(), got.GetLabels())
		}
		checked++
	}
	if checked != 3 {
		t.Errorf("checked %d children", checked)
	}
}

// heldClaim is the claim of a service as the cache has it.
const heldClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: tas-pvc, namespace: ns, annotations: {keeper.mlkeeper.dev/requested-size: 1Gi}}
`

func goldenCases(t testing.TB) map[string]func() (*cluster, *v1.TrustyAIService) {
	with := func(spec string, prepare func(*cluster, *v1.TrustyAIService), served ...schema.GroupVersionKind) func() (*cluster, *v1.TrustyAIService) {
		return func() (*cluster, *v1.TrustyAIService) {
			c, cr := newCluster(served...), custom(t, spec)
			if prepare != nil {
				prepare(c, cr)
			}
			return c, cr
		}
	}
	user := func(c *cluster, cr *v1.TrustyAIService) {
		cr.Spec.TLS = &v1.TLSSpec{SecretName: "mine.example"}
		c.Put(secretOf2("ns", "mine.example", map[string]string{"tls.crt": "CRT", "tls.key": "KEY", "ca.crt": pemOf("CA")}))
	}
	migrating := func(phase v1.MigrationPhase) func(c *cluster, cr *v1.TrustyAIService) {
		return func(c *cluster, cr *v1.TrustyAIService) {
			cr.Spec.Exposure = v1.ExposurePlain
			cr.Status.StorageFormat = v1.StoragePVC
			cr.Status.Migration = &v1.MigrationStatus{Phase: phase, From: v1.StoragePVC, To: v1.StorageDatabase, Generation: 1}
			c.Put(credentials("p"))
			c.Own(parse(t, heldClaim), testOwner)
		}
	}
	pv := func(c *cluster, _ *v1.TrustyAIService) { c.Put(parse(t, pvYAML)) }
	const python = "  image: quay.io/trustyai/trustyai-service:latest\n"
	// OpenShift has service-ca and security context constraints, never one of them alone.
	openShift := []schema.GroupVersionKind{gvkServiceCA, gvkConstraints}
	// The ADR is of the time before TLS.
	own := func(c *cluster, cr *v1.TrustyAIService) {
		pv(c, cr)
		cr.Spec.ImageGeneration = v1.GenerationJava
	}
	return map[string]func() (*cluster, *v1.TrustyAIService){
		"adr-pvc":                   with(adrSpec, own),
		"adr-java-tls":              with(adrSpec, pv),
		"python-secured-service-ca": with(adrSpec+python+"  exposure: Secured\n", pv, openShift...),
		"python-secured-user":       with(upstreamSpec+python, user),
		"python-migration-copying": with(strings.ReplaceAll(databaseSpec, "data.csv", "data.hdf5")+python, func(c *cluster, cr *v1.TrustyAIService) {
			migrating(v1.MigrationCopying)(c, cr)
			user(c, cr)
			cr.Spec.Exposure = v1.ExposureSecured
		}),
		"adr-service-monitoring":        with(adrSpec+"  serviceMonitoring: {ref: {apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, spec: {endpoints: [{interval: 15s}]}}}\n", own),
		"adr-secured-service-ca":        with(adrSpec+"  exposure: Secured\n", pv, openShift...),
		"upstream-secured-service-ca":   with(upstreamSpec, nil, append(openShift, gvkCertificate)...),
		"upstream-secured-cert-manager": with(upstreamSpec, nil, gvkCertificate),
		"upstream-secured-issuer":       with(upstreamSpec+"  tls: {issuerRef: {kind: ClusterIssuer, name: corp}}\n", nil, gvkCertificate),
		"upstream-secured-user":         with(upstreamSpec, user),
		"upstream-plain":                with(upstreamSpec+"  exposure: Plain\n", nil),
		"upstream-database":             with(databaseSpec+"  exposure: Plain\n", func(c *cluster, _ *v1.TrustyAIService) { c.Put(credentials("p")) }),
		"migration-pending":             with(databaseSpec, migrating(v1.MigrationPending)),
		"migration-copying":             with(databaseSpec, migrating(v1.MigrationCopying)),
		"migration-verifying":           with(databaseSpec, migrating(v1.MigrationVerifying)),
		"migration-done":                with(databaseSpec, migrating(v1.MigrationDone)),
		"migration-failed":              with(databaseSpec, migrating(v1.MigrationFailed)),
	}
}

func Test_Golden(t *testing.T) {
	for name, build := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			c, cr := build()
			_, p := gatherAndRender(t, c, cr)
			golden(t, name, p)
		})
	}
	t.Run("upstream-secured-own-ca", func(t *testing.T) {
		c, cr := newCluster(), custom(t, upstreamSpec)
		facts, _ := stored(t, c, cr)
		facts.Deployment = nil
		// The bytes are random, so the golden file has none of them.
		for i := range facts.Certs.Own {
			facts.Certs.Own[i].Cert, facts.Certs.Own[i].Key, facts.Certs.Own[i].CA = []byte("CRT"), []byte("KEY"), []byte("CA")
		}
		facts.Certs.CA, facts.Certs.Digest = "CA", "digest"
		golden(t, "upstream-secured-own-ca", testSystem().Render(cr, facts))
	})
}

func Test_RenderIsPure(t *testing.T) {
	for name, build := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			c, cr := build()
			facts, p := gatherAndRender(t, c, cr)
			want, before := print(t, p), cr.DeepCopy()
			for range 100 {
				if again := testSystem().Render(cr, facts); !bytes.Equal(print(t, again), want) {
					t.Fatal("two renderings differ")
				}
			}
			if !reflect.DeepEqual(before, cr) {
				t.Error("rendering changed the custom resource")
			}
		})
	}
}

func Test_Problems(t *testing.T) {
	edit := func(f func(*cluster, *v1.TrustyAIService)) func(*cluster, *v1.TrustyAIService) { return f }
	volume := func(text string) func(*cluster, *v1.TrustyAIService) {
		return func(c *cluster, _ *v1.TrustyAIService) { c.Put(parse(t, text)) }
	}
	ref := func(raw string) func(*cluster, *v1.TrustyAIService) {
		return func(c *cluster, cr *v1.TrustyAIService) {
			c.Put(parse(t, pvYAML))
			cr.Spec.ServiceMonitoring = custom(t, "spec: {serviceMonitoring: {ref: "+raw+"}}").Spec.ServiceMonitoring
		}
	}
	const pv = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: mypv}\n"
	for _, tc := range []struct {
		name, spec string
		prepare    func(*cluster, *v1.TrustyAIService)
		want       string
	}{
		{"volume absent", adrSpec, nil, "Waiting VolumeNotFound"},
		{"volume bound elsewhere", adrSpec, volume(pv + "spec: {capacity: {storage: 1Gi}, claimRef: {namespace: other, name: c}}"), "Waiting VolumeBoundElsewhere"},
		{"volume released", adrSpec, volume(pv + "spec: {capacity: {storage: 1Gi}, claimRef: {namespace: ns, name: trustyai-service-pvc, uid: gone}}"), "Waiting VolumeReleased"},
		{"volume reserved", adrSpec, volume(pv + "spec: {capacity: {storage: 1Gi}, claimRef: {namespace: ns, name: trustyai-service-pvc}}"), ""},
		{"volume too small", adrSpec, volume(pv + "spec: {capacity: {storage: 1Mi}}"), "Terminal VolumeTooSmall"},
		{"volume of a class", adrSpec, volume(pv + "spec: {storageClassName: fast, capacity: {storage: 1Gi}}"), "Waiting VolumeClassDiffers"},
		{"no credentials", databaseSpec, nil, "Waiting DBCredentialsNotFound"},
		{"empty password", databaseSpec, edit(func(c *cluster, _ *v1.TrustyAIService) { c.Put(credentials("")) }), "Waiting DBCredentialsError"},
		{"size", upstreamSpec, edit(func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Size = "1Gi\nx" }), "Terminal InvalidSize"},
		{"schedule", upstreamSpec, edit(func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Metrics.Schedule = "5s\nx: y" }), "Terminal InvalidSchedule"},
		{"two schedules", adrSpec + "  metrics: {schedule: 1s}\n", volume(pvYAML), "Terminal ScheduleAmbiguous"},
		{"folder", upstreamSpec, edit(func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Folder = "/in: puts" }), "Terminal InvalidFolder"},
		{"no folder", upstreamSpec, edit(func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Folder = "" }), "Terminal FolderMissing"},
		{"selector", upstreamSpec + "  inferenceServices: {selector: {matchExpressions: [{key: a, operator: Like}]}}\n", nil, "Terminal SelectorInvalid"},
		{"issuer without cert-manager", upstreamSpec + "  tls: {issuerRef: {name: x}}\n", nil, "Waiting CertManagerNotServed"},
		{"user's certificate absent", upstreamSpec + "  tls: {secretName: x}\n", nil, "Waiting TLSSecretNotFound"},
		{"user's key absent", upstreamSpec + "  tls: {secretName: x}\n", edit(func(c *cluster, _ *v1.TrustyAIService) {
			c.Put(secretOf2("ns", "x", map[string]string{"tls.crt": "y"}))
		}), "Waiting TLSSecretIncomplete"},
		{"ref of another kind", adrSpec, ref("{kind: PodMonitor}"), "Terminal InvalidServiceMonitoring"},
		{"ref of another version", adrSpec, ref("{apiVersion: v1}"), "Terminal InvalidServiceMonitoring"},
		{"ref is a list", adrSpec, ref("[]"), "Terminal InvalidServiceMonitoring"},
		{"endpoints are text", adrSpec, ref("{spec: {endpoints: x}}"), "Terminal InvalidServiceMonitoring"},
		{"an endpoint is text", adrSpec, ref("{spec: {endpoints: [x]}}"), "Terminal InvalidServiceMonitoring"},
		{"a label is a number", adrSpec, ref("{metadata: {labels: {a: 1}}}"), "Terminal InvalidServiceMonitoring"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, cr := newCluster(), custom(t, tc.spec)
			if tc.prepare != nil {
				tc.prepare(c, cr)
			}
			_, p := gatherAndRender(t, c, cr)
			if got := reasons(p); got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for _, problem := range p.Problems {
				if problem.Remedy == "" || problem.Field == "" || strings.ContainsAny(problem.Error(), "\n\r") {
					t.Errorf("the problem needs a field, a remedy and one line: %q", problem.Error())
				}
				if strings.Contains(problem.Error(), "other/") {
					t.Errorf("the problem tells what is in another namespace: %q", problem.Error())
				}
			}
			if find(p, "Service", ServiceName(cr)) == nil {
				t.Error("a problem takes out what is harmless")
			}
			// What cannot be carried out changes nothing that exists.
			if monitored := find(p, "ServiceMonitor", namesOf(cr).serviceMonitor) != nil; monitored == strings.Contains(tc.want, reasonInvalidMonitoring) {
				t.Errorf("there is a ServiceMonitor: %v", monitored)
			}
		})
	}
}

// Test_TheSizeOfAnothersClaimIsNotOurs: the claim that MLKeeper makes when the other one has gone could never shrink to what was asked for.
func Test_TheSizeOfAnothersClaimIsNotOurs(t *testing.T) {
	cr := custom(t, upstreamSpec)
	for _, ours := range []bool{false, true} {
		facts, _ := gatherAndRender(t, newCluster(), cr)
		facts.Claim = &Claim{UID: "c", Size: "2Gi", Ours: ours}
		p := testSystem().Render(cr, facts)
		size, _, _ := unstructured.NestedString(mustFind(t, p, "PersistentVolumeClaim", "tas-pvc").Object, "spec", "resources", "requests", "storage")
		if told := reasons(p) == "Terminal SizeDecreased"; told != ours || size != map[bool]string{false: "1Gi", true: "2Gi"}[ours] {
			t.Errorf("ours %t: it asks for %s: %v", ours, size, p.Problems)
		}
	}
}

func Test_SizeIsNeverDecreased(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, testOwner)
	cr.Spec.Storage.Size = "500Mi"
	_, p = gatherAndRender(t, c, cr)
	if reasons(p) != "Terminal SizeDecreased" || !strings.Contains(p.Problems[0].Error(), "1Gi") || !strings.Contains(p.Problems[0].Error(), "500Mi") {
		t.Fatal(p.Problems)
	}
	size, _, _ := unstructured.NestedString(mustFind(t, p, "PersistentVolumeClaim", "tas-pvc").Object, "spec", "resources", "requests", "storage")
	if size != "1Gi" {
		t.Errorf("the claim asks for %s", size)
	}
	cr.Spec.Storage.Size = "2Gi"
	_, p = gatherAndRender(t, c, cr)
	size, _, _ = unstructured.NestedString(mustFind(t, p, "PersistentVolumeClaim", "tas-pvc").Object, "spec", "resources", "requests", "storage")
	if len(p.Problems) > 0 || size != "2Gi" {
		t.Errorf("the claim asks for %s: %v", size, p.Problems)
	}
}

func Test_RetentionAndDeletionPolicy(t *testing.T) {
	for _, c := range []struct {
		retention     v1.RetentionPolicy
		deletion      keeper.DeletionPolicy
		claim, others keeper.EntryPolicy
	}{
		{"", "", keeper.Retain, ""},
		{v1.RetentionRetain, keeper.DeletionDelete, keeper.Retain, ""},
		{v1.RetentionDelete, "", "", ""},
		{v1.RetentionRetain, keeper.DeletionOrphan, keeper.Retain, keeper.Orphan},
		{v1.RetentionDelete, keeper.DeletionOrphan, keeper.Orphan, keeper.Orphan},
	} {
		cr := custom(t, upstreamSpec)
		cr.Spec.Storage.RetentionPolicy, cr.Spec.DeletionPolicy = c.retention, c.deletion
		_, p := gatherAndRender(t, newCluster(), cr)
		for _, o := range p.Stages[0].Objects {
			want := c.others
			if o.Desired.GetKind() == "PersistentVolumeClaim" {
				want = c.claim
				if o.OnImmutable != plan.ImmutableStall {
					t.Errorf("%s may be recreated", o.Key())
				}
			}
			if o.Policy() != want {
				t.Errorf("retentionPolicy %q, deletionPolicy %q: %s has the policy %q, want %q", c.retention, c.deletion, o.Key(), o.Policy(), want)
			}
		}
	}
}

func Test_CredentialRotationRollsThePods(t *testing.T) {
	seen := map[string]bool{}
	for _, password := range []string{"hunter2", "hunter3"} {
		c, cr := newCluster(), custom(t, databaseSpec)
		c.Put(credentials(password))
		facts, p := gatherAndRender(t, c, cr)
		seen[facts.Database.Digest] = true
		annotations, _, _ := unstructured.NestedStringMap(mustFind(t, p, "Deployment", "tas").Object, "spec", "template", "metadata", "annotations")
		if annotations[credentialsAnnotation] != facts.Database.Digest {
			t.Error("the pods do not carry the digest")
		}
		if bytes.Contains(print(t, p), []byte(password)) {
			t.Error("the password leaks")
		}
	}
	if len(seen) != 2 {
		t.Error("two passwords have one digest")
	}
	// What the database's operator keeps beside them is read by no pod, and restarts none.
	c, secret := newCluster(), credentials("hunter2")
	if err := unstructured.SetNestedField(secret.Object, "cm9vdA==", "data", "rootPassword"); err != nil {
		t.Fatal(err)
	}
	c.Put(secret)
	if facts, _ := gatherAndRender(t, c, custom(t, databaseSpec)); !seen[facts.Database.Digest] {
		t.Error("a key that no pod reads changes the digest")
	}
	of := map[string]bool{}
	for _, authority := range []map[string]string{{"ca.crt": "a"}, {"ca.crt": "a", "ca.key": "k"}, {"ca.crt": "b"}} {
		c.Put(secretOf2("ns", "tas-db-ca", authority))
		facts, _ := gatherAndRender(t, c, custom(t, databaseSpec))
		of[facts.Database.Digest] = true
	}
	if len(of) != 2 {
		t.Errorf("two authorities, one of them with its key, have %d digests", len(of))
	}
}

func Test_ConsumerURL(t *testing.T) {
	if got := ConsumerURL(custom(t, adrSpec)); got != "http://trustyai-service.ns.svc.cluster.local/consumer/kserve/v2" {
		t.Error(got)
	}
	if got := ConsumerURL(custom(t, upstreamSpec)); got != "https://tas.ns.svc/consumer/kserve/v2" {
		t.Error(got)
	}
}

// Test_OneWriterOnAVolume holds the Deployment of every template: what has the volume is replaced by Recreate, has one pod
// and is tied to no node; what has the database alone surges and scales.
func Test_OneWriterOnAVolume(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		migration  v1.MigrationPhase
		strategy   string
		replicas   int64
	}{
		{"the ADR's shape", adrSpec, "", "Recreate", 1},
		{"upstream's shape", upstreamSpec, "", "Recreate", 1},
		{"waiting for the copy", databaseSpec, v1.MigrationPending, "Recreate", 1},
		{"copying", databaseSpec, v1.MigrationCopying, "Recreate", 1},
		{"copied", databaseSpec, v1.MigrationDone, "RollingUpdate", 3},
		{"database", databaseSpec, "", "RollingUpdate", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, cr := newCluster(), custom(t, tc.spec)
			c.Put(credentials("p"))
			if cr.Spec.Storage.Format == v1.StorageDatabase {
				cr.Spec.Replicas = pointer(int32(3))
			}
			if tc.migration != "" {
				cr.Status.StorageFormat = v1.StoragePVC
				cr.Status.Migration = &v1.MigrationStatus{Phase: tc.migration, From: v1.StoragePVC, To: v1.StorageDatabase, Generation: 1}
			}
			_, p := gatherAndRender(t, c, cr)
			d := mustFind(t, p, "Deployment", ServiceName(cr))
			if got, _, _ := unstructured.NestedString(d.Object, "spec", "strategy", "type"); got != tc.strategy {
				t.Errorf("the strategy is %s, not %s", got, tc.strategy)
			}
			if got, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); got != tc.replicas {
				t.Errorf("%d replicas, not %d", got, tc.replicas)
			}
			if affinity, found, _ := unstructured.NestedMap(d.Object, "spec", "template", "spec", "affinity"); found {
				t.Errorf("the pod is tied to %v", affinity)
			}
		})
	}
}

// Test_TwoWritersAreRefusedAndRunOn is about a custom resource that was stored before the schema refused it.
func Test_TwoWritersAreRefusedAndRunOn(t *testing.T) {
	cr := custom(t, upstreamSpec)
	cr.Spec.Replicas = pointer(int32(2))
	_, p := gatherAndRender(t, newCluster(), cr)
	if reasons(p) != "Terminal ReplicasShareVolume" {
		t.Error(p.Problems)
	}
	if find(p, "Deployment", "tas") != nil {
		t.Error("the Deployment that runs is changed")
	}
}
