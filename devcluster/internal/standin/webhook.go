package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// admission is what the webhooks of a role do. The API server calls them as it calls those of a real controller, so that what they
// write has no field manager, and what they refuse is answered with the same code.
type admission struct {
	// webhook is the name in messages, without its last part, which says what it does.
	webhook string
	// defaults changes an object that is created or updated.
	defaults func(obj *unstructured.Unstructured)
	// validate refuses one; old is nil at a creation.
	validate func(obj, old *unstructured.Unstructured) error
}

const defaulter, validator = "defaulter", "validator"

// registered are the kinds of webhook configurations, by what their webhooks do.
var registered = map[string]schema.GroupVersionKind{
	defaulter: {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	validator: {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
}

// hooks serves the webhooks of all roles.
type hooks struct {
	server *http.Server
	addr   string
	// authority is the certificate of the server, which signs itself.
	authority []byte
}

// serveHooks listens on a loopback address of its own.
func serveHooks(ctx context.Context) (*hooks, error) {
	certificate, authority, err := selfSigned()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, r := range roles {
		if r.admission != nil {
			mux.HandleFunc("POST /"+r.crd+"/"+defaulter, answerWith(r.admission.mutate))
			mux.HandleFunc("POST /"+r.crd+"/"+validator, answerWith(r.admission.judge))
		}
	}
	out := &hooks{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, addr: listener.Addr().String(), authority: authority,
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

// selfSigned makes a certificate for the loopback address, and the same as PEM.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		// An hour of slack, for a clock that a fault test has set back.
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// register brings the webhook configurations of a role to where this process listens.
func (h *hooks) register(ctx context.Context, client dynamic.Interface, r role) error {
	for does, gvk := range registered {
		u := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{map[string]any{
			"name": r.admission.webhook + "." + does,
			"clientConfig": map[string]any{
				"url": "https://" + h.addr + "/" + r.crd + "/" + does, "caBundle": base64.StdEncoding.EncodeToString(h.authority),
			},
			"failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
			"rules": []any{map[string]any{
				"apiGroups": []any{r.resource.Group}, "apiVersions": []any{r.resource.Version}, "resources": []any{r.resource.Resource},
				"operations": []any{"CREATE", "UPDATE"},
			}},
		}}}}
		u.SetGroupVersionKind(gvk)
		u.SetName(hookName(r.crd))
		_, err := client.Resource(resourceOf(gvk)).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "devcluster", Force: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// unregister removes the webhook configurations of the role of a CRD that is gone.
func unregister(client dynamic.Interface, crd string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var all []error
	for _, gvk := range registered {
		err := client.Resource(resourceOf(gvk)).Delete(ctx, hookName(crd), metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// hookName tells the stand-in's configurations from those of the controllers that it plays.
func hookName(crd string) string { return "stand-in." + crd }

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
func (a *admission) judge(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
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
	if err := a.validate(obj, old); err != nil {
		return &admissionv1.AdmissionResponse{
			Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()},
		}, nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
