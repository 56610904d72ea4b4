package standin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/devcluster/internal/selfsigned"
)

// admission is what the webhooks of a role do. The API server calls them as it calls those of a real controller, so that what they
// write has no field manager, and what they refuse is answered with the same code.
type admission struct {
	// webhook is the name in messages, without its last part, which says what it does.
	webhook string
	// defaults changes an object that is created or updated; nil for a controller that changes none.
	defaults func(obj *unstructured.Unstructured)
	// validate refuses one; old is nil at a creation.
	validate func(ctx context.Context, client dynamic.Interface, obj, old *unstructured.Unstructured) error
}

const defaulter, validator = "defaulter", "validator"

// registered are the kinds of webhook configurations, by what their webhooks do.
var registered = map[string]schema.GroupVersionKind{
	defaulter: {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	validator: {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
}

const (
	// hookName tells the stand-in's configurations from those of the controllers that it plays.
	hookName = "stand-in." + domain
	// probeLabel is on the object by which the stand-in finds out whether its webhooks are called. Its value is of one process.
	probeLabel = "devcluster.mlkeeper.dev/probe"
	// probeEvery is how often it looks.
	probeEvery = 20 * time.Millisecond
)

// hooks serves the webhooks of all roles.
type hooks struct {
	server *http.Server
	addr   string
	// authority is the certificate of the server, which signs itself.
	authority []byte
	// token is the value of probeLabel.
	token string

	// mu guards called, what was called for the probe.
	mu     sync.Mutex
	called map[string]bool
}

// serveHooks listens on a loopback address of its own.
func serveHooks(ctx context.Context, client dynamic.Interface) (*hooks, error) {
	certificate, authority, err := selfsigned.Server(nil, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	out := &hooks{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, addr: listener.Addr().String(), authority: authority,
		token: strings.ToLower(rand.Text()), called: map[string]bool{},
	}
	for _, r := range roles {
		if r.admission != nil {
			mux.HandleFunc("POST /"+r.crd+"/"+defaulter, answerWith(r.admission.mutate))
			mux.HandleFunc("POST /"+r.crd+"/"+validator, answerWith(func(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				return r.admission.judge(ctx, client, request)
			}))
		}
	}
	for does := range registered {
		mux.HandleFunc("POST /probe/"+does, answerWith(func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			out.mu.Lock()
			defer out.mu.Unlock()
			out.called[does] = true
			return &admissionv1.AdmissionResponse{Allowed: true}, nil
		}))
	}
	go func() {
		<-ctx.Done()
		_ = out.server.Close()
	}()
	go func() {
		if err := out.server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "stand-in: webhooks:", err)
			os.Exit(1)
		}
	}()
	return out, nil
}

// register has the webhooks of all roles called, whether or not their kinds are there. It returns when the API server calls them,
// which it does a moment after they are stored.
func (h *hooks) register(ctx context.Context, client dynamic.Interface) error {
	return wait.PollUntilContextCancel(ctx, probeEvery, true, func(ctx context.Context) (bool, error) {
		for does, gvk := range registered {
			u := h.configuration(does)
			u.SetGroupVersionKind(gvk)
			_, err := client.Resource(resourceOf(gvk)).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "devcluster", Force: true})
			if err != nil {
				return false, nil // The API server does not answer yet.
			}
		}
		return true, h.await(ctx, client)
	})
}

// configuration has the webhooks of one kind, and one that is called for nothing but the probe.
func (h *hooks) configuration(does string) *unstructured.Unstructured {
	hook := func(name, path, group, version, resource string, operations ...any) map[string]any {
		return map[string]any{
			"name": name + "." + does,
			"clientConfig": map[string]any{
				"url": "https://" + h.addr + path + "/" + does, "caBundle": base64.StdEncoding.EncodeToString(h.authority),
			},
			"failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
			"rules": []any{map[string]any{
				"apiGroups": []any{group}, "apiVersions": []any{version}, "resources": []any{resource}, "operations": operations,
			}},
		}
	}
	probe := hook("probe."+hookName, "/probe", configMaps.Group, configMaps.Version, configMaps.Resource, "CREATE")
	probe["objectSelector"] = map[string]any{"matchLabels": map[string]any{probeLabel: h.token}}
	all := []any{probe}
	for _, r := range roles {
		if r.admission != nil && (does == validator || r.admission.defaults != nil) {
			all = append(all, hook(r.admission.webhook, "/"+r.crd, r.resource.Group, r.resource.Version, r.resource.Resource, "CREATE", "UPDATE"))
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"webhooks": all}}
	u.SetName(hookName)
	return u
}

// await returns when the API server has called the probe's webhook of each configuration, and with it knows all others there.
func (h *hooks) await(ctx context.Context, client dynamic.Interface) error {
	probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "stand-in-probe", "namespace": metav1.NamespaceSystem, "labels": map[string]any{probeLabel: h.token},
	}}}
	return wait.PollUntilContextCancel(ctx, probeEvery, true, func(ctx context.Context) (bool, error) {
		// What was called decides, not the answer: the namespace comes a moment after the API server, and a webhook of somebody
		// else may refuse.
		_, _ = client.Resource(configMaps).Namespace(probe.GetNamespace()).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return len(h.uncalled()) == 0, nil
	})
}

// uncalled are the configurations whose webhook the probe has not reached.
func (h *hooks) uncalled() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for does := range registered {
		if !h.called[does] {
			out = append(out, does)
		}
	}
	return out
}

func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(map[string]string{
		"MutatingWebhookConfiguration":   "mutatingwebhookconfigurations",
		"ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	}[gvk.Kind])
}

// answerWith serves reviews.
func answerWith(answer func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no admission review", http.StatusBadRequest)
			return
		}
		response, err := answer(review.Request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response.UID = review.Request.UID
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	}
}

// mutate answers with the defaults as a patch.
func (a *admission) mutate(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(request.Object.Raw); err != nil {
		return nil, err
	}
	before := obj.DeepCopy()
	a.defaults(obj)
	if equality.Semantic.DeepEqual(before.Object, obj.Object) {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata", "value": obj.Object["metadata"]}, {"op": "add", "path": "/spec", "value": obj.Object["spec"]},
	})
	if err != nil {
		return nil, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: &kind}, nil
}

// judge answers as controller-runtime does with the error of a validator (pkg/webhook/admission/validator_custom.go, Denied).
func (a *admission) judge(
	ctx context.Context, client dynamic.Interface, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(request.Object.Raw); err != nil {
		return nil, err
	}
	var old *unstructured.Unstructured
	if len(request.OldObject.Raw) > 0 {
		old = &unstructured.Unstructured{}
		if err := old.UnmarshalJSON(request.OldObject.Raw); err != nil {
			return nil, err
		}
	}
	if err := a.validate(ctx, client, obj, old); err != nil {
		return &admissionv1.AdmissionResponse{
			Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()},
		}, nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
