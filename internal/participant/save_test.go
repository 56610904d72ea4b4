package participant

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
)

// TestAnOutcomeIsToldWhenTheNextOrderIsRefused: an order ends while the next one is being written, which the API server then refuses.
func TestAnOutcomeIsToldWhenTheNextOrderIsRefused(t *testing.T) {
	b, s := &broker{}, &server{}
	p, _ := participant(b, s)
	order, id, element := deploy()
	instance, now := order["automationCompositionId"].(string), metav1.NewMicroTime(noon)
	cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: element}}
	cr.Spec = keeper.CompositionElementSpec{
		ParticipantID: me, AutomationCompositionID: instance, Order: &keeper.ElementOrder{ID: id, Type: "Deploy", Time: now, Received: now},
	}
	cr.Status.Outcome = &keeper.OrderOutcome{OrderID: id, Type: "Deploy", ElementStates: keeper.ElementStates{DeployState: "DEPLOYED", LockState: "LOCKED"}}
	p.store.Elements = watched{cr}
	p.state.Elements[element] = acm.Element{ID: element, InstanceID: instance, Present: true, Order: acm.Order{ID: id, Type: acm.OrderDeploy}}
	s.refuse = func(string, client.Object) error {
		p.Saw(nil, cr)
		p.outbox.next(t.Context())
		return apierrors.NewBadRequest("no orders on Friday")
	}
	next := newUUID()
	raw, err := json.Marshal(map[string]any{
		"messageType": acm.TypeStateChange, "messageId": next, "timestamp": noon.Add(time.Minute).Format(time.RFC3339),
		"automationCompositionId": instance, "deployOrderedState": "UNDEPLOY",
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := acm.Batch{Records: [][]byte{raw}, Done: func(context.Context) error { return nil }}
	if err := p.carryOut(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got := answered(b, next); !strings.Contains(got, "no orders on Friday") || answered(b, id) != "" {
		t.Fatalf("the refused order is answered %q, the one before %q", got, answered(b, id))
	}
	if p.outbox.queue.Len() == 0 {
		t.Fatal("nothing is to be told of the element")
	}
	p.outbox.next(t.Context())
	if got := answered(b, id); got != "NO_ERROR Deployed" || p.state.Elements[element].Settled == nil {
		t.Errorf("told is %q, the element is %+v", got, p.state.Elements[element])
	}
}
