package participant

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// patched is an API server with one element, whose status is patched as a real one does it: a patch whose test fails is invalid
// (k8s.io/apiserver/pkg/endpoints/handlers/patch.go, applyJSPatch).
type patched struct {
	client.Client
	element *keeper.CompositionElement
	// manager is the field manager of the last patch.
	manager string
}

// Status implements client.Client.
func (p *patched) Status() client.SubResourceWriter { return patchedStatus{patched: p} }

type patchedStatus struct {
	client.SubResourceWriter
	*patched
}

// Patch implements client.SubResourceWriter.
func (p patchedStatus) Patch(_ context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if patch.Type() != types.JSONPatchType || o.GetName() != p.element.Name {
		return errors.New("another patch than one of JSON, or of another object")
	}
	var options client.SubResourcePatchOptions
	options.ApplyOptions(opts)
	p.manager = options.FieldManager
	body, err := patch.Data(o)
	if err != nil {
		return err
	}
	operations, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(p.element)
	if err != nil {
		return err
	}
	if raw, err = operations.Apply(raw); err != nil {
		return apierrors.NewGenericServerResponse(422, "patch", schema.GroupResource{}, o.GetName(), err.Error(), 0, false)
	}
	p.element = &keeper.CompositionElement{}
	return json.Unmarshal(raw, p.element)
}

// TestAnAcknowledgementIsOfOneElement: an element that was deleted and made again under its name begins without one, since the runtime was
// told nothing of it. The managedFields of the element name the participant, and not the program.
func TestAnAcknowledgementIsOfOneElement(t *testing.T) {
	told := keeper.Acknowledgement{OrderOutcome: keeper.OrderOutcome{OrderID: "order", Type: "Deploy"}}
	before := keeper.Acknowledgement{OrderOutcome: keeper.OrderOutcome{OrderID: "earlier", Type: "Deploy", Failure: "it failed"}}
	cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: "element", UID: "uid"}}
	for name, c := range map[string]struct {
		uid  types.UID
		want keeper.Acknowledgement
	}{"the same": {"uid", told}, "another of its name": {"another", before}} {
		stored := cr.DeepCopy()
		stored.UID, stored.Status.Acknowledged = c.uid, before.DeepCopy()
		server := &patched{element: stored}
		if err := (Store{Client: server}).Acknowledge(t.Context(), cr, told); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := server.element.Status.Acknowledged; !equality.Semantic.DeepEqual(got, &c.want) {
			t.Errorf("%s: acknowledged is %+v, not %+v", name, got, c.want)
		}
		if server.manager != fieldManager {
			t.Errorf("%s: the patch is of %q, not of %q", name, server.manager, fieldManager)
		}
	}
}
