package references

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// everything is the spec of a pod with each kind of reference once.
const everything = `
serviceAccountName: account
initContainers:
- name: first
  env:
  - {name: A, valueFrom: {secretKeyRef: {name: secret, key: password}}}
containers:
- name: main
  env:
  - {name: PLAIN, value: x}
  - {name: FIELD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: B, valueFrom: {configMapKeyRef: {name: config, key: host}}}
  - {name: C, valueFrom: {configMapKeyRef: {name: nowhere, key: host, optional: true}}}
  envFrom:
  - secretRef: {name: secret}
  - configMapRef: {name: config}
  - secretRef: {name: nowhere, optional: true}
volumes:
- {name: whole, secret: {secretName: secret}}
- {name: items, configMap: {name: config, items: [{key: binary, path: b}]}}
- {name: optional, secret: {secretName: secret, optional: true, items: [{key: nowhere, path: x}]}}
- {name: claim, persistentVolumeClaim: {claimName: claim}}
- {name: driver, csi: {driver: d.example.test, nodePublishSecretRef: {name: secret}}}
- name: projected
  projected:
    sources:
    - secret: {name: secret, items: [{key: password, path: p}]}
    - configMap: {name: config}
    - serviceAccountToken: {path: token}
- {name: scratch, emptyDir: {}}
`

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func spec(t *testing.T) corev1.PodSpec {
	t.Helper()
	var out corev1.PodSpec
	if err := yaml.UnmarshalStrict([]byte(everything), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func targets(namespace string) []client.Object {
	return []client.Object{
		&corev1.Secret{ObjectMeta: in(namespace, "secret"), Data: map[string][]byte{"password": {}}},
		&corev1.ConfigMap{
			ObjectMeta: in(namespace, "config"), Data: map[string]string{"host": ""}, BinaryData: map[string][]byte{"binary": {1}},
		},
		&corev1.PersistentVolumeClaim{ObjectMeta: in(namespace, "claim")},
		&corev1.ServiceAccount{ObjectMeta: in(namespace, "account")},
	}
}

func TestNothingIsMissingWhereEverythingIsThere(t *testing.T) {
	objects := append(targets("ns"), &appsv1.Deployment{
		ObjectMeta: in("ns", "app"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec(t)}},
	})
	if missing, followed := Check(objects); len(missing) > 0 || followed != 11 {
		t.Errorf("%d followed, missing: %v", followed, missing)
	}
}

func TestEachMissingObjectIsNamedWhereItIsReferredTo(t *testing.T) {
	// Those of another namespace do not count.
	objects := append(targets("elsewhere"), &appsv1.Deployment{
		ObjectMeta: in("ns", "app"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec(t)}},
	})
	var want []Missing
	for _, w := range [][2]string{
		{"serviceAccountName", "ServiceAccount ns/account"},
		{"initContainers[first].env[A]", "Secret ns/secret"},
		{"containers[main].env[B]", "ConfigMap ns/config"},
		{"containers[main].envFrom[0]", "Secret ns/secret"},
		{"containers[main].envFrom[1]", "ConfigMap ns/config"},
		{"volumes[whole]", "Secret ns/secret"},
		{"volumes[items]", "ConfigMap ns/config"},
		{"volumes[claim]", "PersistentVolumeClaim ns/claim"},
		{"volumes[driver]", "Secret ns/secret"},
		{"volumes[projected].projected.sources[0]", "Secret ns/secret"},
		{"volumes[projected].projected.sources[1]", "ConfigMap ns/config"},
	} {
		want = append(want, Missing{"Deployment ns/app", w[0], w[1]})
	}
	got, _ := Check(objects)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEachMissingKeyIsNamed(t *testing.T) {
	objects := []client.Object{
		&corev1.Secret{ObjectMeta: in("ns", "secret")}, &corev1.ConfigMap{ObjectMeta: in("ns", "config")},
		&corev1.PersistentVolumeClaim{ObjectMeta: in("ns", "claim")}, &corev1.ServiceAccount{ObjectMeta: in("ns", "account")},
		&corev1.Pod{ObjectMeta: in("ns", "pod"), Spec: spec(t)},
	}
	want := []Missing{
		{"Pod ns/pod", "initContainers[first].env[A]", "key password of Secret ns/secret"},
		{"Pod ns/pod", "containers[main].env[B]", "key host of ConfigMap ns/config"},
		{"Pod ns/pod", "volumes[items]", "key binary of ConfigMap ns/config"},
		{"Pod ns/pod", "volumes[projected].projected.sources[0]", "key password of Secret ns/secret"},
	}
	got, _ := Check(objects)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryKindOfWorkloadIsLookedAt(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "nobody"}}
	maker := &appsv1.Deployment{ObjectMeta: in("ns", "a"), Spec: appsv1.DeploymentSpec{Template: template}}
	maker.UID = "maker"
	made, owned := in("ns", "made"), in("ns", "a")
	made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(maker, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	// A controller that is no workload, such as the operator, says nothing about references.
	inventory := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "inventory", UID: "inventory"}}
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(inventory, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	withClaims := template
	withClaims.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "of-the-template"},
	}}}
	objects := []client.Object{
		maker,
		&appsv1.StatefulSet{ObjectMeta: in("ns", "a"), Spec: appsv1.StatefulSetSpec{
			Template: withClaims, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		}},
		&appsv1.DaemonSet{ObjectMeta: owned, Spec: appsv1.DaemonSetSpec{Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: in("ns", "a"), Spec: appsv1.ReplicaSetSpec{Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: made, Spec: appsv1.ReplicaSetSpec{Template: template}},
		&batchv1.Job{ObjectMeta: in("ns", "a"), Spec: batchv1.JobSpec{Template: template}},
		&batchv1.CronJob{ObjectMeta: in("ns", "a"), Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
		}},
		&corev1.Pod{ObjectMeta: in("ns", "a"), Spec: template.Spec},
	}
	read, err := Read(t.Context(), fake.NewClientBuilder().WithObjects(objects...).Build())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	missing, _ := Check(read)
	for _, m := range missing {
		got[m.Workload] += m.To
	}
	want := map[string]string{}
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"} {
		want[kind+" ns/a"] = "ServiceAccount ns/nobody"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// record hears what Resolve reports.
type record struct {
	*testing.T
	errors int
}

func (r *record) Error(...any) { r.errors++ }

func TestResolveFailsForWhatIsMissingAndForWhatIsListedInVain(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: in("ns", "a"), Spec: corev1.PodSpec{ServiceAccountName: "nobody"}}
	const missing = "ServiceAccount ns/nobody"
	for name, c := range map[string]struct {
		list map[string]string
		want int
	}{
		"not listed":         {nil, 1},
		"listed":             {map[string]string{missing: "made by its controller"}, 0},
		"listed, no reason":  {map[string]string{missing: ""}, 1},
		"another one listed": {map[string]string{missing: "made by its controller", "Secret ns/there": "made by a Job"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &record{T: t}
			Resolve(r, fake.NewClientBuilder().WithObjects(pod).Build(), c.list)
			if r.errors != c.want {
				t.Errorf("%d errors, want %d", r.errors, c.want)
			}
		})
	}
}
