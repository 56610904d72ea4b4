package tfserv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

var (
	autoscaler   = schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	scaledObject = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
)

const byKEDA = `{"spec":{"autoscaling":{"minReplicas":0,"maxReplicas":6,"keda":{"triggers":[` +
	`{"type":"prometheus","metadata":{"serverAddress":"http://prometheus:9090","query":"up","threshold":"5"}}]}}}}`

// scale writes replicas as an autoscaler does. There are no metrics here that would move one.
func scale(t *testing.T, c *cluster.Cluster, ns, manager string, n int32) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.AppsV1().Deployments(ns).UpdateScale(t.Context(), sample, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: sample, Namespace: ns}, Spec: autoscalingv1.ScaleSpec{Replicas: n},
	}, metav1.UpdateOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
}

func replicasAre(t *testing.T, c *cluster.Cluster, ns string, want int64) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error {
		if got := field(t, c.Get(t, deployment, ns, sample), "spec", "replicas"); got != want {
			return fmt.Errorf("%v replicas, not %d", got, want)
		}
		return nil
	})
}

func absent(t *testing.T, c *cluster.Cluster, gvk schema.GroupVersionKind, ns, name string) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error {
		if c.Get(t, gvk, ns, name) != nil {
			return fmt.Errorf("the %s %s is still there", gvk.Kind, name)
		}
		return nil
	})
}

func present(t *testing.T, c *cluster.Cluster, gvk schema.GroupVersionKind, ns, name string) *unstructured.Unstructured {
	t.Helper()
	var out *unstructured.Unstructured
	cluster.Eventually(t, time.Minute, func() error {
		if out = c.Get(t, gvk, ns, name); out == nil {
			return fmt.Errorf("there is no %s %s", gvk.Kind, name)
		}
		return nil
	})
	return out
}

// TestReplicasCountAgainWithoutAnAutoscaler: what it wrote last stays in managedFields for ever, and is nobody's any more.
func TestReplicasCountAgainWithoutAnAutoscaler(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, fixture.Nobody{})
	docs := documents(t)
	c.Apply(t, strings.Join(docs[:2], "\n---\n"), ns)
	c.Apply(t, docs[2]+"\n  autoscaling: {minReplicas: 1, maxReplicas: 6}\n", ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	scale(t, c, ns, "kube-controller-manager", 5)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	declared := field(t, c.Get(t, tfserv, ns, sample), "spec", "replicas").(int64)
	patch(t, c, tfserv, ns, sample, `{"spec":{"autoscaling":null}}`)
	absent(t, c, autoscaler, ns, sample)
	replicasAre(t, c, ns, declared)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)

	// As many as the autoscaler left, and then another number.
	patch(t, c, tfserv, ns, sample, `{"spec":{"autoscaling":{"minReplicas":1,"maxReplicas":6}}}`)
	present(t, c, autoscaler, ns, sample)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	scale(t, c, ns, "kube-controller-manager", 4)
	patch(t, c, tfserv, ns, sample, `{"spec":{"autoscaling":null,"replicas":4}}`)
	absent(t, c, autoscaler, ns, sample)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	replicasAre(t, c, ns, 4)
	patch(t, c, tfserv, ns, sample, `{"spec":{"replicas":3}}`)
	replicasAre(t, c, ns, 3)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
}

// together fails when two autoscalers of a Deployment are there at once that nobody deletes and whose owner is there.
func together(ctx context.Context, t *testing.T, c *cluster.Cluster, ns string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(autoscaler)
			if err := c.Client.List(ctx, list, client.InNamespace(ns)); err == nil {
				// The garbage collector deletes KEDA's own some time after its ScaledObject, and nobody else can tell when.
				owner := &unstructured.Unstructured{}
				owner.SetGroupVersionKind(scaledObject)
				err := c.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: sample}, owner)
				orphaned := apierrors.IsNotFound(err)
				if err != nil && !orphaned {
					continue // Nothing is known of the owner, as when the test stops meanwhile.
				}
				list.Items = slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool {
					return u.GetDeletionTimestamp() != nil || orphaned && u.GetName() == sample+"-keda"
				})
				if len(list.Items) > 1 {
					t.Errorf("%d HorizontalPodAutoscalers at once", len(list.Items))
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

// TestKEDAScalesToZeroAndBack, with the stand-in of KEDA: its admission, its HorizontalPodAutoscaler, and its writes of replicas.
func TestKEDAScalesToZeroAndBack(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, fixture.Nobody{})
	docs := documents(t)
	c.Apply(t, strings.Join(docs[:2], "\n---\n"), ns)
	c.Apply(t, docs[2]+"\n  autoscaling: {minReplicas: 2, maxReplicas: 6}\n", ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	present(t, c, autoscaler, ns, sample)

	// One goes before the other comes, and no pod goes with it.
	stop := together(t.Context(), t, c, ns)
	patch(t, c, tfserv, ns, sample, byKEDA)
	present(t, c, scaledObject, ns, sample)
	present(t, c, autoscaler, ns, sample+"-keda")
	absent(t, c, autoscaler, ns, sample)
	stop()
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	replicasAre(t, c, ns, 3)

	// Zero is a number that KEDA scales to. Nobody fights it, and a change of the spec does not either.
	c.Kubectl(t, "-n", ns, "annotate", "scaledobject", sample, "devcluster.mlkeeper.dev/keda-inactive=true")
	replicasAre(t, c, ns, 0)
	patch(t, c, tfserv, ns, sample, `{"spec":{"imagePullPolicy":"Always"}}`)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	o.Settle(t, time.Minute)
	replicasAre(t, c, ns, 0)
	c.Kubectl(t, "-n", ns, "annotate", "scaledobject", sample, "devcluster.mlkeeper.dev/keda-inactive-")
	replicasAre(t, c, ns, 1)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)

	// 0 stops the servers although a trigger is active, and another number lets KEDA go on.
	patch(t, c, tfserv, ns, sample, `{"spec":{"replicas":0}}`)
	absent(t, c, autoscaler, ns, sample+"-keda")
	replicasAre(t, c, ns, 0)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	patch(t, c, tfserv, ns, sample, `{"spec":{"replicas":1}}`)
	present(t, c, autoscaler, ns, sample+"-keda")
	replicasAre(t, c, ns, 1)

	// Without it the replicas are those declared, also where KEDA has left none.
	c.Kubectl(t, "-n", ns, "annotate", "scaledobject", sample, "devcluster.mlkeeper.dev/keda-inactive=true")
	replicasAre(t, c, ns, 0)
	patch(t, c, tfserv, ns, sample, `{"spec":{"autoscaling":null,"replicas":3}}`)
	absent(t, c, scaledObject, ns, sample)
	absent(t, c, autoscaler, ns, sample+"-keda")
	replicasAre(t, c, ns, 3)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)

	// And back to the other kind.
	patch(t, c, tfserv, ns, sample, byKEDA)
	present(t, c, autoscaler, ns, sample+"-keda")
	stop = together(t.Context(), t, c, ns)
	patch(t, c, tfserv, ns, sample, `{"spec":{"autoscaling":{"minReplicas":1,"keda":null}}}`)
	present(t, c, autoscaler, ns, sample)
	stop()
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "delete", "tfserv", sample, "--timeout=60s")
	absent(t, c, autoscaler, ns, sample)
}

// TestWhatKEDARefusesIsTold, and the servers run on.
func TestWhatKEDARefusesIsTold(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, fixture.Nobody{})
	c.Apply(t, strings.Join(documents(t), "\n---\n"), ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	template := fmt.Sprint(field(t, c.Get(t, deployment, ns, sample), "spec", "template"))
	patch(t, c, tfserv, ns, sample, `{"spec":{"autoscaling":{"maxReplicas":6,"keda":{"triggers":[{"type":"cpu","metadata":{"value":"50"}}]}}}}`)
	ready := condition(t, c, ns, sample, "Ready", metav1.ConditionFalse)
	if !strings.Contains(ready.Message, "cpu request") {
		t.Errorf("%s", ready.Message)
	}
	if warnings := fmt.Sprint(get(t, c, ns, sample).Status.Warnings); !strings.Contains(warnings, "spec.resources.requests.cpu") {
		t.Errorf("warnings %s", warnings)
	}
	if got := fmt.Sprint(field(t, c.Get(t, deployment, ns, sample), "spec", "template")); got != template {
		t.Errorf("the pods are other ones: %s\nnot %s", got, template)
	}
	patch(t, c, tfserv, ns, sample, `{"spec":{"resources":{"requests":{"cpu":"100m"}}}}`)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	present(t, c, autoscaler, ns, sample+"-keda")
}

// TestATriggerThatFailsIsTold, and no more once it works.
func TestATriggerThatFailsIsTold(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, fixture.Nobody{})
	c.Apply(t, strings.Join(documents(t), "\n---\n"), ns)
	patch(t, c, tfserv, ns, sample, byKEDA)
	present(t, c, autoscaler, ns, sample+"-keda")
	c.Kubectl(t, "-n", ns, "annotate", "scaledobject", sample, "devcluster.mlkeeper.dev/stand-in=off")
	for _, failing := range []bool{true, false} {
		status, reason := "True", "ScaledObjectReady"
		if failing {
			status, reason = "False", "TriggerError"
		}
		c.Kubectl(t, "-n", ns, "patch", "scaledobject", sample, "--subresource=status", "--type=merge", "-p",
			fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q}]}}`, status, reason))
		cluster.Eventually(t, time.Minute, func() error {
			warnings := fmt.Sprint(get(t, c, ns, sample).Status.Warnings)
			if strings.Contains(warnings, "the ScaledObject does not scale: TriggerError") != failing {
				return fmt.Errorf("with a trigger that is %s the warnings are %s", reason, warnings)
			}
			return nil
		})
		condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	}
}
