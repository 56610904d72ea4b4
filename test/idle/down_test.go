package idle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

// TestWhatChangesWhileTheOperatorIsDownIsRepaired changes one field of every child of both shapes while no operator runs.
func TestWhatChangesWhileTheOperatorIsDownIsRepaired(t *testing.T) {
	w := newWorld(t, len(fixture.Shapes))
	w.settle(t)
	api, err := dynamic.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	w.operator.Stop()
	type changed struct {
		hand   *hand
		change change
		before any
	}
	var all []changed
	for _, s := range w.services {
		for _, child := range s.Children(t, w.cluster) {
			h := &hand{cluster: w.cluster, child: child, api: resource(t, w.cluster, api, child)}
			changes := changesOf(child)
			c := changes[len(changes)-1]
			if c.fresh {
				c = changes[0] // Another certificate is as good.
			}
			patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": pointer(c.path), "value": c.to}})
			if err != nil {
				t.Fatal(err)
			}
			before := valueAt(h.get(t).Object, c.path)
			if _, err := h.api.Patch(t.Context(), child.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
				t.Fatal(err)
			}
			all = append(all, changed{h, c, before})
		}
	}
	w.start(t)
	for _, one := range all {
		t.Run(fmt.Sprintf("%s changed in %s", one.hand.child, one.change.what), func(t *testing.T) {
			cluster.Eventually(t, repairTimeout, func() error {
				if now := valueAt(one.hand.get(t).Object, one.change.path); !reflect.DeepEqual(now, one.before) {
					return fmt.Errorf("%v, not %v", now, one.before)
				}
				return nil
			})
		})
	}
	w.settle(t)
}
