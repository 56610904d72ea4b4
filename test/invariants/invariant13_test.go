package invariants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestInvariant13OptionalObjectFollowsItsAPI(t *testing.T) {
	group := "late-" + rand.String(6) + ".test"
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Late"}
	b := open(t, options{Children: []schema.GroupVersionKind{gvk}})
	late := object(`{"apiVersion":"%s/v1","kind":"Late","metadata":{"namespace":%q,"name":"late"},"spec":{"a":"b"}}`, group, b.ns)
	late.Optional = true
	b.apply("b", one(configMap(b.ns, "one", "v"), late))
	b.apply("needs", one(object(`{"apiVersion":"%s/v1","kind":"Late","metadata":{"namespace":%q,"name":"needed"}}`, group, b.ns)))
	b.ready("b")
	if got := b.bundle("b").Status.Skipped; len(got) != 1 || !strings.Contains(got[0], group+"/v1") {
		t.Fatalf("skipped is %v", got)
	}
	b.condition("needs", "Ready", metav1.ConditionFalse)
	b.quiet()

	crd := string(definition(group, "Late").Manifest.Raw)
	b.c.Apply(t, crd+"\n")
	cluster.Eventually(t, patience, func() error {
		if b.c.Get(t, gvk, b.ns, "late") == nil || b.c.Get(t, gvk, b.ns, "needed") == nil {
			return fmt.Errorf("not made though the API is there")
		}
		return nil
	})
	b.ready("needs")
	// It was Ready before, and stays so while its watch is opened.
	cluster.Eventually(t, patience, func() error {
		if got := b.bundle("b").Status.Skipped; len(got) != 0 {
			return fmt.Errorf("still skipped: %v", got)
		}
		return nil
	})
	b.ready("b")

	b.delete(definitionGVK, "", "lates."+group)
	b.gone(definitionGVK, "", "lates."+group)
	cluster.Eventually(t, patience, func() error {
		if got := b.bundle("b").Status.Skipped; len(got) != 1 {
			return fmt.Errorf("skipped is %v", got)
		}
		return nil
	})
	b.ready("b")
	mark := b.journal.mark()
	cluster.Consistently(t, 3*while, func() error {
		if got := b.journal.since(mark, func(r request) bool { return strings.Contains(r.path, "/lates") }); len(got) > 2 {
			return fmt.Errorf("the API is gone, but still asked for:\n%s", lines(got))
		}
		return nil
	})
}

func TestInvariant13ReferencedObjectIsReadOnlyWhenItChanges(t *testing.T) {
	b := open(t, options{})
	spec := one(configMap(b.ns, "one", "v"))
	spec.Secret = "theirs"
	mark := b.journal.mark()
	b.apply("b", spec)
	b.condition("b", "Ready", metav1.ConditionFalse, "SecretMissing")
	reads := func() []request {
		return b.journal.since(mark, func(r request) bool {
			return r.method == http.MethodGet && strings.Contains(r.path, "/namespaces/"+b.ns+"/secrets/")
		})
	}
	if got := reads(); len(got) > 0 {
		t.Errorf("an absent Secret was read:\n%s", lines(got))
	}
	write := func(name, keys string) {
		b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{%s}}`+"\n", name, keys), b.ns)
	}
	write("theirs", `"a":"1"`)
	b.ready("b")
	b.field(configMapGVK, b.ns, "one", "[a]", "data", "keys")
	if got := reads(); len(got) != 1 {
		t.Errorf("a Secret that appeared took %d reads:\n%s", len(got), lines(got))
	}
	write("theirs", `"a":"1","b":"2"`)
	b.field(configMapGVK, b.ns, "one", "[a b]", "data", "keys")
	for i := range 5 {
		write(fmt.Sprint("foreign-", i), `"a":"1"`)
	}
	b.nudge("b")
	b.quiet()
	if got := reads(); len(got) != 2 {
		t.Errorf("one change took %d reads:\n%s", len(got)-1, lines(got))
	}
	for _, r := range b.journal.since(0, func(r request) bool { return strings.HasSuffix(r.path, "/secrets") && !r.write() }) {
		if !strings.Contains(r.accept, "PartialObjectMetadata") {
			t.Errorf("more than metadata is watched: %s, Accept %s", lines([]request{r}), r.accept)
		}
	}
	b.delete(secretGVK, b.ns, "theirs")
	b.condition("b", "Ready", metav1.ConditionFalse, "SecretMissing")
	b.value("one", "v")
}

func TestInvariant13OneOfManyReferencesKeepsItsWatch(t *testing.T) {
	b := open(t, options{})
	b.c.Apply(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"theirs"},"stringData":{"a":"1"}}
`, b.ns)
	for _, name := range []string{"x", "y"} {
		spec := one(configMap(b.ns, name, "v"))
		spec.Secret = "theirs"
		b.apply(name, spec)
		b.ready(name)
	}
	b.delete(bundle.GVK, b.ns, "x")
	b.gone(bundle.GVK, b.ns, "x")
	secret := b.must(secretGVK, b.ns, "theirs")
	secret.Object["stringData"] = map[string]any{"b": "2"}
	if err := b.c.Client.Update(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	b.field(configMapGVK, b.ns, "y", "[a b]", "data", "keys")
}

// failing is a controller that fails after it has read.
type failing struct{ bundle.System }

// Gather reads, and fails.
func (f *failing) Gather(ctx context.Context, read controller.Reader, b *bundle.Bundle) (bundle.Facts, error) {
	facts, err := f.System.Gather(ctx, read, b)
	return facts, errors.Join(err, errors.New("the controller fails"))
}

// TestInvariant13ContentsAreDroppedWithTheirCustomResource: also where no reconcile came to its report.
func TestInvariant13ContentsAreDroppedWithTheirCustomResource(t *testing.T) {
	b := open(t, options{System: &failing{}})
	b.c.Apply(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"theirs"},"stringData":{"a":"1"}}
`, b.ns)
	spec := one(configMap(b.ns, "one", "v"))
	spec.Secret = "theirs"
	b.apply("b", spec)
	cluster.Eventually(t, patience, func() error {
		if got := b.journal.since(0, func(r request) bool { return strings.HasSuffix(r.path, "/secrets/theirs") }); len(got) == 0 {
			return errors.New("the Secret was not read yet")
		}
		return nil
	})
	b.delete(bundle.GVK, b.ns, "b")
	b.gone(bundle.GVK, b.ns, "b")
	b.quiet()
	cluster.Eventually(t, patience, func() error {
		if n := harness.Sizes(b.op.Engine)["reader.contents.by"]; n > 0 {
			return fmt.Errorf("%d contents are kept", n)
		}
		return nil
	})
}

// TestInvariant13ANewSchemaIsTriedAtOnce: the API server rejects one object for its schema, and drops a field of another one; both fit the
// schema that the definition gets later.
func TestInvariant13ANewSchemaIsTriedAtOnce(t *testing.T) {
	group := "schema.invariants.test"
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Shape"}
	b := open(t, options{Children: []schema.GroupVersionKind{gvk}})
	shape := func(properties string) {
		b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shapes.%[1]s"},
			"spec":{"group":%[1]q,"scope":"Namespaced","names":{"kind":"Shape","plural":"shapes"},"versions":[{"name":"v1","served":true,
			"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":%s}}}}}]}}`, group, properties))
	}
	shape(`{"size":{"type":"integer"}}`)
	made := func(name, spec string) bundle.Object {
		return object(`{"apiVersion":"%s/v1","kind":"Shape","metadata":{"namespace":%q,"name":%q},"spec":%s}`, group, b.ns, name, spec)
	}
	b.apply("b", bundle.Spec{Stages: []bundle.Stage{stage("all", made("rejected", `{"size":"large"}`), made("dropped", `{"size":1,"color":"red"}`))}})
	b.condition("b", "Stalled", metav1.ConditionTrue)
	cluster.Eventually(t, patience, func() error {
		if got := strings.Join(b.bundle("b").Status.Warnings, "\n"); !strings.Contains(got, "spec.color") {
			return fmt.Errorf("the warnings are: %s", got)
		}
		return nil
	})
	shape(`{"size":{"x-kubernetes-int-or-string":true},"color":{"type":"string"}}`)
	b.ready("b")
	b.field(gvk, b.ns, "rejected", "large", "spec", "size")
	b.field(gvk, b.ns, "dropped", "red", "spec", "color")
	b.quiet()

	// What was left out stays known to the next manager, with the schema that it was left out for.
	b.apply("c", bundle.Spec{Stages: []bundle.Stage{stage("all", made("later", `{"size":1,"weight":"light"}`))}})
	b.ready("c")
	b.op.Stop()
	shape(`{"size":{"x-kubernetes-int-or-string":true},"color":{"type":"string"},"weight":{"type":"string"}}`)
	b.op = b.operator(b.opts.Options)
	b.field(gvk, b.ns, "later", "light", "spec", "weight")
	b.ready("c")
	b.quiet()
	before := b.must(gvk, b.ns, "later").GetResourceVersion()
	b.restart()
	b.quiet()
	if after := b.must(gvk, b.ns, "later").GetResourceVersion(); after != before {
		t.Errorf("the next start wrote the object again, as %s after %s", after, before)
	}
}
