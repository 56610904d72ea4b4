package tfserv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/tfserver"
)

// kubelet has one model server run with the config that the Deployment mounts: it brings the file to the server, which reads it again and again,
// and replaces the server when the pod template changes.
type kubelet struct {
	cluster   *cluster.Cluster
	namespace string
	store     tfserver.Store

	mu       sync.Mutex
	server   *tfserver.Server
	template string
	// file is the model config as it is mounted.
	file string
}

// RoundTrip implements http.RoundTripper: every address has the server that runs now.
func (k *kubelet) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	server := k.server
	k.mu.Unlock()
	if server == nil {
		return nil, errors.New("no server runs")
	}
	return server.RoundTrip(r)
}

// sync looks at the Deployment and the ConfigMap once.
func (k *kubelet) sync(t *testing.T) {
	t.Helper()
	d, config := k.cluster.Get(t, deployment, k.namespace, sample), k.cluster.Get(t, configMap, k.namespace, sample+"-config-live")
	if d == nil || config == nil {
		return
	}
	template, _, _ := unstructured.NestedMap(d.Object, "spec", "template")
	data, _, _ := unstructured.NestedStringMap(config.Object, "data")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = data["models.conf"]
	if now := fmt.Sprint(template); now != k.template {
		k.template = now
		k.server = tfserver.InProcess(t, k.store, k.file, "--rest_api_port=8500", "--allow_version_labels_for_unavailable_models=true")
		go k.poll(t.Context(), k.server, k.file)
	}
}

// poll is the thread of a server that reads its config again. A reload that waits for a model keeps it from reading any other.
func (k *kubelet) poll(ctx context.Context, server *tfserver.Server, read string) {
	for ctx.Err() == nil {
		k.mu.Lock()
		file := k.file
		k.mu.Unlock()
		if file != read {
			read = file
			_ = server.Apply(file)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestACorrectedBasePathReachesServersThatWaitForTheOneBefore: TensorFlow Serving waits without limit for a model of which there is no version, and
// reads no other config meanwhile. Another pod does. Nobody else is restarted.
func TestACorrectedBasePathReachesServersThatWaitForTheOneBefore(t *testing.T) {
	c, store := cluster.Shared(t), &tfserver.Memory{}
	ns := c.Namespace(t)
	store.Put("/models/resnet", 41)
	store.Put("/models/ranker", 1)
	k := &kubelet{cluster: c, namespace: ns, store: store}
	startAsking(t, c, ns, k)
	declare := func(others string) {
		t.Helper()
		patch(t, c, tfserv, ns, sample, `{"spec":{"models":[{"name":"resnet","basePath":"/models/resnet"}`+others+`]}}`)
	}
	models := func(status metav1.ConditionStatus, count, names string) {
		t.Helper()
		cluster.Eventually(t, time.Minute, func() error {
			k.sync(t)
			cr := get(t, c, ns, sample)
			for _, condition := range cr.Status.Conditions {
				if condition.Type == "ModelsAvailable" && condition.Status == status && cr.Status.ModelsAvailable == count && strings.Contains(condition.Message, names) {
					return nil
				}
			}
			return fmt.Errorf("%s available, conditions %+v", cr.Status.ModelsAvailable, cr.Status.Conditions)
		})
	}
	c.Apply(t, reloading, ns)
	models(metav1.ConditionTrue, "1/1", "")
	first := k.template
	declare(`,{"name":"ranker","basePath":"/models/rancer"}`)
	models(metav1.ConditionFalse, "1/2", "ranker is UNKNOWN")
	if k.template != first {
		t.Error("a config with a wrong base path replaces servers that serve")
	}
	declare(`,{"name":"ranker","basePath":"/models/ranker"}`)
	models(metav1.ConditionTrue, "2/2", "")
	second := k.template
	if second == first {
		t.Error("the server that waits has read another config")
	}
	store.Put("/models/third", 1)
	declare(`,{"name":"ranker","basePath":"/models/ranker"},{"name":"third","basePath":"/models/third"}`)
	models(metav1.ConditionTrue, "3/3", "")
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	if k.template != second {
		t.Error("servers that read every config are replaced")
	}
}

// TestAnotherBasePathWithTheSameVersionIsServed: TensorFlow Serving tells versions apart by their numbers alone, so that servers which read of another
// base path serve on what they have of the one before.
func TestAnotherBasePathWithTheSameVersionIsServed(t *testing.T) {
	c, store := cluster.Shared(t), &tfserver.Memory{}
	ns := c.Namespace(t)
	june, july := tfserver.Model{Bias: 6}, tfserver.Model{Bias: 7}
	store.PutModel("/models/resnet", 41, june)
	store.PutModel("/models/july", 41, july)
	k := &kubelet{cluster: c, namespace: ns, store: store}
	startAsking(t, c, ns, k)
	serves := func(want tfserver.Model) {
		t.Helper()
		cluster.Eventually(t, time.Minute, func() error {
			if k.sync(t); k.server == nil {
				return errors.New("no server runs")
			}
			if got, _, err := k.server.Handle(tfserver.Spec{Model: "resnet"}); err != nil || got != want {
				return fmt.Errorf("the server has %+v: %w", got, err)
			}
			return nil
		})
		condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
		condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue)
	}
	c.Apply(t, reloading, ns)
	serves(june)
	first := k.template
	patch(t, c, tfserv, ns, sample, `{"spec":{"models":[{"name":"resnet","basePath":"/models/july"}]}}`)
	serves(july)
	if k.template == first {
		t.Error("the server is the one before")
	}
	if got := get(t, c, ns, sample).Status.Warnings; len(got) > 0 {
		t.Errorf("warnings %q", got)
	}
}
