package standin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func fakeClient(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		namespaces: "NamespaceList", configMaps: "ConfigMapList",
		scaledObjects: "ScaledObjectList", horizontalPodAutoscaler: "HorizontalPodAutoscalerList", deployments: "DeploymentList",
	}, objects...)
}

// TestAServiceThatOptedOutCanBeDeleted: its finalizer was put on before, and nobody else takes it off. That of another stays.
func TestAServiceThatOptedOutCanBeDeleted(t *testing.T) {
	at := slices.IndexFunc(roles, func(r role) bool { return r.finalizer == serviceFinalizer })
	obj := inferenceService(t, `{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: m, namespace: ns,
		annotations: {devcluster.mlkeeper.dev/stand-in: "off"}, finalizers: [inferenceservice.finalizers, other.test/held], deletionTimestamp: "2026-01-01T00:00:00Z"}}`)
	client, store := fakeClient(obj), cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(obj); err != nil {
		t.Fatal(err)
	}
	if err := newTroupe(client).act(t.Context(), roles[at], store, "ns/m"); err != nil {
		t.Fatal(err)
	}
	live, err := client.Resource(roles[at].resource).Namespace("ns").Get(t.Context(), "m", metav1.GetOptions{})
	if err != nil || !slices.Equal(live.GetFinalizers(), []string{"other.test/held"}) {
		t.Errorf("its finalizers are %v: %v", live.GetFinalizers(), err)
	}
}

// late is an API server that calls webhooks a while after they were registered.
type late struct {
	t *testing.T
	// left is how many objects it still creates without calling them.
	left       int
	registered map[string]*unstructured.Unstructured
}

func (l *late) client() *dynamicfake.FakeDynamicClient {
	l.registered = map[string]*unstructured.Unstructured{}
	client := fakeClient()
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		u := &unstructured.Unstructured{}
		patch, ok := action.(clienttesting.PatchAction)
		if !ok {
			return true, nil, fmt.Errorf("%T", action)
		}
		err := u.UnmarshalJSON(patch.GetPatch())
		l.registered[u.GetKind()] = u
		return true, u, err
	})
	client.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			return true, nil, fmt.Errorf("%T", action)
		}
		if l.left--; l.left < 0 {
			for _, configuration := range l.registered {
				l.call(configuration, create.GetObject())
			}
		}
		return true, create.GetObject(), nil
	})
	return client
}

// call calls those webhooks of a configuration that select an object.
func (l *late) call(configuration *unstructured.Unstructured, obj runtime.Object) {
	hooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, one := range hooks {
		hook, _ := one.(map[string]any)
		selected, _, _ := unstructured.NestedStringMap(hook, "objectSelector", "matchLabels")
		u, _ := obj.(*unstructured.Unstructured)
		if len(selected) == 0 || u.GetLabels()[probeLabel] != selected[probeLabel] {
			continue
		}
		authority, err := base64.StdEncoding.DecodeString(valueAt(hook, "clientConfig", "caBundle").(string))
		if err != nil {
			l.t.Error(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
		review, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "1"}})
		if err != nil {
			l.t.Error(err)
		}
		answer, err := (&http.Client{Transport: transport}).Post(valueAt(hook, "clientConfig", "url").(string), "application/json", bytes.NewReader(review))
		if err != nil {
			l.t.Error(err)
			return
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			l.t.Errorf("the webhook answers %s: %v", answer.Status, err)
		}
		transport.CloseIdleConnections()
	}
}

// TestWebhooksAreCalledOnceTheyAreRegistered: no sooner is the stand-in healthy, and so the cluster ready.
func TestWebhooksAreCalledOnceTheyAreRegistered(t *testing.T) {
	api := &late{t: t, left: 3}
	hooks, err := serveHooks(t.Context(), api.client())
	if err != nil {
		t.Fatal(err)
	}
	err = hooks.register(t.Context(), api.client())
	if err != nil || len(hooks.uncalled()) != 0 || api.left != -1 {
		t.Errorf("not called are %v, and %d objects would not have been seen: %v", hooks.uncalled(), api.left, err)
	}
	for does, gvk := range registered {
		if list, _, _ := unstructured.NestedSlice(api.registered[gvk.Kind].Object, "webhooks"); len(list) < 2 {
			t.Errorf("%s: registered are %v", does, list)
		}
	}
}

// TestNoRangeIsGivenTwice: a namespace without a range is listed before those whose ranges another process has given.
func TestNoRangeIsGivenTwice(t *testing.T) {
	const others = 2000
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "NamespaceList"}}
	bare := func(name string) unstructured.Unstructured {
		u := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		u.SetName(name)
		return u
	}
	list.Items = append(list.Items, bare("new"))
	for n := range others {
		u := bare(fmt.Sprintf("old-%d", n))
		u.SetAnnotations(map[string]string{uidRange: fmt.Sprintf("%d/10000", 1000000000+10000*n)})
		list.Items = append(list.Items, u)
	}
	created := bare("new")
	client := fakeClient(&created)
	client.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, list.DeepCopy(), nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		allocateRanges(ctx, client)
	}()
	want, got := fmt.Sprintf("%d/10000", 1000000000+10000*others), ""
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		u, err := client.Resource(namespaces).Get(ctx, "new", metav1.GetOptions{})
		if err == nil {
			got = u.GetAnnotations()[uidRange]
		}
		return got != "", err
	})
	if err != nil || got != want {
		t.Errorf("the range is %q, not %s: %v", got, want, err)
	}
	cancel()
	<-done
}
