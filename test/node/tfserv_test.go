//go:build realnode

package node

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tfservingv1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

const (
	tfservName = "tfserv-sample"
	// requests are sent through the Service, one every interval. They have to outlast a rollout of three pods.
	requests = 2500
	interval = 40 * time.Millisecond
)

// tfservRollout applies the tutorial's manifests as they are, changes the model config while requests run through the
// Service, and asks at the port of the node as the tutorial does.
func tfservRollout(t *testing.T, c *cluster.Cluster) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	ns := c.Namespace(t)
	clientPod(t, c, ns, "client")
	applied := time.Now()
	c.Kubectl(t, "apply", "-n", ns, "-f", filepath.Join(root, "config", "samples", "tfserv.yaml"))
	tfservReady(t, c, ns, 1)
	t.Logf("3 of 3 Ready %s after the manifests were applied", time.Since(applied).Round(100*time.Millisecond))
	atTheNodesPort(t, c, ns, "1538687457")

	loaded := make(chan error, 1)
	began := time.Now()
	go func() {
		out, err := in(c, ns, "client", "load", fmt.Sprintf("http://%s-service.%s.svc.cluster.local:8500/v1/models/resnet:predict", tfservName, ns),
			`{"instances":[1,2]}`, fmt.Sprint(requests), interval.String())
		if err == nil && !strings.Contains(out, "none failed") {
			err = fmt.Errorf("no summary: %s", out)
		}
		loaded <- err
	}()
	time.Sleep(2 * time.Second) // The requests are to run before the change, too.
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: ns, Name: "tf-serving-models-config"}
	if err := c.Client.Get(t.Context(), key, config); err != nil {
		t.Fatal(err)
	}
	config.Data["models.conf"] = strings.ReplaceAll(config.Data["models.conf"], "1538687457", "1538687458")
	if err := c.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	deployment := tfservReady(t, c, ns, 2)
	rolled := time.Since(began)
	select {
	case err := <-loaded:
		t.Fatalf("the requests ended before the rollout did, which took %s (%v)", rolled, err)
	default:
	}
	if got := deployment.Status.UpdatedReplicas; got != 3 {
		t.Errorf("%d pods have the new config, not 3", got)
	}
	if err := <-loaded; err != nil {
		t.Errorf("during the change of the config: %v", err)
	}
	t.Logf("the change of the config was rolled out %s after the first of %d requests; none failed: %v", rolled.Round(100*time.Millisecond), requests, !t.Failed())
	atTheNodesPort(t, c, ns, "1538687458")

	c.Kubectl(t, "delete", "-n", ns, "tfserv", tfservName, "--timeout="+patience.String())
}

// tfservReady waits until the Tfserv is Ready with three pods and all its models, and its Deployment at a generation.
func tfservReady(t *testing.T, c *cluster.Cluster, ns string, generation int64) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	cluster.Eventually(t, patience, func() error {
		cr := &tfservingv1alpha1.Tfserv{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: tfservName}, cr); err != nil {
			return err
		}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: tfservName}, deployment); err != nil {
			return err
		}
		if deployment.Generation < generation || deployment.Status.ObservedGeneration < generation {
			return fmt.Errorf("the Deployment is at generation %d", deployment.Generation)
		}
		for _, kind := range []string{"Ready", "ModelsAvailable"} {
			if got := meta.FindStatusCondition(cr.Status.Conditions, kind); got == nil || got.Status != metav1.ConditionTrue {
				return fmt.Errorf("%s is not True: %+v", kind, cr.Status.Conditions)
			}
		}
		if cr.Status.ReadyReplicas != 3 || deployment.Status.Replicas != 3 {
			return fmt.Errorf("%d of %d pods are ready", cr.Status.ReadyReplicas, deployment.Status.Replicas)
		}
		return nil
	})
	return deployment
}

// atTheNodesPort does the tutorial's `curl http://<node>:<nodePort>/v1/models/resnet`.
func atTheNodesPort(t *testing.T, c *cluster.Cluster, ns, version string) {
	t.Helper()
	service, nodes := &corev1.Service{}, &corev1.NodeList{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: tfservName + "-service"}, service); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.List(t.Context(), nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("%d nodes: %v", len(nodes.Items), err)
	}
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		url := fmt.Sprintf("http://%s:%d/v1/models/resnet", address.Address, service.Spec.Ports[0].NodePort)
		got := mustIn(t, c, ns, "client", "get", url)
		for _, want := range []string{`"state": "AVAILABLE"`, `"version": "` + version + `"`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s answers %s, not %s", url, got, want)
			}
		}
		t.Logf("%s answers %s", url, strings.TrimSpace(got))
		return
	}
	t.Fatalf("the node has no address: %+v", nodes.Items[0].Status.Addresses)
}
