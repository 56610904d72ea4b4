package decide

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/engine/plan"
)

// podOfAll refers to objects in every way; the name of each begins with its kind.
const podOfAll = `
serviceAccountName: ServiceAccount-runs
imagePullSecrets: [{name: Secret-pulls}]
nodeSelector: {name: no-object}
initContainers:
- name: no-object
  envFrom: [{configMapRef: {name: ConfigMap-env}}, {secretRef: {name: Secret-env}}]
containers:
- name: no-object
  env:
  - {name: secretName, value: no-object}
  - {name: A, valueFrom: {secretKeyRef: {name: Secret-key, key: no-object}}}
  - {name: B, valueFrom: {configMapKeyRef: {name: ConfigMap-key, key: no-object, optional: true}}}
  volumeMounts: [{name: no-object, mountPath: /secret}]
volumes:
- {name: no-object, persistentVolumeClaim: {claimName: PersistentVolumeClaim-data}}
- {name: no-object, secret: {secretName: Secret-volume}}
- {name: no-object, configMap: {name: ConfigMap-volume}}
- {name: no-object, projected: {sources: [{secret: {name: Secret-projected}}, {configMap: {name: ConfigMap-projected}}]}}
- {name: no-object, csi: {driver: d, nodePublishSecretRef: {name: Secret-csi}}}
- {name: no-object, azureFile: {secretName: Secret-share, shareName: no-object}}
- {name: no-object, rbd: {image: no-object, secretRef: {name: Secret-rbd}}}
- {name: no-object, emptyDir: {}}
`

var podReferences = []string{
	"ServiceAccount-runs", "Secret-pulls", "ConfigMap-env", "Secret-env", "Secret-key", "ConfigMap-key", "PersistentVolumeClaim-data",
	"Secret-volume", "ConfigMap-volume", "Secret-projected", "ConfigMap-projected", "Secret-csi", "Secret-share", "Secret-rbd",
}

// workloadOf is an action for a workload with the pods of podOfAll.
func workloadOf(t *testing.T, group, kind string, verb Verb, reason string) Action {
	t.Helper()
	var pod map[string]any
	if err := yaml.Unmarshal([]byte(podOfAll), &pod); err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{"template": map[string]any{"spec": pod}}
	switch kind {
	case "Pod":
		spec = pod
	case "CronJob":
		spec = map[string]any{"jobTemplate": map[string]any{"spec": spec}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	u.SetNamespace("ns")
	u.SetName("w")
	return Action{Verb: verb, Reason: reason, Key: plan.KeyOf(u), Object: plan.Stamped{Object: plan.Object{Desired: u}, Key: plan.KeyOf(u)}}
}

func keyIn(namespace, kind, name string) plan.Key {
	return plan.Key{GroupKind: schema.GroupKind{Kind: kind}, Namespace: namespace, Name: name}
}

func TestReferencesOfAPod(t *testing.T) {
	for kind, group := range map[string]string{"Pod": "", "Deployment": "apps", "StatefulSet": "apps", "Job": "batch", "CronJob": "batch"} {
		got := references(workloadOf(t, group, kind, Create, ReasonMissing).Object.Desired)
		for _, name := range podReferences {
			of, _, _ := strings.Cut(name, "-")
			if !got[keyIn("ns", of, name)] {
				t.Errorf("%s: no reference to %s", kind, name)
			}
		}
		if len(got) != len(podReferences) {
			t.Errorf("%s: %d references, want %d: %v", kind, len(got), len(podReferences), got)
		}
	}
}

// TestWorkloadsWaitForWhatAnotherOwns: until the name is free, no pods are started that use it, and none replaced for a change.
func TestWorkloadsWaitForWhatAnotherOwns(t *testing.T) {
	const name = "Secret-volume"
	taken := Action{Verb: Conflict, Key: keyIn("ns", "Secret", name)}
	other := func(verb Verb, reason string) Action { return Action{Verb: verb, Reason: reason, Key: taken.Key} }
	creates := workloadOf(t, "apps", "Deployment", Create, ReasonMissing)
	for test, c := range map[string]struct {
		other, workload Action
		waits           bool
	}{
		"found by its labels":    {taken, creates, true},
		"refused, and to wait":   {other(Wait, ReasonForeignOwner), workloadOf(t, "batch", "Job", Create, ReasonMissing), true},
		"a change":               {taken, workloadOf(t, "apps", "Deployment", Apply, ReasonChanged), true},
		"a repair":               {taken, workloadOf(t, "apps", "Deployment", Apply, ReasonDrift), false},
		"as declared":            {taken, workloadOf(t, "apps", "Deployment", Leave, ""), false},
		"another kind":           {Action{Verb: Conflict, Key: keyIn("ns", "ConfigMap", name)}, creates, false},
		"another namespace":      {Action{Verb: Conflict, Key: keyIn("other", "Secret", name)}, creates, false},
		"ours":                   {other(Leave, ""), creates, false},
		"to be written":          {other(Create, ReasonMissing), creates, false},
		"refused by a quota":     {other(Wait, "QuotaExceeded"), creates, false},
		"no workload refers":     {Action{Verb: Conflict, Key: keyIn("ns", "Secret", "else")}, creates, false},
		"of no kind with pods":   {taken, workloadOf(t, "g.io", "Deployment", Create, ReasonMissing), false},
		"a workload to be ended": {taken, Action{Verb: Delete, Key: keyIn("ns", "Pod", "w")}, false},
	} {
		actions := []Action{c.workload, c.other}
		HoldReferrers(actions)
		if waits := actions[0].Verb == Wait; waits != c.waits || actions[1].Verb != c.other.Verb {
			t.Errorf("%s: the workload is %s %s, the other %s", test, actions[0].Verb, actions[0].Detail, actions[1].Verb)
		}
		want := "Secret ns/Secret-volume, which belongs to another owner, to be free"
		if c.waits && (actions[0].Reason != ReasonDependency || actions[0].Detail != want) {
			t.Errorf("%s: it waits for %s %s", test, actions[0].Reason, actions[0].Detail)
		}
	}
}
