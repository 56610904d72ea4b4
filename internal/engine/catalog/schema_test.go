package catalog

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
)

// TestANewSchemaIsAChange: what the API server rejected, or what was left out of an object, may fit the new schema.
func TestANewSchemaIsAChange(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	c := newWithClock(nil, nil, logr.Discard(), clock)
	created := time.Unix(1000, 0)
	var changes []int64
	c.OnChange(func(gk schema.GroupKind, _ bool) {
		generation, since := c.Definition(gk)
		if want := map[int64]time.Time{1: created, 2: clock.Now()}[generation]; !since.Equal(want) {
			t.Errorf("generation %d is of %s", generation, since)
		}
		changes = append(changes, generation)
	})
	for _, generation := range []int64{1, 1, 2} {
		c.setCRD(&crdInfo{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, kind: widget, established: true,
			api: api{resource: "widgets", versions: []string{"v1"}, generation: generation, changedAt: created},
		}, false)
	}
	if len(changes) != 2 || changes[0] != 1 || changes[1] != 2 {
		t.Errorf("the changes were of generations %v", changes)
	}
	if got, _ := c.Definition(schema.GroupKind{Kind: "ConfigMap"}); got != 0 {
		t.Errorf("a kind without a definition has generation %d", got)
	}
}
