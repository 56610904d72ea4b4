package participant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/digest"
)

// maxElement is how large a custom resource may be in the cluster, in bytes: etcd takes 1.5 MiB by default.
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
	// Namespace is that of the Secrets with what may hold credentials, Key the one that their names are made with.
	Namespace string
	Key       digest.Key
	// known are these Secrets.
	known *knownSecrets
}

// Unreadable is an object that cannot be read, such as one that somebody has edited.
type Unreadable struct {
	Object *unstructured.Unstructured
	Err    error
}

// Loaded is everything that is remembered.
type Loaded struct {
	State      *acm.State
	Unreadable []Unreadable
	// Untidy are the entries that are to be written again, as a crash or an earlier release has left them.
	Untidy map[entry]bool
}

// The kinds of what is remembered.
const (
	elementKind    = "CompositionElement"
	definitionKind = "CompositionDefinition"
	orderKind      = "PendingOrder"
)

// kindOf is what the custom resources of a kind remember.
var kindOf = map[string]entryKind{elementKind: elementEntry, definitionKind: definitionEntry, orderKind: orderEntry}

// restored is what was read of a custom resource.
type restored struct {
	effect acm.Effect
	refs   []keeper.PayloadReference
	inline bool
}

// Load reads everything that is remembered, and leaves out what cannot be read: one object must not keep all others from being served.
func (s Store) Load(ctx context.Context) (Loaded, error) {
	out := Loaded{State: acm.NewState(), Untidy: map[entry]bool{}}
	payloads, err := s.loadSecrets(ctx)
	if err != nil {
		return out, err
	}
	seen := map[string]bool{}
	for _, kind := range []struct {
		name string
		take func(*unstructured.Unstructured, record.Fetch) (restored, error)
	}{
		{elementKind, read(func(cr *keeper.CompositionElement, fetch record.Fetch) (restored, error) {
			element, err := record.Element(cr, fetch)
			refs, inline := record.ElementPayloads(cr)
			return restored{acm.PutElement{Element: element}, refs, inline}, err
		})},
		{definitionKind, read(func(cr *keeper.CompositionDefinition, fetch record.Fetch) (restored, error) {
			definition, err := record.Definition(cr, fetch)
			refs, inline := record.DefinitionPayloads(cr)
			return restored{acm.PutDefinition{Definition: definition}, refs, inline}, err
		})},
		{orderKind, read(func(cr *keeper.PendingOrder, fetch record.Fetch) (restored, error) {
			held, err := record.Held(cr, fetch)
			refs, inline := record.HeldPayloads(cr)
			return restored{acm.HoldOrder{Held: held}, refs, inline}, err
		})},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(keeper.GroupVersion.WithKind(kind.name + "List"))
		if err := s.Reader.List(ctx, list); err != nil {
			return out, fmt.Errorf("read what is remembered: %w", err)
		}
		for i := range list.Items {
			one := &list.Items[i]
			of := record.PayloadOf(kind.name, one.GetName())
			seen[of] = true
			if owner, _, _ := unstructured.NestedString(one.Object, "spec", "participantId"); owner != s.Participant {
				continue
			}
			found, err := kind.take(one, payloads(of))
			if err != nil {
				out.Unreadable = append(out.Unreadable, Unreadable{one, err})
				continue
			}
			out.State.Apply(found.effect)
			if s.untidy(of, one.GetUID(), found.refs, found.inline) {
				out.Untidy[entry{kindOf[kind.name], one.GetName()}] = true
			}
		}
	}
	for _, orphan := range s.orphans(seen) {
		out.Untidy[orphan] = true
	}
	return out, nil
}

// read makes a reader of objects of a type.
func read[T any](take func(*T, record.Fetch) (restored, error)) func(*unstructured.Unstructured, record.Fetch) (restored, error) {
	return func(one *unstructured.Unstructured, fetch record.Fetch) (restored, error) {
		out := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, out); err != nil {
			return restored{}, err
		}
		return take(out, fetch)
	}
}

// PutElement writes an element with its order; known says that it is there already.
func (s Store) PutElement(ctx context.Context, e acm.Element, known bool) error {
	payloads := s.payloads(elementKind, e.ID)
	cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: e.ID}, Spec: record.ElementSpec(e, payloads.keep)}
	cr.Spec.ParticipantID = s.Participant
	return s.put(ctx, cr, cr.Spec, payloads, known)
}

// PutDefinition writes a primed composition.
func (s Store) PutDefinition(ctx context.Context, d acm.Definition, known bool) error {
	payloads := s.payloads(definitionKind, d.CompositionID)
	cr := &keeper.CompositionDefinition{ObjectMeta: metav1.ObjectMeta{Name: d.CompositionID}, Spec: record.DefinitionSpec(d, payloads.keep)}
	cr.Spec.ParticipantID = s.Participant
	return s.put(ctx, cr, cr.Spec, payloads, known)
}

// HoldOrder writes an order that waits.
func (s Store) HoldOrder(ctx context.Context, h acm.Held, known bool) error {
	payloads := s.payloads(orderKind, h.MessageID)
	cr := &keeper.PendingOrder{ObjectMeta: metav1.ObjectMeta{Name: h.MessageID}, Spec: record.HeldSpec(h, payloads.keep)}
	cr.Spec.ParticipantID = s.Participant
	return s.put(ctx, cr, cr.Spec, payloads, known)
}

// put writes a custom resource with its Secrets: these first, so that no reference leads nowhere.
func (s Store) put(ctx context.Context, cr client.Object, spec any, payloads *payloads, known bool) error {
	if err := payloads.create(ctx); err != nil {
		return payloads.failed(ctx, refuse(err))
	}
	if err := s.putSpec(ctx, cr, spec, known); err != nil {
		return payloads.failed(ctx, err)
	}
	return left(ctx, payloads.settle(ctx, cr))
}

// left passes what is to be tried again. What the API server refuses once the custom resource is as ordered, such as by a policy on Secrets, is no
// fault of the order, and is tried at the next start.
func left(ctx context.Context, err error) error {
	if refused := refuse(err); errors.As(refused, new(*Refusal)) {
		log.FromContext(ctx).Info("the API server refuses to tidy the Secret of a payload", "why", refused.Error())
		return nil
	}
	return err
}

// putSpec replaces the spec of a custom resource as a whole, or creates it; known says which to try first.
func (s Store) putSpec(ctx context.Context, cr client.Object, spec any, known bool) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode %s: %w", cr.GetName(), err)
	}
	if len(text) > maxElement {
		return &Refusal{fmt.Sprintf("it has %d bytes, more than %d", len(text), maxElement)}
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
	return s.drop(ctx, &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: id}}, elementKind)
}

// DropDefinition deletes a composition.
func (s Store) DropDefinition(ctx context.Context, compositionID string) error {
	return s.drop(ctx, &keeper.CompositionDefinition{ObjectMeta: metav1.ObjectMeta{Name: compositionID}}, definitionKind)
}

// ReleaseOrder deletes an order that waits no longer.
func (s Store) ReleaseOrder(ctx context.Context, messageID string) error {
	return s.drop(ctx, &keeper.PendingOrder{ObjectMeta: metav1.ObjectMeta{Name: messageID}}, orderKind)
}

func (s Store) drop(ctx context.Context, cr client.Object, kind string) error {
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, cr)); err != nil {
		return refuse(err)
	}
	return left(ctx, s.payloads(kind, cr.GetName()).drop(ctx))
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
