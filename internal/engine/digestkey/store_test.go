package digestkey

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/digest"
)

const namespace = "operator"

// newCluster is an API server that fails the test at any write but a creation.
func newCluster(t *testing.T, objects ...runtime.Object) *fake.FakeDynamicClient {
	t.Helper()
	c := fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
	for _, verb := range []string{"update", "patch", "delete", "delete-collection", "list", "watch"} {
		c.PrependReactor(verb, "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
			return true, nil, errors.New("not allowed")
		})
	}
	return c
}

func newStore(c *fake.FakeDynamicClient) *Store {
	return &Store{Client: c, Namespace: namespace, Random: rand.Reader, Clock: clock.RealClock{}, Log: logr.Discard()}
}

func load(t *testing.T, s *Store) digest.Key {
	t.Helper()
	if !s.Load(t.Context()) || s.Err() != nil {
		t.Fatal("the key is not loaded: ", s.Err())
	}
	return s.Key()
}

func secret(data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": Name, "namespace": namespace}, "data": data,
	}}
}

func TestTheKeyIsCreatedOnceAndReadByOtherManagers(t *testing.T) {
	c := newCluster(t)
	first := newStore(c)
	key := load(t, first)
	if key == (digest.Key{}) {
		t.Error("the key is not random")
	}
	stored, err := c.Resource(secrets).Namespace(namespace).Get(t.Context(), Name, metav1.GetOptions{})
	if err != nil || stored.Object["immutable"] != true {
		t.Errorf("the Secret is %v, %v", stored, err)
	}
	if other := load(t, newStore(c)); other != key {
		t.Error("another manager has another key")
	}
	if other := load(t, newStore(newCluster(t))); other == key {
		t.Error("another installation has the same key")
	}
	c.ClearActions()
	if again := load(t, first); again != key || len(c.Actions()) > 0 {
		t.Errorf("the key is read again: %v", c.Actions())
	}
}

// Another manager creates the Secret between the read and the creation of this one: the key of the other counts.
func TestTheKeyThatIsCreatedFirstCounts(t *testing.T) {
	c := newCluster(t)
	other := digest.Key{1, 2, 3}
	c.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return false, nil, c.Tracker().Add(secret(map[string]any{entry: base64.StdEncoding.EncodeToString(other[:])}))
	})
	if got := load(t, newStore(c)); got != other {
		t.Errorf("two managers have two keys: %x and %x", got, other)
	}
}

// A lost Secret changes nothing while the manager runs; the next one creates another key.
func TestALostSecretChangesNoDigestOfARunningManager(t *testing.T) {
	c := newCluster(t)
	running := newStore(c)
	key := load(t, running)
	if err := c.Tracker().Delete(secrets, namespace, Name); err != nil {
		t.Fatal(err)
	}
	if again := load(t, running); again != key {
		t.Error("a running manager has another key")
	}
	if next := load(t, newStore(c)); next == key {
		t.Error("the lost key is known")
	}
}

// What cannot be used is not overwritten, and is read again until it can be.
func TestAMalformedSecretIsReportedAndReadAgain(t *testing.T) {
	for name, data := range map[string]map[string]any{
		"no data":   nil,
		"no entry":  {"other": base64.StdEncoding.EncodeToString(make([]byte, 32))},
		"too short": {entry: base64.StdEncoding.EncodeToString(make([]byte, 31))},
		"too long":  {entry: base64.StdEncoding.EncodeToString(make([]byte, 33))},
		"no base64": {entry: "***"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, secret(data))
			now := testclock.NewFakeClock(time.Unix(1e9, 0))
			s := newStore(c)
			s.Clock = now
			loaded := make(chan bool)
			go func() { loaded <- s.Load(t.Context()) }()
			waitFor(t, now.HasWaiters)
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), Name) {
				t.Errorf("the error is %v", err)
			}
			if err := c.Tracker().Delete(secrets, namespace, Name); err != nil {
				t.Fatal(err)
			}
			now.Step(2 * time.Second)
			if !<-loaded || s.Err() != nil {
				t.Error(s.Err())
			}
		})
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	c.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(secrets.GroupResource(), Name, errors.New("no role"))
	})
	now := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := newStore(c)
	s.Clock = now
	ctx, stop := context.WithCancel(t.Context())
	loaded := make(chan bool, 2)
	for range 2 {
		go func() { loaded <- s.Load(ctx) }()
	}
	waitFor(t, now.HasWaiters)
	stop()
	if first, second := <-loaded, <-loaded; first || second {
		t.Error("it is loaded although it may not be read")
	}
	if err := s.Err(); !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v", err)
	}
	if n := len(c.Actions()); n != 1 {
		t.Errorf("%d requests within one pause", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a digest is made without a key")
		}
	}()
	s.Key()
}

// waitFor waits until a goroutine of the test has got somewhere.
func waitFor(t *testing.T, reached func() bool) {
	t.Helper()
	for !reached() {
		if t.Context().Err() != nil {
			t.Fatal("the test ended")
		}
		time.Sleep(time.Millisecond)
	}
}
