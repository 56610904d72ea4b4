package engine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "mlkeeper.dev/api/trustyai/v1"
)

// TestWhatAWatchTellsOfThePastIsConfirmed: an API server that lags behind answers a list from before the creation of a custom resource, and then
// tells of that creation, of the changes and of the deletion, one by one.
func TestWhatAWatchTellsOfThePastIsConfirmed(t *testing.T) {
	s, clock := bareStacks()
	work := priorityqueue.New[reconcile.Request]("resources")
	defer work.ShutDown()
	s.queue.work = work
	s.unconfirmed = map[client.ObjectKey]bool{}
	made := func(ago time.Duration) *v1.TrustyAIService {
		cr := &v1.TrustyAIService{}
		cr.Namespace, cr.Name, cr.CreationTimestamp = "ns", "x", metav1.NewTime(clock.Now().Add(-ago))
		return cr
	}
	key := client.ObjectKey{Namespace: "ns", Name: "x"}
	for _, c := range []struct {
		name     string
		old, now metav1.Object
		listed   bool
		want     bool
	}{
		{"created just now", nil, made(time.Second), false, false},
		{"created long ago", nil, made(time.Hour), false, true},
		{"changed since", made(time.Hour), made(time.Hour), false, true},
		{"gone", made(time.Hour), nil, false, false},
		{"listed", nil, made(time.Second), true, true},
	} {
		s.resourceChanged(c.old, c.now, c.listed)
		if got := s.isUnconfirmed(key); got != c.want {
			t.Errorf("%s: whether it may be of the past is %v", c.name, got)
		}
	}
}
