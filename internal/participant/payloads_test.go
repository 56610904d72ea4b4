package participant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/digest"
)

// objects is an API server with its garbage collector, on which each write may fail.
type objects struct {
	client.WithWatch
	// collector has the writes of the garbage collector.
	collector client.Client
	t         *testing.T
	// write is called before each write and after it; an error is that of the write.
	write func(after bool, verb string, o client.Object) error
}

func newObjects(t *testing.T) *objects {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, keeper.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	out := &objects{t: t, write: func(bool, string, client.Object) error { return nil }}
	around := func(verb string, o client.Object, do func() error) error {
		if err := out.write(false, verb, o); err != nil {
			return err
		}
		return errors.Join(do(), out.write(true, verb, o))
	}
	direct := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build()
	out.collector, out.WithWatch = direct, interceptor.NewClient(direct, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID(newUUID()))
			return around("create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return around("patch", o, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return around("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
	})
	return out
}

// custom are the custom resources of the participant.
func (o *objects) custom() []client.Object {
	o.t.Helper()
	var out []client.Object
	elements, definitions, orders := &keeper.CompositionElementList{}, &keeper.CompositionDefinitionList{}, &keeper.PendingOrderList{}
	for _, list := range []client.ObjectList{elements, definitions, orders} {
		if err := o.List(context.Background(), list); err != nil {
			o.t.Fatal(err)
		}
	}
	for i := range elements.Items {
		out = append(out, &elements.Items[i])
	}
	for i := range definitions.Items {
		out = append(out, &definitions.Items[i])
	}
	for i := range orders.Items {
		out = append(out, &orders.Items[i])
	}
	return out
}

// secrets are the Secrets by name, after the garbage collector has deleted those whose owner is gone.
func (o *objects) secrets() map[string]corev1.Secret {
	o.t.Helper()
	owners := map[types.UID]bool{}
	for _, cr := range o.custom() {
		owners[cr.GetUID()] = true
	}
	list := &corev1.SecretList{}
	if err := o.List(context.Background(), list, client.InNamespace("operator")); err != nil {
		o.t.Fatal(err)
	}
	out := map[string]corev1.Secret{}
	for _, s := range list.Items {
		if len(s.OwnerReferences) == 0 || owners[s.OwnerReferences[0].UID] {
			out[s.Name] = s
		} else if err := o.collector.Delete(context.Background(), &s); err != nil {
			o.t.Fatal(err)
		}
	}
	return out
}

// starts starts a participant as after a crash, and returns it once it has put everything right.
func (o *objects) starts() *Participant {
	o.t.Helper()
	p := o.participant()
	for _, step := range []func(context.Context) error{p.load, p.tidy} {
		if err := step(context.Background()); err != nil {
			o.t.Fatal(err)
		}
	}
	return p
}

func (o *objects) participant() *Participant {
	return New(Settings{Identity: acm.Identity{ParticipantID: me}, Log: logr.Discard()}, &broker{}, Store{
		Client: o, Reader: o, Elements: none{}, Participant: me, Namespace: "operator", Key: digest.Key{1},
	})
}

// putElement has the participant remember an element, or forget it.
func putElement(p *Participant, id string, e *acm.Element) error {
	if e == nil {
		delete(p.state.Elements, id)
	} else {
		p.state.Elements[id] = *e
	}
	_, err := p.put(context.Background(), entry{elementEntry, id}, p.remembered(entry{elementEntry, id}), false)
	return err
}

// settled says what is wrong: each custom resource has its Secrets, and no Secret is another's.
func (o *objects) settled() error {
	referred := map[string]types.UID{}
	for _, cr := range o.custom() {
		for _, ref := range references(cr) {
			referred[ref.Name] = cr.GetUID()
		}
	}
	secrets := o.secrets()
	for name, uid := range referred {
		if s, there := secrets[name]; !there || len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != uid || s.Immutable == nil || !*s.Immutable {
			return fmt.Errorf("Secret %s is %+v", name, s.ObjectMeta)
		}
	}
	if len(secrets) != len(referred) {
		return fmt.Errorf("there are the Secrets %v, referred to are %v", slices.Sorted(maps.Keys(secrets)), slices.Sorted(maps.Keys(referred)))
	}
	return nil
}

func references(cr client.Object) []keeper.PayloadReference {
	text, _ := json.Marshal(cr)
	var spec struct {
		Spec struct {
			Payload  *keeper.PayloadReference
			Content  keeper.ElementContent
			Previous *keeper.ElementContent
		}
	}
	_ = json.Unmarshal(text, &spec)
	var out []keeper.PayloadReference
	for _, ref := range []*keeper.PayloadReference{spec.Spec.Payload, spec.Spec.Content.Payload} {
		if ref != nil {
			out = append(out, *ref)
		}
	}
	if spec.Spec.Previous != nil && spec.Spec.Previous.Payload != nil {
		out = append(out, *spec.Spec.Previous.Payload)
	}
	return out
}

const password = "correct-horse-battery"

// contentOf is a content with a password of its own.
func contentOf(n int) acm.Content {
	return acm.Content{
		CompositionID: "c", Properties: acm.Properties{"payload": json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(password, n)))},
		Common: acm.Properties{"token": json.RawMessage(fmt.Sprintf("%q", password))},
	}
}

func elementOf(content int, previous ...int) *acm.Element {
	out := &acm.Element{
		ID: "e", InstanceID: "i", Present: true, Content: contentOf(content),
		Order: acm.Order{Type: acm.OrderDeploy, ID: fmt.Sprint("m", content), Time: noon, Received: noon},
	}
	for _, n := range previous {
		before := contentOf(n)
		out.Previous = &before
	}
	return out
}

var errDown = errors.New("the process ends here")

// TestACrashAtEveryWriteOfPayloads: whatever write is the last one of a process, before it or with its answer lost, the next process reads what
// was ordered before or now, and leaves each custom resource with its own Secrets alone.
func TestACrashAtEveryWriteOfPayloads(t *testing.T) {
	life := []*acm.Element{elementOf(1), elementOf(2, 1), elementOf(2), elementOf(3, 2), nil, elementOf(3), nil}
	writes, n := 0, 0
	for crash := -1; crash < 2*writes; crash++ {
		o := newObjects(t)
		p := o.participant()
		n = 0
		o.write = func(after bool, _ string, _ client.Object) error {
			if !after {
				n++
			}
			at, lost := crash/2+1, crash%2 == 1
			if crash >= 0 && (n > at || n == at && lost == after) {
				return errDown
			}
			return nil
		}
		var before *acm.Element
		for i, e := range life {
			if err := putElement(p, "e", e); err != nil {
				if crash < 0 {
					t.Fatal(err)
				}
				o.write = func(bool, string, client.Object) error { return nil }
				p = o.starts()
				if got := found(p.state.Elements, "e"); !same(got, e) && !same(got, before) {
					t.Fatalf("crash %d in step %d: read is %+v", crash, i, got)
				}
				if err := o.settled(); err != nil {
					t.Fatalf("crash %d in step %d: %v", crash, i, err)
				}
				if err := putElement(p, "e", e); err != nil { // The record is read again.
					t.Fatal(err)
				}
			}
			if err := o.settled(); err != nil {
				t.Fatalf("crash %d, step %d: %v", crash, i, err)
			}
			if got := found(o.starts().state.Elements, "e"); !same(got, e) {
				t.Fatalf("crash %d, step %d: read is %+v", crash, i, got)
			}
			before = e
		}
		if crash < 0 {
			if writes = n; writes < 15 {
				t.Fatalf("a life has %d writes only", writes)
			}
		}
	}
}

// same compares what counts of elements.
func same(a, b *acm.Element) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(a.Content, b.Content) && reflect.DeepEqual(a.Previous, b.Previous) && a.Order.ID == b.Order.ID
}

// fill has a participant remember one of each kind.
func fill(t *testing.T, p *Participant) {
	t.Helper()
	p.state.Elements["e"] = *elementOf(1, 2)
	p.state.Definitions["c"] = acm.Definition{CompositionID: "c", Elements: map[acm.Identifier]acm.Properties{{Name: "n", Version: "1"}: contentOf(1).Properties}}
	p.state.Held["h"] = acm.Held{MessageID: "h", InstanceID: "i", Record: acm.Message{
		MessageType: acm.TypeDeploy, MessageID: "h",
		Updates: []acm.ParticipantUpdate{{ParticipantID: me, Elements: []acm.ElementUpdate{{ID: "e", Properties: contentOf(1).Properties}}}},
	}}
	for _, one := range []entry{{elementEntry, "e"}, {definitionEntry, "c"}, {orderEntry, "h"}} {
		if _, err := p.put(t.Context(), one, p.remembered(one), false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoCustomResourceHasAPayload: neither what may hold credentials, nor anything that it can be compared with by who may read custom resources.
func TestNoCustomResourceHasAPayload(t *testing.T) {
	o := newObjects(t)
	p := o.participant()
	fill(t, p)
	names := []string{}
	for _, cr := range o.custom() {
		text, err := json.Marshal(cr)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), password) || strings.Contains(string(text), "token") {
			t.Errorf("%T: %s", cr, text)
		}
		for _, ref := range references(cr) {
			names = append(names, ref.Name)
		}
	}
	if len(names) != 4 || o.settled() != nil {
		t.Errorf("the references are %v: %v", names, o.settled())
	}
	// The same content of another element, or of another installation, has another name, and no plain hash is in it.
	another := o.participant()
	another.store.Key = digest.Key{2}
	content := []byte(`{"common":{"token":"` + password + `"},"properties":{"payload":"` + password + `1"}}`)
	plain := sha256.Sum256(content)
	first := p.store.payloads(elementKind, "e").keep(content).Name
	if !slices.Contains(names, first) || strings.Contains(first, hex.EncodeToString(plain[:])[:16]) {
		t.Errorf("the content has the name %s, the references are %v", first, names)
	}
	for _, other := range []string{p.store.payloads(elementKind, "f").keep(content).Name, another.store.payloads(elementKind, "e").keep(content).Name} {
		if other == first {
			t.Errorf("%s tells the content", first)
		}
	}
}

// TestWhatEarlierReleasesStoredIsMoved: it is read as it is and moved into Secrets at the first start.
func TestWhatEarlierReleasesStoredIsMoved(t *testing.T) {
	o := newObjects(t)
	raw := func(value any) *runtime.RawExtension {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return &runtime.RawExtension{Raw: text}
	}
	want := o.participant()
	fill(t, want)
	held := want.state.Held["h"].Record
	for _, cr := range o.custom() {
		switch cr := cr.(type) {
		case *keeper.CompositionElement:
			for n, content := range map[int]*keeper.ElementContent{1: &cr.Spec.Content, 2: cr.Spec.Previous} {
				content.Payload, content.Common, content.Properties = nil, raw(contentOf(n).Common), raw(contentOf(n).Properties)
			}
		case *keeper.CompositionDefinition:
			cr.Spec.Payload, cr.Spec.Elements[0].Properties = nil, raw(contentOf(1).Properties)
		case *keeper.PendingOrder:
			cr.Spec.Payload, cr.Spec.Message = nil, raw(held)
		}
		if err := o.Update(t.Context(), cr); err != nil {
			t.Fatal(err)
		}
	}
	for name := range o.secrets() {
		if err := o.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, start := range []string{"the first", "the next"} {
		p := o.starts()
		read, expected := found(p.state.Elements, "e"), found(want.state.Elements, "e")
		if !same(read, expected) || !reflect.DeepEqual(p.state.Definitions, want.state.Definitions) || !reflect.DeepEqual(p.state.Held["h"].Record, held) {
			t.Errorf("%s start reads %+v", start, p.state)
		}
		for _, cr := range o.custom() {
			if text, _ := json.Marshal(cr); strings.Contains(string(text), password) {
				t.Errorf("after %s start %T is %s", start, cr, text)
			}
		}
		if err := o.settled(); err != nil {
			t.Errorf("after %s start: %v", start, err)
		}
		o.write = func(_ bool, verb string, cr client.Object) error {
			return fmt.Errorf("%s %T at the next start", verb, cr)
		}
	}
}

// TestRefusedPayloadsLeaveNoSecret: orders that are refused again and again must not fill the operator's namespace.
func TestRefusedPayloadsLeaveNoSecret(t *testing.T) {
	o := newObjects(t)
	p := o.participant()
	if err := putElement(p, "e", elementOf(1)); err != nil {
		t.Fatal(err)
	}
	refused := apierrors.NewInvalid(schema.GroupKind{Kind: elementKind}, "e", nil)
	o.write = func(_ bool, _ string, cr client.Object) error {
		if _, element := cr.(*keeper.CompositionElement); element {
			return refused
		}
		return nil
	}
	large := make([]byte, 1<<20)
	source := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // It has to be hard to compress, not to guess.
	for i := range large {
		large[i] = byte('!' + source.IntN(90))
	}
	more := *elementOf(4)
	text, err := json.Marshal(strings.Repeat(string(large), 2))
	if err != nil {
		t.Fatal(err)
	}
	more.Content.Properties["large"] = text
	for name, e := range map[string]*acm.Element{"refused": elementOf(2, 1), "too large": &more} {
		var refusal *Refusal
		if err := putElement(p, "e", e); !errors.As(err, &refusal) {
			t.Errorf("%s: %v", name, err)
		}
		if err := o.settled(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := found(o.starts().state.Elements, "e"); !same(got, elementOf(1)) {
		t.Errorf("read is %+v", got)
	}
}

// TestALostPayload: an element whose Secret somebody has deleted is left out, and the next order that brings its properties makes it whole.
func TestALostPayload(t *testing.T) {
	o := newObjects(t)
	fill(t, o.participant())
	for name := range o.secrets() {
		if err := o.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	p := o.participant()
	loaded, err := p.store.Load(t.Context())
	if err != nil || len(loaded.Unreadable) != 3 || len(loaded.State.Elements) > 0 || len(loaded.Untidy) > 0 {
		t.Errorf("loaded is %+v, %v", loaded, err)
	}
	fill(t, p)
	if err := o.settled(); err != nil {
		t.Error(err)
	}
	// The garbage collector has not deleted yet what a deleted element owned when the element is made again with the same content.
	cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: "e"}}
	if err := o.Delete(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	if err := putElement(p, "e", elementOf(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := o.settled(); err != nil {
		t.Error(err)
	}
}

// TestABackupIsRestored: Secrets of a backup stay until their custom resources come, also in another namespace, and are owned by these then.
func TestABackupIsRestored(t *testing.T) {
	o := newObjects(t)
	fill(t, o.participant())
	saved := o.custom()
	secrets := o.secrets()
	for _, cr := range saved {
		if err := o.Delete(t.Context(), cr); err != nil {
			t.Fatal(err)
		}
	}
	if left := o.secrets(); len(left) != 0 {
		t.Fatalf("%d Secrets are left", len(left))
	}
	restore := func(from client.Object) {
		t.Helper()
		from.SetResourceVersion("")
		from.SetOwnerReferences(nil)
		from.SetManagedFields(nil)
		if err := o.Create(t.Context(), from, client.FieldOwner("kubectl-create")); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range secrets {
		restore(&s)
	}
	o.starts()
	if left := o.secrets(); len(left) != len(secrets) {
		t.Errorf("%d Secrets are left of the %d of the backup", len(left), len(secrets))
	}
	for _, cr := range saved {
		restore(cr)
	}
	p := o.starts()
	if err := o.settled(); err != nil || len(p.state.Elements) == 0 {
		t.Errorf("%d elements, %v", len(p.state.Elements), err)
	}
}

// TestARefusedOwnerHoldsUpNoOrder: the custom resource is as ordered when its Secret is refused, such as by a policy on Secrets.
func TestARefusedOwnerHoldsUpNoOrder(t *testing.T) {
	o := newObjects(t)
	o.write = func(after bool, verb string, _ client.Object) error {
		if !after && verb == "patch" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", nil)
		}
		return nil
	}
	if err := putElement(o.participant(), "e", elementOf(1)); err != nil {
		t.Fatal(err)
	}
	o.write = func(bool, string, client.Object) error { return nil }
	o.starts()
	if err := o.settled(); err != nil {
		t.Error(err)
	}
}
