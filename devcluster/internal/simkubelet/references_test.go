package simkubelet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// readerOf reads the given objects.
func readerOf(t *testing.T, objects ...any) reader {
	t.Helper()
	core := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1()
	for _, o := range objects {
		informer := core.Secrets().Informer()
		switch o.(type) {
		case *corev1.ConfigMap:
			informer = core.ConfigMaps().Informer()
		case *corev1.PersistentVolumeClaim:
			informer = core.PersistentVolumeClaims().Informer()
		case *corev1.ServiceAccount:
			informer = core.ServiceAccounts().Informer()
		}
		if err := informer.GetStore().Add(o.(runtime.Object)); err != nil {
			t.Fatal(err)
		}
	}
	return reader{
		secrets: core.Secrets().Lister(), configMaps: core.ConfigMaps().Lister(),
		claims: core.PersistentVolumeClaims().Lister(), accounts: core.ServiceAccounts().Lister(),
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func secret(name, key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named(name), Data: map[string][]byte{key: nil}}
}

func config(name, key string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: named(name), Data: map[string]string{key: ""}, BinaryData: map[string][]byte{"binary": nil}}
}

func bound(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: named(name), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "volume-" + name},
		Status: corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
		},
	}
}

// Messages as a kubelet of the pinned release has them.
func TestAContainerWaitsForItsConfiguration(t *testing.T) {
	for container, want := range map[string]string{
		"env: [{name: E, valueFrom: {secretKeyRef: {name: x, key: k}}}]":                     `secret "x" not found`,
		"env: [{name: E, valueFrom: {secretKeyRef: {name: s, key: other}}}]":                 "couldn't find key other in Secret ns/s",
		"env: [{name: E, valueFrom: {secretKeyRef: {name: s, key: k}}}]":                     "",
		"env: [{name: E, valueFrom: {secretKeyRef: {name: x, key: k, optional: true}}}]":     "",
		"env: [{name: E, valueFrom: {secretKeyRef: {name: s, key: other, optional: true}}}]": "",
		"env: [{name: E, valueFrom: {configMapKeyRef: {name: x, key: k}}}]":                  `configmap "x" not found`,
		"env: [{name: E, valueFrom: {configMapKeyRef: {name: c, key: binary}}}]":             "couldn't find key binary in ConfigMap ns/c",
		"env: [{name: E, valueFrom: {configMapKeyRef: {name: c, key: k}}}]":                  "",
		"envFrom: [{secretRef: {name: x}}]":                                                  `secret "x" not found`,
		"envFrom: [{secretRef: {name: x, optional: true}}, {configMapRef: {name: x}}]":       `configmap "x" not found`,
		"securityContext: {runAsNonRoot: true, runAsUser: 0}":                                `container's runAsUser breaks non-root policy (pod: "p_ns(uid)", container: a)`,
	} {
		p := play(t, "spec: {containers: [{name: a, image: i, "+container+"}]}", secret("s", "k"), config("c", "k"))
		p.after(0)
		p.after(creating)
		status := p.s.status.ContainerStatuses[0]
		if want == "" {
			if status.State.Running == nil {
				t.Errorf("%s: %+v", container, status.State)
			}
			continue
		}
		if w := status.State.Waiting; w == nil || w.Reason != "CreateContainerConfigError" || w.Message != want {
			t.Errorf("%s: %+v", container, status.State)
		}
		p.said("Failed: Error: " + want)
		if !p.s.waits {
			t.Errorf("%s: it is not woken", container)
		}
	}
}

func TestAPodWaitsForItsVolumes(t *testing.T) {
	const setUp = `MountVolume.SetUp failed for volume "v" : `
	const claim = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC ns/"
	unbound := bound("unbound", corev1.ReadWriteOnce)
	unbound.Status.Phase = corev1.ClaimPending
	going := bound("going", corev1.ReadWriteOnce)
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for volume, want := range map[string]string{
		"secret: {secretName: x}":                                                 setUp + `secret "x" not found`,
		"secret: {secretName: x, optional: true}":                                 "",
		"secret: {secretName: s}":                                                 "",
		"secret: {secretName: s, items: [{key: other, path: p}]}":                 setUp + "references non-existent secret key: other",
		"secret: {secretName: s, items: [{key: other, path: p}], optional: true}": "",
		"configMap: {name: x}":                                                    setUp + `configmap "x" not found`,
		"configMap: {name: c, items: [{key: other, path: p}]}":                    setUp + "configmap references non-existent config key: other",
		"configMap: {name: c, items: [{key: binary, path: p}]}":                   "",
		"csi: {driver: d, nodePublishSecretRef: {name: x}}":                       setUp + `secret "x" not found`,
		"projected: {sources: [{secret: {name: x}}, {configMap: {name: x}}]}":     setUp + `[secret "x" not found, configmap "x" not found]`,
		"projected: {sources: [{serviceAccountToken: {path: p}}]}":                setUp + `failed to fetch token: serviceaccounts "nobody" not found`,
		"persistentVolumeClaim: {claimName: x}":                                   claim + `x: failed to fetch PVC from API server: persistentvolumeclaims "x" not found`,
		"persistentVolumeClaim: {claimName: unbound}":                             claim + "unbound: PVC is not bound",
		"persistentVolumeClaim: {claimName: going}":                               claim + "going: PVC is being deleted",
		"persistentVolumeClaim: {claimName: claim}":                               "",
		"ephemeral: {volumeClaimTemplate: {spec: {}}}":                            claim + `p-v: failed to fetch PVC from API server: persistentvolumeclaims "p-v" not found`,
		"emptyDir: {}": "",
	} {
		p := play(t, "spec: {serviceAccountName: nobody, volumes: [{name: v, "+volume+"}], containers: [{name: a, image: i}]}",
			secret("s", "k"), config("c", "k"), bound("claim", corev1.ReadWriteOnce), unbound, going)
		p.after(0)
		p.after(creating)
		if want == "" {
			p.is("Running Initialized ContainersReady Ready a:Running+ready")
			continue
		}
		p.is("Pending Initialized a:ContainerCreating")
		p.said("FailedMount: " + want)
		if !p.s.waits {
			t.Errorf("%s: it is not woken", volume)
		}
	}
}

func TestAMissingPullSecretIsAnEventAlone(t *testing.T) {
	p := play(t, "spec: {imagePullSecrets: [{name: x}, {name: s}], containers: [{name: a, image: i}]}", secret("s", "k"))
	p.after(0)
	p.after(creating).is("Running Initialized ContainersReady Ready a:Running+ready")
	p.said("FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (x); attempting to pull the image may not succeed.")
}

func TestAVolumeOfOneNodeIsAttachedToOneNode(t *testing.T) {
	k := &kubelet{attached: map[string]attachment{}, blocked: map[string]map[string]bool{}}
	k.read = readerOf(t, bound("one", corev1.ReadWriteOnce), bound("pod", corev1.ReadWriteOncePod), bound("many", corev1.ReadWriteMany))
	on := func(name, node string, claims ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{NodeName: node}}
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
			}})
		}
		return p
	}
	attach := func(p *corev1.Pod) string { return strings.Join(k.attach(keyOf(p), p), "; ") }
	var got []string
	for _, p := range []*corev1.Pod{
		on("a", "n1", "one", "many"), on("b", "n1", "one"), on("c", "n2", "one"), on("d", "n2", "many"), on("e", "n2", "pod", "one"),
	} {
		got = append(got, attach(p))
	}
	const refused = `Multi-Attach error for volume "volume-one" Volume is already used by pod(s) a, b`
	if diff := cmp.Diff([]string{"", "", refused, "", refused}, got); diff != "" {
		t.Error(diff)
	}
	k.detach("ns/a", "ns")
	if got := attach(on("c", "n2", "one")); got != `Multi-Attach error for volume "volume-one" Volume is already used by pod(s) b` {
		t.Error(got)
	}
	k.detach("ns/b", "ns")
	if got := attach(on("c", "n2", "one")); got != "" {
		t.Error(got)
	}
	// The claim of the pod that was refused for another one is free.
	if got := attach(on("f", "n1", "pod")); got != "" {
		t.Error(got)
	}
}

func TestValuesAreNotKept(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{"k": []byte("v")}}
	c := &corev1.ConfigMap{Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {1}}}
	for _, o := range []any{s, c} {
		if _, err := keysOnly(o); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Data["k"])+len(c.Data["k"])+len(c.BinaryData["b"]) > 0 || len(s.Data)+len(c.Data)+len(c.BinaryData) != 3 {
		t.Errorf("%v %v", s, c)
	}
}
