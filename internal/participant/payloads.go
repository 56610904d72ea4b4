package participant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/parallel"
)

// What may hold credentials is in Secrets of the operator's namespace. Each has one content and never another, so that no write has to be
// atomic with another one:
//
//  1. A Secret is created under a name that follows from its content.
//  2. The custom resource is written with the references.
//  3. The custom resource becomes the owner of the Secrets, so that the garbage collector deletes them with it.
//  4. Those of contents before are deleted.
//
// A crash after a step leaves Secrets without an owner, or without a reference to them. The participant puts that right when it starts.

// payloads are what one custom resource keeps in Secrets.
type payloads struct {
	// of is the kind and name of the custom resource.
	kind, of string
	store    Store
	// secrets are the Secrets by name.
	secrets map[string]*corev1.Secret
}

func (s Store) payloads(kind, name string) *payloads {
	return &payloads{kind: kind, of: record.PayloadOf(kind, name), store: s, secrets: map[string]*corev1.Secret{}}
}

// keep implements record.Keep. The key of the digest is that of the installation: who may read the custom resource cannot try contents
// against the name.
func (p *payloads) keep(payload []byte) *keeper.PayloadReference {
	mac := p.store.Key.For(p.of).New()
	mac.Write(payload)
	ref := keeper.PayloadReference{Namespace: p.store.Namespace, Name: "mlkeeper-payload-" + digest.Text(mac)}
	p.secrets[ref.Name] = record.PayloadSecret(ref, p.of, p.store.Participant, payload)
	return &ref
}

// names are the names of the Secrets, in order.
func (p *payloads) names() []string { return slices.Sorted(maps.Keys(p.secrets)) }

// create creates the Secrets. One that is there already has the same content.
func (p *payloads) create(ctx context.Context) error {
	for _, name := range p.names() {
		secret := p.secrets[name].DeepCopy()
		size := 0
		for _, value := range secret.Data {
			size += len(value)
		}
		if size > corev1.MaxSecretSize {
			return &Refusal{fmt.Sprintf("its properties have %d bytes when they are compressed, more than %d", size, corev1.MaxSecretSize)}
		}
		err := p.store.Client.Create(ctx, secret, client.FieldOwner(observe.FieldManager))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		p.store.known.update(p.of, name, func(s *secretState) {
			if err == nil {
				*s = secretState{}
			}
		})
	}
	return nil
}

// failed takes in that the custom resource was not written. Where the API server refuses it, the Secrets that were made for it are deleted;
// any other failure may hide a success.
func (p *payloads) failed(ctx context.Context, err error) error {
	for _, name := range p.names() {
		switch {
		case !errors.As(err, new(*Refusal)):
			p.store.known.update(p.of, name, func(s *secretState) { s.referenced = true })
		case !p.store.known.of(p.of)[name].referenced:
			_ = p.delete(ctx, name) // It is tried again with the next write of the custom resource, and at the next start.
		}
	}
	return err
}

// settle has a custom resource that was written own its Secrets, and deletes those that it no longer refers to.
func (p *payloads) settle(ctx context.Context, cr client.Object) error {
	owner := metav1.OwnerReference{APIVersion: keeper.GroupVersion.String(), Kind: p.kind, Name: cr.GetName(), UID: cr.GetUID()}
	for _, name := range p.names() {
		p.store.known.update(p.of, name, func(s *secretState) { s.referenced = true })
		if p.store.known.of(p.of)[name].owner == owner.UID {
			continue
		}
		if err := p.own(ctx, name, owner); err != nil {
			return err
		}
		p.store.known.update(p.of, name, func(s *secretState) { s.owner = owner.UID })
	}
	for name, state := range p.store.known.of(p.of) {
		if p.secrets[name] == nil && !state.restored {
			if err := p.delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// own makes a custom resource the owner of a Secret. The Secret is made again where the garbage collector has deleted it, as that of an
// earlier custom resource of the same name with the same content.
func (p *payloads) own(ctx context.Context, name string, owner metav1.OwnerReference) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}})
	if err != nil {
		return err
	}
	// The content, which may be large, need not come back.
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: p.store.Namespace, Name: name}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = p.store.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(observe.FieldManager))
	if apierrors.IsNotFound(err) {
		secret := p.secrets[name].DeepCopy()
		secret.OwnerReferences = []metav1.OwnerReference{owner}
		err = p.store.Client.Create(ctx, secret, client.FieldOwner(observe.FieldManager))
	}
	return err
}

// drop takes in that the custom resource was deleted. The garbage collector deletes the Secrets that it owns.
func (p *payloads) drop(ctx context.Context) error {
	for name, state := range p.store.known.of(p.of) {
		if state.owner != "" || state.restored {
			continue
		}
		if err := p.delete(ctx, name); err != nil {
			return err
		}
	}
	p.store.known.forget(p.of)
	return nil
}

func (p *payloads) delete(ctx context.Context, name string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.store.Namespace, Name: name}}
	if err := client.IgnoreNotFound(p.store.Client.Delete(ctx, secret)); err != nil {
		return err
	}
	p.store.known.remove(p.of, name)
	return nil
}

// secretState is what is known of a Secret.
type secretState struct {
	// owner is the UID of the custom resource that owns it; empty while none does.
	owner types.UID
	// referenced says that the custom resource may refer to it.
	referenced bool
	// restored says that somebody else has created it, such as from a backup whose custom resources come later: it is not deleted.
	restored bool
}

// knownSecrets are the Secrets of the participant, by what they are of and by name.
type knownSecrets struct {
	mu sync.Mutex
	by map[string]map[string]secretState
}

// of are those of one custom resource.
func (k *knownSecrets) of(of string) map[string]secretState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.by[of])
}

func (k *knownSecrets) update(of, name string, change func(*secretState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by[of] == nil {
		k.by[of] = map[string]secretState{}
	}
	state := k.by[of][name]
	change(&state)
	k.by[of][name] = state
}

func (k *knownSecrets) remove(of, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.by[of], name); len(k.by[of]) == 0 {
		delete(k.by, of)
	}
}

func (k *knownSecrets) forget(of string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, of)
}

// all are what there are Secrets of, in order.
func (k *knownSecrets) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.by))
}

// loadSecrets reads the Secrets of the participant, and returns what reads them.
func (s Store) loadSecrets(ctx context.Context) (func(of string) record.Fetch, error) {
	list := &corev1.SecretList{}
	err := s.Reader.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{keeper.PayloadLabel: "true"})
	if err != nil {
		return nil, fmt.Errorf("read the Secrets with payloads: %w", err)
	}
	byName := map[string]*corev1.Secret{}
	for i := range list.Items {
		secret := &list.Items[i]
		participant, of := record.PayloadMarks(secret)
		if participant != s.Participant {
			continue
		}
		byName[secret.Name] = secret
		s.known.update(of, secret.Name, func(state *secretState) {
			*state = secretState{restored: !slices.ContainsFunc(secret.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
				return e.Manager == observe.FieldManager
			})}
			if len(secret.OwnerReferences) > 0 {
				state.owner = secret.OwnerReferences[0].UID
			}
		})
	}
	return func(of string) record.Fetch {
		return func(ref keeper.PayloadReference) ([]byte, error) {
			// The Secrets may have come with a backup into another namespace.
			secret := byName[ref.Name]
			if secret == nil {
				return nil, fmt.Errorf("there is no Secret %s/%s, which has what was ordered: give the order again", ref.Namespace, ref.Name)
			}
			return record.Payload(secret, secret.Data, of)
		}
	}, nil
}

// untidy says that a custom resource that was read is not as it would be written: with what earlier releases stored in it, with Secrets that
// it does not own, or with Secrets that it does not refer to.
func (s Store) untidy(of string, uid types.UID, refs []keeper.PayloadReference, inline bool) bool {
	known := s.known.of(of)
	for _, ref := range refs {
		inline = inline || ref.Namespace != s.Namespace || known[ref.Name].owner != uid
		s.known.update(of, ref.Name, func(state *secretState) { state.referenced = true })
		delete(known, ref.Name)
	}
	for _, state := range known {
		inline = inline || !state.restored
	}
	return inline
}

// orphans are the entries of Secrets without an owner whose custom resource was not read.
func (s Store) orphans(read map[string]bool) []entry {
	var out []entry
	for _, of := range s.known.all() {
		owned := true
		for _, state := range s.known.of(of) {
			owned = owned && (state.owner != "" || state.restored)
		}
		kind, id, _ := strings.Cut(of, "/")
		if one := (entry{kindOf[kind], id}); one.kind != "" && !owned && !read[of] {
			out = append(out, one)
		}
	}
	return out
}

// tidy puts right what a crash has left, and moves what earlier releases stored into Secrets. What the API server refuses stays as it is.
func (p *Participant) tidy(ctx context.Context) error {
	p.mu.Lock()
	entries := slices.SortedFunc(maps.Keys(p.untidy), func(a, b entry) int { return cmp.Compare(a.String(), b.String()) })
	p.mu.Unlock()
	return errors.Join(parallel.Each(ctx, maxWrites, entries, func(ctx context.Context, _ int, one entry) error {
		p.writing.LockKey(one.String())
		defer func() { _ = p.writing.UnlockKey(one.String()) }()
		_, err := p.put(ctx, one, p.remembered(one), true)
		if errors.As(err, new(*Refusal)) {
			p.settings.Log.Info("the API server refuses to store something otherwise, and it stays as it is", "what", one.String(), "why", err.Error())
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.untidy, one)
		return nil
	})...)
}
