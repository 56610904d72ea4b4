package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// raced is the annotation that somebody else writes just before an operator's write, and the key of what he puts into a
// ConfigMap: as data, since there it is the data that several write.
const raced = "faults.test/raced"

// race is what somebody else wrote just before an operator's write.
type race struct {
	object string
	uid    types.UID
	// version is that of the object with the change.
	version uint64
	// before names the write that it came before.
	before string
}

// races belong to C4, the errors of the API server, since a race is answered by a conflict: just before a write reaches
// the API server, somebody else changes another field of the object or, before a deletion, puts an object of his own in
// its place. Neither may be undone.
func (s *Suite) races() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		for _, p := range s.points(ref) {
			if p.Verb == verbCreate {
				continue // What is created does not exist yet.
			}
			out = append(out, s.plan("C4", k, w, Fault{At: p, Do: Race}))
			// What calls the servers of a stack goes with it, whoever made it.
			if p.Verb == verbDelete && p.Resource != inventories && !strings.HasSuffix(p.Resource, "webhookconfigurations.admissionregistration.k8s.io") {
				out = append(out, s.plan("C4", k, w, Fault{At: p, Do: Usurp}))
			}
		}
	})
	return out
}

// compete lets somebody else be faster than a request.
func (r *run) compete(do Action, httpRequest *http.Request, req request) {
	api, ok := r.api(httpRequest)
	if !ok {
		return
	}
	var err error
	if do == Usurp {
		err = r.usurp(httpRequest.Context(), api, req)
	} else {
		err = r.change(httpRequest.Context(), api, req)
	}
	// What is not there cannot be raced for; the request meets what it would have met.
	if err != nil && !apierrors.IsNotFound(err) {
		r.fail("H", "somebody else could not be faster than %s: %v", req, err)
	}
}

// api is a client for the resource, in the namespace, that a request is for. It is not the operator's.
func (r *run) api(httpRequest *http.Request) (dynamic.ResourceInterface, bool) {
	parts := strings.Split(strings.Trim(httpRequest.URL.Path, "/"), "/")
	var gvr schema.GroupVersionResource
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gvr.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, false
	}
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	gvr.Resource = parts[0]
	return r.suite.recorder.client.Resource(gvr).Namespace(namespace), true
}

// change writes another field of the object that a request is about to write.
func (r *run) change(ctx context.Context, api dynamic.ResourceInterface, req request) error {
	resource, _, _ := strings.Cut(req.Resource, "/")
	key := raced[strings.Index(raced, "/")+1:]
	annotation := fmt.Sprintf(`{"metadata":{"annotations":{%q:"kept"}}}`, raced)
	body := annotation
	if resource == "configmaps" {
		body = fmt.Sprintf(`{"metadata":{"annotations":{%q:"kept"}},"data":{%q:"kept"}}`, raced, key)
	}
	// The change may be seen before it is answered.
	object := resource + "/" + lasting(req.Name, r.world.Namespace)
	r.mu.Lock()
	r.spared.add(object, "metadata.annotations."+escape(raced))
	r.spared.add(object, "data."+key)
	r.mu.Unlock()
	u, err := api.Patch(ctx, req.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: user})
	if apierrors.IsInvalid(err) {
		// Nobody writes into an immutable ConfigMap.
		u, err = api.Patch(ctx, req.Name, types.MergePatchType, []byte(annotation), metav1.PatchOptions{FieldManager: user})
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.races = append(r.races, race{object: object, uid: u.GetUID(), version: versionOf(u), before: req.String()})
	if _, wired := u.GetAnnotations()[keeper.WiringAnnotation]; wired && req.Verb == verbDelete {
		// What somebody else has written to is his now, so that it stays although it goes in the reference.
		r.exemptLocked(object)
	}
	return nil
}

// usurp puts an object of somebody else in the place of one that is about to be deleted.
func (r *run) usurp(ctx context.Context, api dynamic.ResourceInterface, req request) error {
	u, err := api.Get(ctx, req.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.exemptLocked(req.Resource + "/" + lasting(req.Name, r.world.Namespace))
	r.mu.Unlock()
	uid := u.GetUID()
	err = api.Delete(ctx, req.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		return err
	}
	stranger := foreign(u)
	if req.Resource == "configmaps" {
		// Entries that MLKeeper has not recorded are somebody else's, and would stay.
		unstructured.RemoveNestedField(stranger.Object, "data")
	}
	// What a finalizer holds, as KServe's does its services, goes a moment later.
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := api.Create(ctx, stranger, metav1.CreateOptions{FieldManager: user})
		if !apierrors.IsAlreadyExists(err) {
			return true, err
		}
		live, unread := api.Get(ctx, req.Name, metav1.GetOptions{})
		if unread != nil || live.GetUID() == uid {
			return false, nil
		}
		return true, err
	})
}

// exemptLocked takes an object out of the comparison with the reference, since the plan itself gave it another fate.
func (r *run) exemptLocked(object string) {
	r.spared.add(object, "")
	r.exempt[object] = true
}

// survived says which change of somebody else was undone (O7).
func (r *run) survived(events []Event, complain func(format string, args ...any)) {
	r.mu.Lock()
	races := r.races
	r.mu.Unlock()
	for _, one := range races {
		for _, e := range events {
			if e.Object.GetUID() != one.uid || e.Version < one.version {
				continue
			}
			if e.Type == watch.Deleted {
				if _, wired := e.Object.GetAnnotations()[keeper.WiringAnnotation]; wired {
					complain("%s was deleted although somebody else wrote to it just before %s", one.object, one.before)
				}
				continue
			}
			if lacks(e.Object) {
				complain("what somebody else wrote to %s just before %s was undone", one.object, one.before)
			}
		}
	}
}

// lacks says that an object has lost what somebody else wrote to it.
func lacks(u *unstructured.Unstructured) bool {
	if u.GetAnnotations()[raced] == "" {
		return true
	}
	if immutable, _, _ := unstructured.NestedBool(u.Object, "immutable"); immutable || u.GetKind() != "ConfigMap" {
		return false
	}
	_, found, _ := unstructured.NestedString(u.Object, "data", raced[strings.Index(raced, "/")+1:])
	return !found
}
