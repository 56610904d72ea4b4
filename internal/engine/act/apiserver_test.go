package act

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// apiServer is as much of an API server as the writes of this package touch: names that are taken, preconditions on UID
// and resourceVersion, finalizers, and server-side apply by the very code of the API server, with a schema deduced from
// the objects. Answers can be made up, and answers can be lost.
type apiServer struct {
	t *testing.T

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // By path.
	version int
	// requests are the writes and reads that arrived, as "VERB path", for those who look at the order.
	requests []string
	// bodies are what they carried.
	bodies [][]byte
	// answer may answer in place of the server; nil leaves it to the server.
	answer func(verb, path string) *apierrors.StatusError
	// lose says that a request is performed, but that its answer never arrives.
	lose func(verb, path string) bool
	// before is called before a request is looked at, so that a test can change the world between two requests.
	before func(verb, path string)
}

func newAPIServer(t *testing.T) (*apiServer, string) {
	t.Helper()
	s := &apiServer{t: t, objects: map[string]*unstructured.Unstructured{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	verb := verbOf(r)
	if s.before != nil {
		s.before(verb, r.URL.Path)
	}
	s.requests = append(s.requests, verb+" "+r.URL.Path)
	s.bodies = append(s.bodies, body)
	if s.answer != nil {
		if refusal := s.answer(verb, r.URL.Path); refusal != nil {
			write(w, int(refusal.ErrStatus.Code), &refusal.ErrStatus)
			return
		}
	}
	out, err := s.serve(verb, r, body)
	if s.lose != nil && s.lose(verb, r.URL.Path) {
		panic(http.ErrAbortHandler) // Closes the connection without an answer.
	}
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		write(w, int(status.ErrStatus.Code), &status.ErrStatus)
	case err != nil:
		write(w, http.StatusInternalServerError, &apierrors.NewInternalError(err).ErrStatus)
	case verb == "POST":
		write(w, http.StatusCreated, out)
	default:
		write(w, http.StatusOK, out)
	}
}

// verbOf tells patches apart by their type, since they are guarded in different ways.
func verbOf(r *http.Request) string {
	switch types.PatchType(r.Header.Get("Content-Type")) {
	case types.ApplyPatchType, types.ApplyCBORPatchType:
		return "APPLY"
	case types.MergePatchType:
		return "MERGE"
	case types.JSONPatchType:
		return "JSONPATCH"
	}
	return r.Method
}

func write(w http.ResponseWriter, code int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if status, ok := content.(*metav1.Status); ok {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	_ = json.NewEncoder(w).Encode(content)
}

// resourceOf is the resource that a path is about.
func resourceOf(path string) schema.GroupResource {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	out := schema.GroupResource{}
	if parts[0] == "apis" {
		out.Group = parts[1]
		parts = parts[1:]
	}
	parts = parts[2:]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	out.Resource = parts[0]
	return out
}

func (s *apiServer) serve(verb string, r *http.Request, body []byte) (*unstructured.Unstructured, error) {
	path, manager := r.URL.Path, r.URL.Query().Get("fieldManager")
	if verb == "POST" {
		return s.post(path, manager, body, len(r.URL.Query()["dryRun"]) > 0)
	}
	live, resource := s.objects[path], resourceOf(path)
	name := path[strings.LastIndex(path, "/")+1:]
	if live == nil && verb == "APPLY" {
		return s.applyNew(path, resource, name, manager, body)
	}
	if live == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	switch verb {
	case "GET":
		return live, nil
	case "DELETE":
		return s.remove(path, live, resource, body)
	}
	patched, err := s.patch(verb, live, body)
	if err != nil {
		return nil, err
	}
	if uid := patched.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewConflict(resource, name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, live.GetUID()))
	}
	if version := patched.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource, name, errors.New("the object has been modified"))
	}
	out, err := s.manage(verb, live, patched, manager)
	if err != nil {
		return nil, err
	}
	return s.store(path, out), nil
}

// applyNew makes an object by an apply, unless it says that it is about one that exists.
func (s *apiServer) applyNew(
	path string, resource schema.GroupResource, name, manager string, body []byte,
) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &u.Object); err != nil {
		return nil, err
	}
	if uid := u.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(resource, name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	empty := &unstructured.Unstructured{Object: map[string]any{}}
	empty.SetGroupVersionKind(u.GroupVersionKind())
	out, err := s.manage("APPLY", empty, u, manager)
	if err != nil {
		return nil, err
	}
	return s.store(path, out), nil
}

func (s *apiServer) post(path, manager string, body []byte, dryRun bool) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &u.Object); err != nil {
		return nil, err
	}
	if u.GetName() == "" {
		u.SetName(u.GetGenerateName() + "xxxxx")
	}
	path += "/" + u.GetName()
	if s.objects[path] != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(path), u.GetName())
	}
	empty := &unstructured.Unstructured{Object: map[string]any{}}
	empty.SetGroupVersionKind(u.GroupVersionKind())
	out, err := s.manage("POST", empty, u, manager)
	if err != nil || dryRun {
		return out, err
	}
	return s.store(path, out), nil
}

// store keeps a copy with a new resourceVersion, and a UID if it has none.
func (s *apiServer) store(path string, u *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	u = u.DeepCopy()
	if u.GetUID() == "" {
		u.SetUID(types.UID("uid-" + strconv.Itoa(s.version)))
	}
	u.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[path] = u
	return u
}

func (s *apiServer) remove(
	path string, live *unstructured.Unstructured, resource schema.GroupResource, body []byte,
) (*unstructured.Unstructured, error) {
	opts := &metav1.DeleteOptions{}
	if err := json.Unmarshal(body, opts); err != nil {
		return nil, err
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != live.GetUID() {
		return nil, apierrors.NewConflict(resource, live.GetName(),
			fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, live.GetUID()))
	}
	if p := opts.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource, live.GetName(),
			fmt.Errorf("the ResourceVersion in the precondition (%s) does not match", *p.ResourceVersion))
	}
	if len(live.GetFinalizers()) > 0 {
		out := live.DeepCopy()
		now := metav1.Unix(1, 0)
		out.SetDeletionTimestamp(&now)
		return s.store(path, out), nil
	}
	delete(s.objects, path)
	return live, nil
}

// patch returns the object that a patch asks for; of an apply that is what is declared.
func (s *apiServer) patch(verb string, live *unstructured.Unstructured, body []byte) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	if verb == "APPLY" {
		return out, json.Unmarshal(body, &out.Object)
	}
	raw, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if verb == "MERGE" {
		raw, err = jsonpatch.MergePatch(raw, body)
	} else {
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(body); err == nil {
			raw, err = patch.Apply(raw)
		}
	}
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(raw, &out.Object)
}

// manage has the API server's own code track who holds which field.
func (s *apiServer) manage(verb string, live, next *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	gvk := next.GroupVersionKind()
	fm, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), noConversion{}, noDefaults{},
		unstructuredCreater{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	var out runtime.Object
	if verb == "APPLY" {
		next = next.DeepCopy()
		next.SetUID("") // A precondition, and no field that anybody holds.
		next.SetResourceVersion("")
		out, err = fm.Apply(live, next, manager, true)
	} else {
		if manager == "" {
			manager = "unnamed"
		}
		out, err = fm.Update(live, next, manager)
	}
	if err != nil {
		return nil, err
	}
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no unstructured object", out)
	}
	return u, nil
}

// noConversion, noDefaults and unstructuredCreater are what the field manager asks of a scheme, for unstructured objects
// of one version.
type noConversion struct{}

func (noConversion) Convert(_, _, _ any) error { return errors.New("there is one version only") }

func (noConversion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (noConversion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

type unstructuredCreater struct{}

func (unstructuredCreater) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// put makes an object as another client would, under another field manager.
func (s *apiServer) put(path, manager string, u *unstructured.Unstructured) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(path, manager, u)
}

func (s *apiServer) putLocked(path, manager string, u *unstructured.Unstructured) *unstructured.Unstructured {
	s.t.Helper()
	live := s.objects[path]
	if live == nil {
		live = &unstructured.Unstructured{Object: map[string]any{}}
		live.SetGroupVersionKind(u.GroupVersionKind())
	}
	out, err := s.manage("PUT", live, u, manager)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.store(path, out).DeepCopy()
}

func (s *apiServer) get(path string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.objects[path]; u != nil {
		return u.DeepCopy()
	}
	return nil
}

// asked are the requests so far, and forgets them.
func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests, s.bodies = nil, nil
	return out
}
