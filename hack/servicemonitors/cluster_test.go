package servicemonitors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// cluster answers lists and gets of what is in one namespace as an API server does. Whatever else is asked for fails the test, such
// as a list of all namespaces, for which a Prometheus of one namespace has no right.
type cluster struct {
	t *testing.T
	// lists are by path, and objects by path of a single one.
	lists   map[string]runtime.Object
	objects map[string]runtime.Object
}

// start serves a rendering, and the Secrets and ConfigMaps beside it.
func (r rendering) start(t *testing.T, secrets []corev1.Secret, configMaps []corev1.ConfigMap) (address string) {
	t.Helper()
	ns := r.deployment.Namespace
	core := "/api/v1/namespaces/" + ns
	c := &cluster{t: t, objects: map[string]runtime.Object{}, lists: map[string]runtime.Object{
		core + "/services":  list("v1", "ServiceList", r.services),
		core + "/pods":      list("v1", "PodList", []corev1.Pod{r.pod()}),
		core + "/endpoints": list("v1", "EndpointsList", r.endpoints()),
		"/apis/discovery.k8s.io/v1/namespaces/" + ns + "/endpointslices": list("discovery.k8s.io/v1", "EndpointSliceList", r.slices()),
	}}
	for _, s := range secrets {
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		c.objects[core+"/secrets/"+s.Name] = &s
	}
	for _, m := range configMaps {
		m.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		c.objects[core+"/configmaps/"+m.Name] = &m
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	// What watches must end for the server to close.
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// list makes a list of any kind.
func list[T any](version, kind string, items []T) runtime.Object {
	return &listOf[T]{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: items,
	}
}

type listOf[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

// DeepCopyObject implements runtime.Object; nobody copies it.
func (l *listOf[T]) DeepCopyObject() runtime.Object { return l }

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list, isList := c.lists[r.URL.Path]
	object, isObject := c.objects[r.URL.Path]
	switch watch := r.URL.Query().Get("watch"); {
	case isList && r.URL.Query().Get("sendInitialEvents") != "":
		// As an API server without WatchList says it; a client then lists.
		answer(w, http.StatusUnprocessableEntity, &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: "sendInitialEvents is forbidden for watch",
		})
	case isList && watch != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case isList:
		answer(w, http.StatusOK, list)
	case isObject:
		answer(w, http.StatusOK, object)
	case strings.Contains(r.URL.Path, "/secrets/"), strings.Contains(r.URL.Path, "/configmaps/"):
		answer(w, http.StatusNotFound, &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: r.URL.Path + " not found",
		})
	default:
		c.t.Errorf("%s %s: Prometheus asks for what it need not", r.Method, r.URL)
		http.Error(w, fmt.Sprintf("%s is not served", r.URL.Path), http.StatusForbidden)
	}
}

func answer(w http.ResponseWriter, code int, object runtime.Object) {
	if status, isStatus := object.(*metav1.Status); isStatus {
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}
