package seldon

import (
	"bytes"
	"encoding/base64"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

func opaque(name string, data map[string]string) *unstructured.Unstructured {
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	u := &unstructured.Unstructured{Object: map[string]any{"data": encoded}}
	u.SetGroupVersionKind(gvkSecret)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

// secrets are the Secrets of a plan by name.
func secrets(p plan.Plan) map[string]plan.Object {
	out := map[string]plan.Object{}
	for _, o := range p.Stages[0].Objects {
		out[o.Desired.GetName()] = o
	}
	return out
}

// TestWhatIsGeneratedStaysWithoutAMark: whoever takes one of the marks off the Secret has it repaired, and no other passwords.
func TestWhatIsGeneratedStaysWithoutAMark(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	s, c := New(Settings{Trusted: true}).(*system), controllertest.New(testNow)
	pass := func() Facts {
		t.Helper()
		facts, err := s.Gather(t.Context(), c, cr)
		if err != nil {
			t.Fatal(err)
		}
		c.Written(s.Render(cr, facts), stackOf(cr).ID())
		return facts
	}
	before := pass()
	for _, labels := range []map[string]string{{keeper.StackLabel: stackOf(cr).Hash()}, nil} {
		u := c.Get(plan.KeyOf(opaque("stack-generated", nil)))
		u.SetAnnotations(nil)
		u.SetLabels(labels)
		if now := pass(); maps.EqualFunc(now.Keys.data, before.Keys.data, bytes.Equal) != (labels != nil) {
			t.Errorf("with the labels %v, the credentials are others: %t", labels, labels != nil)
		}
	}
}

// TestNothingIsMadeOfWhatAnEarlierOneGenerated: the Secret of an earlier SeldonOperator of the same name is about to be deleted, and what
// charts were rendered with its seed would be rendered again with another, as another revision.
func TestNothingIsMadeOfWhatAnEarlierOneGenerated(t *testing.T) {
	earlier, cr := &v1alpha1.SeldonOperator{}, &v1alpha1.SeldonOperator{}
	earlier.Name, earlier.Namespace, earlier.UID = "stack", "ns", "earlier"
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	s, c := New(Settings{Trusted: true}).(*system), controllertest.New(testNow)
	facts, err := s.Gather(t.Context(), c, earlier)
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range []metav1.OwnerReference{
		{APIVersion: keeper.GroupVersion.String(), Kind: "Inventory", Name: stackOf(earlier).InventoryPrefix() + "." + stageGenerated},
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SeldonOperator", Name: "stack", UID: earlier.UID},
	} {
		controls := true
		controller.Controller = &controls
		stored := secrets(s.Render(earlier, facts))["stack-generated"].Desired.DeepCopy()
		stored.SetOwnerReferences([]metav1.OwnerReference{controller})
		c.Own(stored, stackOf(earlier).ID())
		s.Forget(client.ObjectKeyFromObject(earlier))
		now, err := s.Gather(t.Context(), c, cr)
		if err != nil {
			t.Fatal(err)
		}
		if now.Keys.there || now.Keys.stored || bytes.Equal(now.Keys.data[entrySeed], facts.Keys.data[entrySeed]) {
			t.Errorf("beside a Secret that %s %s controls: %+v", controller.Kind, controller.Name, now.Keys)
		}
	}
}

// TestInvariant19WhatIsGeneratedIsUsedOnceItIsStored takes a SeldonOperator through its first passes: the passwords are made of the
// seed that is stored, and of no other.
func TestInvariant19WhatIsGeneratedIsUsedOnceItIsStored(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	cr.Spec.Enable.Catalogue, cr.Spec.Enable.PayloadStore = true, true
	s := New(Settings{Trusted: true}).(*system)
	c := controllertest.New(testNow)
	pass := func() (Facts, plan.Plan) {
		t.Helper()
		facts, err := s.Gather(t.Context(), c, cr)
		if err != nil {
			t.Fatal(err)
		}
		return facts, s.Render(cr, facts)
	}
	// Somebody else has a Secret of the name, with what looks like a seed.
	c.Put(opaque("stack-generated", map[string]string{entrySeed: "0123456789012345678901234567890123456789", entrySince: "2026-01-01T00:00:00Z"}))
	facts, p := pass()
	if got := secrets(p); len(got) != 1 || got["stack-generated"].IfNotPresent || facts.Keys.there || facts.Keys.Since() != testNow || len(facts.Parts) > 0 {
		t.Errorf("beside a Secret of somebody: %v, %+v", got, facts.Keys)
	}
	c.Remove(plan.KeyOf(opaque("stack-generated", nil)))
	facts, p = pass()
	if got := secrets(p); len(got) != 1 || !got["stack-generated"].IfNotPresent || facts.Keys.stored {
		t.Errorf("at first: %v", got)
	}
	c.Written(p, stackOf(cr).ID())
	facts, p = pass()
	got := secrets(p)
	if len(got) != 3 || got["stack-generated"].IfNotPresent || !got[postgresSecret].IfNotPresent || !got[elasticSecret].IfNotPresent || !facts.Keys.stored {
		t.Errorf("once the seed is stored: %v", got)
	}
	// A user writes one of the passwords, and the other is stored.
	theirs := opaque(postgresSecret, map[string]string{"password": "theirs"})
	c.Put(theirs)
	c.Own(got[elasticSecret].Desired, stackOf(cr).ID())
	facts, p = pass()
	if got := secrets(p); len(got) != 2 || got[elasticSecret].IfNotPresent || facts.Postgres.Text != "theirs" || !facts.Postgres.Theirs {
		t.Errorf("once the passwords are stored: %v, %+v", got, facts.Postgres)
	}
	// No pod starts with that Secret as it is.
	if p := facts.Missing[catalogue]; p.Reason != reasonCredentials || p.Message != "the Secret lacks postgres-password, dbname, host, user, port, sslmode" {
		t.Errorf("about a Secret without the keys that pods need: %+v", p)
	}
	theirs.Object["data"] = opaque("", map[string]string{
		"postgres-password": "theirs", "password": "theirs", "dbname": "m", "host": "h", "user": "u", "port": "1", "sslmode": "disable",
	}).Object["data"]
	c.Put(theirs)
	if facts, _ = pass(); len(facts.Missing) > 0 {
		t.Errorf("about a Secret with all keys: %+v", facts.Missing)
	}
}
