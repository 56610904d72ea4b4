package egress

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Mutated is the annotation that a mutating webhook adds: a field that nobody who writes the object has declared. Its value is the
// name of the Service.
const Mutated = "devcluster.mlkeeper.dev/mutated-by"

// maxBody bounds what is read of a request; the API server sends no object of more than 3 MiB.
const maxBody = 8 << 20

// responder answers in the place of the servers in pods.
type responder struct {
	pods  *pods
	hooks *injector
}

func (a *responder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, namespace, found := strings.Cut(strings.TrimSuffix(r.TLS.ServerName, ".svc"), ".")
	if !found || a.pods.answers(namespace, name) != nil {
		// The pod is gone or not ready any more, and with it what was connected to it.
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet {
		a.discovery(w, r)
		return
	}
	var review struct {
		metav1.TypeMeta `json:",inline"`
		Request         *request `json:"request"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&review)
	if err != nil || review.Request == nil {
		http.Error(w, "neither an AdmissionReview nor a ConversionReview", http.StatusBadRequest)
		return
	}
	out := map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind}
	switch review.Kind {
	case "AdmissionReview":
		out["response"] = review.Request.admitted(a.hooks.mutates(namespace, name, r.URL.Path), namespace+"/"+name)
	case "ConversionReview":
		out["response"] = review.Request.converted()
	default:
		http.Error(w, "unknown kind "+review.Kind, http.StatusBadRequest)
		return
	}
	write(w, out)
}

// request is what is read of an AdmissionRequest or a ConversionRequest, in all their versions.
type request struct {
	UID         string                      `json:"uid"`
	Operation   string                      `json:"operation"`
	SubResource string                      `json:"subResource"`
	Object      *unstructured.Unstructured  `json:"object"`
	Version     string                      `json:"desiredAPIVersion"`
	Objects     []unstructured.Unstructured `json:"objects"`
}

// admitted is the answer of a webhook.
func (r *request) admitted(mutating bool, by string) map[string]any {
	out := map[string]any{"uid": r.UID, "allowed": true}
	written := (r.Operation == "CREATE" || r.Operation == "UPDATE") && r.SubResource == "" && r.Object != nil
	if !mutating || !written || r.Object.GetAnnotations()[Mutated] != "" {
		return out
	}
	patch := []map[string]any{{"op": "add", "path": "/metadata/annotations", "value": map[string]string{Mutated: by}}}
	if r.Object.GetAnnotations() != nil {
		patch[0]["path"], patch[0]["value"] = "/metadata/annotations/"+strings.ReplaceAll(Mutated, "/", "~1"), by
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return out
	}
	// Bytes are base64 in JSON.
	out["patch"], out["patchType"] = raw, "JSONPatch"
	return out
}

// converted is the answer of a conversion webhook.
func (r *request) converted() map[string]any {
	var objects []any
	for _, o := range r.Objects {
		o.SetAPIVersion(r.Version)
		objects = append(objects, o.Object)
	}
	return map[string]any{"uid": r.UID, "convertedObjects": objects, "result": map[string]any{"status": "Success"}}
}

// discovery answers for an aggregated API, which has no resources.
func (a *responder) discovery(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 3 || parts[0] != "apis" {
		http.NotFound(w, r)
		return
	}
	write(w, map[string]any{
		"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": parts[1] + "/" + parts[2], "resources": []any{},
	})
}

func write(w http.ResponseWriter, out map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}
