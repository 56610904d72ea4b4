package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	claimGVK     = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	explainKinds = append([]schema.GroupVersionKind{podKind, eventKind, claimGVK, volumeKind, leaseKind}, statusKinds...)
)

// withReady gives a custom resource a condition Ready of its latest generation.
func withReady(u *unstructured.Unstructured, status, reason, message string, more ...any) *unstructured.Unstructured {
	u.SetGeneration(3)
	u.Object["status"] = map[string]any{
		"observedGeneration": int64(3),
		"conditions": append([]any{map[string]any{
			"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:00:05Z",
		}}, more...),
		"inventory": map[string]any{"entries": []any{
			map[string]any{"version": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "claim"},
			map[string]any{"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "default", "name": "d"},
		}},
	}
	return u
}

func workload(owner *unstructured.Unstructured, available int64) *unstructured.Unstructured {
	u := child(deployGVK, owner, "d", map[string]any{
		"spec": map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"app": "a"}}},
		"status": map[string]any{
			"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": available, "observedGeneration": int64(1),
		},
	})
	u.SetGeneration(1)
	return u
}

func pod(status map[string]any) *unstructured.Unstructured {
	u := object(podKind, "default", "d-1", map[string]any{"status": status})
	u.SetLabels(map[string]string{"app": "a"})
	u.SetUID("pod")
	return u
}

func event(about, reason, message, at string) *unstructured.Unstructured {
	return object(eventKind, "default", strings.ToLower(about+"-"+reason), map[string]any{
		"involvedObject": map[string]any{"uid": about}, "type": "Warning", "reason": reason, "message": message, "lastTimestamp": at,
	})
}

func TestExplain(t *testing.T) {
	image := map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{
		"state": map[string]any{"waiting": map[string]any{"reason": "ErrImagePull", "message": "manifest for quay.io/x:nope is unknown"}},
	}}}
	unscheduled := map[string]any{"phase": "Pending", "conditions": []any{map[string]any{
		"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
	}}}
	claim := func(owner *unstructured.Unstructured, phase string) *unstructured.Unstructured {
		return child(claimGVK, owner, "claim", map[string]any{
			"spec": map[string]any{"volumeName": "mypv"}, "status": map[string]any{"phase": phase},
		})
	}
	for name, build := range map[string]func(u *unstructured.Unstructured) []*unstructured.Unstructured{
		"volume": func(u *unstructured.Unstructured) []*unstructured.Unstructured {
			withReady(u, "False", "VolumeNotFound", "spec.storage.pv (mypv): there is no PersistentVolume of this name; create it")
			return []*unstructured.Unstructured{claim(u, "Pending"), workload(u, 0), pod(unscheduled)}
		},
		"image": func(u *unstructured.Unstructured) []*unstructured.Unstructured {
			withReady(u, "False", "ComponentsNotReady", "Not all service components are ready: waiting for Deployment default/d")
			return []*unstructured.Unstructured{
				claim(u, "Bound"), workload(u, 0), pod(image),
				event("pod", "Old", "something before", "2026-01-02T02:00:05Z"),
				event("pod", "Failed", "Failed to pull image \"quay.io/x:nope\"", "2026-01-02T03:04:00Z"),
				event("other", "Failed", "of another pod", "2026-01-02T03:04:01Z"),
			}
		},
		"quota": func(u *unstructured.Unstructured) []*unstructured.Unstructured {
			withReady(u, "False", "ComponentsNotReady", "Not all service components are ready")
			d := workload(u, 0)
			d.SetUID("d")
			return []*unstructured.Unstructured{
				claim(u, "Bound"), d, event("d", "FailedCreate", "exceeded quota: small", "2026-01-02T03:04:00Z"),
			}
		},
		"ready": func(u *unstructured.Unstructured) []*unstructured.Unstructured {
			withReady(u, "True", "AllComponentsReady", "All service components are ready", map[string]any{
				"type": "FieldManagerConflict", "status": "True", "reason": "FieldOwnershipCeded", "message": "spec.replicas is held by kubectl",
			}, map[string]any{"type": "ModelMeshReady", "status": "False", "reason": "NotInstalled", "message": "no ModelMesh"})
			return []*unstructured.Unstructured{claim(u, "Bound"), workload(u, 1)}
		},
		"stalled": func(u *unstructured.Unstructured) []*unstructured.Unstructured {
			withReady(u, "False", "DuplicateService", "spec.trustyaiMetrics: another one is in the namespace; delete one",
				map[string]any{"type": "Stalled", "status": "True", "reason": "DuplicateService"})
			return []*unstructured.Unstructured{claim(u, "Bound"), workload(u, 1)}
		},
		"deleting": func(u *unstructured.Unstructured) []*unstructured.Unstructured {
			withReady(u, "True", "AllComponentsReady", "All service components are ready")
			at := u.GetCreationTimestamp()
			u.SetDeletionTimestamp(&at)
			u.SetFinalizers([]string{"example.com/theirs"})
			return []*unstructured.Unstructured{workload(u, 1)}
		},
		"unseen": func(*unstructured.Unstructured) []*unstructured.Unstructured {
			return []*unstructured.Unstructured{object(leaseKind, "mlkeeper-system", "mlkeeper.keeper.mlkeeper.dev", map[string]any{
				"spec": map[string]any{"holderIdentity": "pod-1", "renewTime": "2026-01-02T01:04:05.000000Z"},
			})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := liveService("s", "1", "2026-01-01T03:04:05Z")
			u.Object["status"] = nil
			objects := build(u)
			c, dyn := fakeCluster(t, explainKinds, append(objects, u)...)
			stdout, stderr, err := run(t, NewExplainCommand(environment(fakeController{}, c)), "", "tas/s")
			if err != nil || stderr != "" {
				t.Fatalf("%v\n%s", err, stderr)
			}
			golden(t, "explain-"+name+".golden.txt", stdout)
			for _, a := range dyn.Actions() {
				if a.GetVerb() != "list" && a.GetVerb() != "get" || a.GetResource().Resource == "secrets" {
					t.Errorf("%s of %s: it only looks, and not at Secrets", a.GetVerb(), a.GetResource().Resource)
				}
			}
			stdout, _, err = run(t, NewExplainCommand(environment(fakeController{}, c)), "", "tas/s", "-o", "json")
			var e Explanation
			if err != nil || json.Unmarshal([]byte(stdout), &e) != nil || e.Object != "TrustyAIService default/s" {
				t.Errorf("%v\n%s", err, stdout)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	if got := wrap("one two  three\nfour", 9); got != "one two\nthree\nfour" {
		t.Errorf("%q", got)
	}
	if got := wrap("overlong", 3); got != "overlong" {
		t.Errorf("%q", got)
	}
}
