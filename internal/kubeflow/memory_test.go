package kubeflow

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/rendering"
)

// TestAKfDefThatRendersTooMuch keeps what it rendered before, and says what is wrong with it and not with its repository.
func TestAKfDefThatRendersTooMuch(t *testing.T) {
	from, m := newServers(t)
	m.system = New(Settings{Trusted: true, Sources: from, Results: rendering.NewMemory(1 << 20)})
	if p, objects := m.reconcile(); objects != "ConfigMap n/first, ConfigMap n/second" || len(p.Problems) > 0 {
		t.Fatalf("%s: %v", objects, p.Problems)
	}
	from.trees[remoteTree]["beside/object.yaml"] = aConfigMap("first", strings.Repeat("x", 600<<10))
	p, objects := m.again()
	if objects != "ConfigMap n/first, ConfigMap n/second" || value(p) != "one" {
		t.Errorf("declared is %s, %.10s", objects, value(p))
	}
	if len(p.Problems) != 1 || p.Problems[0].Class != plan.Terminal || p.Problems[0].Reason != rendering.ReasonResultTooLarge {
		t.Errorf("%v", p.Problems)
	}
	if meta.FindStatusCondition(m.cr.Status.Conditions, ConditionSourceUnavailable) != nil {
		t.Error("the repository is said to be out of reach")
	}
}

// TestAKfDefIsDroppedForAnother has the engine drop what it keeps of a KfDef whose result was dropped for that of another one.
func TestAKfDefIsDroppedForAnother(t *testing.T) {
	from, m := newServers(t)
	m.system = New(Settings{Trusted: true, Sources: from, Results: rendering.NewMemory(2 << 20)})
	var evicted []string
	m.system.(controller.Evicting).OnEvict(func(key types.NamespacedName) { evicted = append(evicted, key.String()) })
	from.trees[remoteTree]["beside/object.yaml"] = aConfigMap("first", strings.Repeat("x", 600<<10))
	for _, name := range []string{"a", "b"} {
		m.cr.Name, m.cr.UID = name, types.UID(name)
		if p, _ := m.reconcile(); len(p.Problems) > 0 {
			t.Fatal(p.Problems)
		}
	}
	if strings.Join(evicted, " ") != "kubeflow/a" {
		t.Errorf("dropped are %q", evicted)
	}
}
