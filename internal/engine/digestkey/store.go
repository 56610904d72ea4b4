// Package digestkey stores the key of an installation's digests (package digest) in a Secret of the operator's namespace. It creates the
// Secret once and never changes or deletes it. It decides nothing else.
package digestkey

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/digest"
)

const (
	// Name is the name of the Secret.
	Name = "mlkeeper-digest-key"
	// entry is the key of its data that holds the key of the digests.
	entry = "key"
)

// timeout bounds one attempt, so that an API server that hangs is asked again.
const timeout = 30 * time.Second

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	// retry is the backoff while the key can be neither read nor created. Everything waits for it, so its pauses stay short.
	retry = backoff.Policy{First: time.Second, Longest: 15 * time.Second}
)

// Store loads the key once and keeps it: a Secret that is deleted or replaced while a manager runs changes no digest.
type Store struct {
	Client    dynamic.Interface
	Namespace string
	Random    io.Reader
	Clock     clock.Clock
	Log       logr.Logger

	// loading lets one caller load at a time; mu guards the fields below.
	loading sync.Mutex
	mu      sync.Mutex
	key     *digest.Key
	err     error
}

// Load returns once the key is loaded; false when the context is done before.
func (s *Store) Load(ctx context.Context) bool {
	s.loading.Lock()
	defer s.loading.Unlock()
	var attempts backoff.Retry
	for ctx.Err() == nil {
		if s.loaded() {
			return true
		}
		key, err := s.readOrCreate(ctx)
		s.set(key, err)
		if err == nil {
			continue
		}
		now := s.Clock.Now()
		pause := attempts.Failed(retry, err.Error(), now).Sub(now)
		s.Log.Error(err, "nothing is reconciled without the key of the digests", "retryAfter", pause.String())
		select {
		case <-ctx.Done():
		case <-s.Clock.After(pause):
		}
	}
	return false
}

// Key is the loaded key.
func (s *Store) Key() digest.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		panic("bug: a digest is made before the key is loaded")
	}
	return *s.key
}

// Err is why the last attempt to load the key failed; nil before the first attempt and after a success.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Store) loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key != nil
}

func (s *Store) set(key digest.Key, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.key = &key
	}
}

// readOrCreate reads the key, or creates it where there is none. Where another manager has created it meanwhile, that one counts.
func (s *Store) readOrCreate(ctx context.Context) (digest.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := s.Client.Resource(secrets).Namespace(s.Namespace)
	found, err := client.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		var made *unstructured.Unstructured
		if made, err = s.generate(); err != nil {
			return digest.Key{}, err
		}
		if found, err = client.Create(ctx, made, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			found, err = client.Get(ctx, Name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return digest.Key{}, fmt.Errorf("read or create Secret %s/%s: %w", s.Namespace, Name, err)
	}
	return s.decode(found)
}

// generate makes a Secret with a random key. It is immutable, so that nobody changes the key by mistake.
func (s *Store) generate() (*unstructured.Unstructured, error) {
	var key digest.Key
	if _, err := io.ReadFull(s.Random, key[:]); err != nil {
		return nil, fmt.Errorf("make the key of the digests: %w", err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
		"metadata": map[string]any{"name": Name, "namespace": s.Namespace},
		"data":     map[string]any{entry: base64.StdEncoding.EncodeToString(key[:])},
	}}, nil
}

// decode returns the key of a Secret. One without a key is an error and is not overwritten: another owner may have made it.
func (s *Store) decode(u *unstructured.Unstructured) (digest.Key, error) {
	text, _, _ := unstructured.NestedString(u.Object, "data", entry)
	raw, err := base64.StdEncoding.DecodeString(text)
	var key digest.Key
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("entry %q of Secret %s/%s is not a key of %d bytes: delete the Secret, and MLKeeper creates it again",
			entry, s.Namespace, Name, len(key))
	}
	copy(key[:], raw)
	return key, nil
}
