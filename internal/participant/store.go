package participant

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/apistatus"
)

// maxElement is how large an element may be in the cluster, in bytes: etcd takes 1.5 MiB by default.
const maxElement = 1400 << 10

// fieldManager owns what the participant writes.
const fieldManager = "mlkeeper-participant"

// Elements are the CompositionElements of the cluster. What is handed out is shared and must not be changed.
type Elements interface {
	// Get returns one; the namespace is empty.
	Get(namespace, name string) (*keeper.CompositionElement, bool)
	// Follow has a function called for each that exists and with every change; was is nil for what is new, is for what is gone.
	Follow(changed func(was, is *keeper.CompositionElement))
}

// Refusal is the error of a write that the cluster will never take.
type Refusal struct{ Why string }

// Error implements error.
func (r *Refusal) Error() string { return r.Why }

// Store keeps what a participant has to remember in custom resources.
type Store struct {
	// Client writes, Reader reads live.
	Client client.Client
	Reader client.Reader
	// Elements are the CompositionElements as the engine's watch knows them.
	Elements Elements
	// Participant is the id of the participant: what others of the cluster remember is none of its business.
	Participant string
}

// Unreadable is an object that cannot be read, such as one that somebody has edited.
type Unreadable struct {
	Object *unstructured.Unstructured
	Err    error
}

// Load reads everything that is remembered, and leaves out what cannot be read: one object must not keep all others from being served.
func (s Store) Load(ctx context.Context) (*acm.State, []Unreadable, error) {
	out := acm.NewState()
	var unreadable []Unreadable
	for _, kind := range []struct {
		name string
		take func(*unstructured.Unstructured) (acm.Effect, error)
	}{
		{"CompositionElement", read(func(cr *keeper.CompositionElement) (acm.Effect, error) {
			return acm.PutElement{Element: record.Element(cr)}, nil
		})},
		{"CompositionDefinition", read(func(cr *keeper.CompositionDefinition) (acm.Effect, error) {
			return acm.PutDefinition{Definition: record.Definition(cr)}, nil
		})},
		{"PendingOrder", read(func(cr *keeper.PendingOrder) (acm.Effect, error) {
			held, err := record.Held(cr)
			return acm.HoldOrder{Held: held}, err
		})},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(keeper.GroupVersion.WithKind(kind.name + "List"))
		if err := s.Reader.List(ctx, list); err != nil {
			return nil, nil, fmt.Errorf("read what is remembered: %w", err)
		}
		for i := range list.Items {
			one := &list.Items[i]
			if owner, _, _ := unstructured.NestedString(one.Object, "spec", "participantId"); owner != s.Participant {
				continue
			}
			effect, err := kind.take(one)
			if err != nil {
				unreadable = append(unreadable, Unreadable{one, err})
				continue
			}
			out.Apply(effect)
		}
	}
	return out, unreadable, nil
}

// read makes a reader of objects of a type.
func read[T any](take func(*T) (acm.Effect, error)) func(*unstructured.Unstructured) (acm.Effect, error) {
	return func(one *unstructured.Unstructured) (acm.Effect, error) {
		out := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, out); err != nil {
			return nil, err
		}
		return take(out)
	}
}

// PutElement writes an element with its order; known says that it is there already.
func (s Store) PutElement(ctx context.Context, e acm.Element, known bool) error {
	cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: e.ID}, Spec: record.ElementSpec(e)}
	cr.Spec.ParticipantID = s.Participant
	return s.put(ctx, cr, cr.Spec, known)
}

// PutDefinition writes a primed composition.
func (s Store) PutDefinition(ctx context.Context, d acm.Definition) error {
	cr := &keeper.CompositionDefinition{ObjectMeta: metav1.ObjectMeta{Name: d.CompositionID}, Spec: record.DefinitionSpec(d)}
	cr.Spec.ParticipantID = s.Participant
	return s.put(ctx, cr, cr.Spec, false)
}

// HoldOrder writes an order that waits.
func (s Store) HoldOrder(ctx context.Context, h acm.Held) error {
	cr := &keeper.PendingOrder{ObjectMeta: metav1.ObjectMeta{Name: h.MessageID}, Spec: record.HeldSpec(h)}
	cr.Spec.ParticipantID = s.Participant
	return s.put(ctx, cr, cr.Spec, false)
}

// put replaces the spec of a custom resource as a whole, or creates it; known says which to try first.
func (s Store) put(ctx context.Context, cr client.Object, spec any, known bool) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode %s: %w", cr.GetName(), err)
	}
	if len(text) > maxElement {
		return &Refusal{fmt.Sprintf("with what it replaces it has %d bytes, more than %d", len(text), maxElement)}
	}
	create := func() error { return s.Client.Create(ctx, cr, client.FieldOwner(fieldManager)) }
	replace := func() error {
		patch := bytes.Join([][]byte{[]byte(`[{"op":"replace","path":"/spec","value":`), text, []byte(`}]`)}, nil)
		return s.Client.Patch(ctx, cr, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager))
	}
	if known {
		if err = replace(); apierrors.IsNotFound(err) {
			err = create()
		}
	} else if err = create(); apierrors.IsAlreadyExists(err) {
		err = replace()
	}
	return refuse(err)
}

// refuse makes a refusal of an error that comes of what was written: it stays what it is however often it is tried. All others pass,
// such as a right that the participant lacks or an API server that does not answer, and no order is to blame for them.
func refuse(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apistatus.Denied(err) || apistatus.TooLarge(err) {
		return &Refusal{err.Error()}
	}
	return err
}

// DropElement deletes an element; the garbage collector deletes what services it has left.
func (s Store) DropElement(ctx context.Context, id string) error {
	return s.drop(ctx, &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: id}})
}

// DropDefinition deletes a composition.
func (s Store) DropDefinition(ctx context.Context, compositionID string) error {
	return s.drop(ctx, &keeper.CompositionDefinition{ObjectMeta: metav1.ObjectMeta{Name: compositionID}})
}

// ReleaseOrder deletes an order that waits no longer.
func (s Store) ReleaseOrder(ctx context.Context, messageID string) error {
	return s.drop(ctx, &keeper.PendingOrder{ObjectMeta: metav1.ObjectMeta{Name: messageID}})
}

func (s Store) drop(ctx context.Context, cr client.Object) error {
	return refuse(client.IgnoreNotFound(s.Client.Delete(ctx, cr)))
}

// Acknowledge records what the runtime was told of an element, unless the element is another by now.
func (s Store) Acknowledge(ctx context.Context, cr *keeper.CompositionElement, told keeper.Acknowledgement) error {
	// A merge patch alone would leave what told no longer has.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": cr.UID},
		{"op": "add", "path": "/status/acknowledged", "value": told},
	})
	if err != nil {
		return err
	}
	// The element itself, which may be large, need not come back.
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: cr.Name}}
	target.SetGroupVersionKind(keeper.GroupVersion.WithKind("CompositionElement"))
	err = s.Client.Status().Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager))
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// End deletes an element that the runtime knows to be deleted.
func (s Store) End(ctx context.Context, cr *keeper.CompositionElement) error {
	uid, version := cr.UID, cr.ResourceVersion
	target := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: cr.Name}}
	return client.IgnoreNotFound(s.Client.Delete(ctx, target, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}
