package finalize

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// The answers of an API server to deletions: of a ValidatingAdmissionPolicy (422, k8s.io/apiserver pkg/admission/plugin/policy/validating), of
// a webhook that gives no code (400, pkg/admission/plugin/webhook/errors), and for one whose server is down (500, pkg/util/webhook).
var (
	deniedByPolicy = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `namespaces "apps" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: it stays`,
	}}
	deniedByWebhook = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: `admission webhook "keep.example.test" denied the request: it stays`,
	}}
	failedWebhook = apierrors.NewInternalError(fmt.Errorf(`failed calling webhook "keep.example.test": connection refused`))
	conflict      = apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "apps", nil)
)

// refuse has the deletions of a resource fail, until the returned function is called.
func (w *world) refuse(resource string, answer error) (end func()) {
	refused := true
	w.client.PrependReactor("delete", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return refused, nil, answer })
	return func() { refused = false }
}

// event returns the next event; empty for none.
func (w *world) event() string {
	select {
	case event := <-w.events.Events:
		return event
	default:
		return ""
	}
}

// TestARefusedDeletionHoldsNothingUp: a policy that refuses the deletion of a Namespace is an answer, whatever its code.
func TestARefusedDeletionHoldsNothingUp(t *testing.T) {
	for _, answer := range []error{deniedByPolicy, deniedByWebhook, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "apps", nil)} {
		w := newWorld(t, namespace())
		w.listNamespace()
		w.refuse("namespaces", answer)
		if again := w.reconcile(w.manager()); again != 0 || w.waits(1) != "deleted" {
			t.Errorf("%v: checked again after %s, the last stage: %s", answer, again, w.waits(1))
		}
		if event := w.event(); !strings.Contains(event, "this stays, since its deletion was refused: "+answer.Error()) {
			t.Errorf("%v: the event says %q", answer, event)
		}
	}
}

// TestAFailedDeletionIsTriedAgainForAWhile: what may end by itself is waited for, and for no longer than for anything else.
func TestAFailedDeletionIsTriedAgainForAWhile(t *testing.T) {
	for answer, why := range map[error]string{failedWebhook: `the API server could not call the webhook "keep.example.test"`, conflict: "Conflict"} {
		w := newWorld(t, namespace())
		w.listNamespace()
		end := w.refuse("namespaces", answer)
		if again := w.reconcile(w.manager()); again != time.Second {
			t.Errorf("checked again after %s", again)
		}
		if got, want := w.waits(1), "waiting for Namespace apps to be deleted, which failed: "+why; got != want {
			t.Errorf("the condition says %q, want %q", got, want)
		}
		w.clock.Step(20 * time.Second)
		writes := w.writes
		if again := w.reconcile(w.manager()); again != 20*time.Second || w.writes != writes || w.event() != "" {
			t.Errorf("checked again after %s, with %d writes", again, w.writes-writes)
		}
		w.clock.Step(maxWait)
		w.reconcile(w.manager())
		if event := w.event(); w.waits(1) != "deleted" || !strings.Contains(event, "its deletion failed: "+answer.Error()) {
			t.Errorf("after the wait the Inventory says %q, and the event %q", w.waits(1), event)
		}
		end()

		w = newWorld(t, namespace())
		w.listNamespace()
		end = w.refuse("namespaces", answer)
		w.reconcile(w.manager())
		end()
		w.clock.Step(time.Second)
		if w.reconcile(w.manager()); w.waits(1) != "deleted" || w.requests("delete", "namespaces") != 2 || w.event() != "" {
			t.Errorf("the Inventory says %q after %d deletions", w.waits(1), w.requests("delete", "namespaces"))
		}
	}
}

// TestADeletionThatFailsIsTriedAgainWhateverWasWaitedFor: what an Inventory has waited for before, such as an object with a finalizer, says nothing of
// a deletion, which would be given up after one failure.
func TestADeletionThatFailsIsTriedAgainWhateverWasWaitedFor(t *testing.T) {
	w := newWorld(t, namespace())
	w.listNamespace()
	meta.SetStatusCondition(&w.invs["inv-1"].Status.Conditions, metav1.Condition{
		Type: ConditionFinalizing, Status: metav1.ConditionTrue, Reason: ReasonWaitingForObjects, LastTransitionTime: metav1.NewTime(w.clock.Now().Add(-2 * maxWait)),
	})
	end := w.refuse("namespaces", conflict)
	if again := w.reconcile(w.manager()); again != time.Second {
		t.Errorf("checked again after %s", again)
	}
	end()
	w.clock.Step(time.Second)
	if w.reconcile(w.manager()); w.waits(1) != "deleted" || w.requests("delete", "namespaces") != 2 || w.event() != "" {
		t.Errorf("the Inventory says %q after %d deletions", w.waits(1), w.requests("delete", "namespaces"))
	}
}

// TestAWebhookThatStaysHoldsNothingUp: its deletion is refused, or fails for longer than anything is waited for.
func TestAWebhookThatStaysHoldsNothingUp(t *testing.T) {
	const resource = "validatingwebhookconfigurations"
	w := newWorld(t, webhook())
	w.refuse(resource, deniedByPolicy)
	if again := w.reconcile(w.manager()); again != 0 || w.waits(1) != "deleted" {
		t.Errorf("refused: checked again after %s, the last stage: %s", again, w.waits(1))
	}
	if event := w.event(); !strings.Contains(event, "this stays, since its deletion was refused") {
		t.Errorf("the event says %q", event)
	}

	w = newWorld(t, webhook())
	w.refuse(resource, failedWebhook)
	if again := w.reconcile(w.manager()); again != time.Second || !strings.Contains(w.waits(1), "ValidatingWebhookConfiguration hook to be deleted") {
		t.Errorf("failed: checked again after %s, the last stage: %s", again, w.waits(1))
	}
	if w.waits(0) != "" || isTrue(w.invs["inv-0"], ConditionWebhooksDeleted) {
		t.Error("the webhook counts as deleted")
	}
	w.clock.Step(maxWait)
	if w.reconcile(w.manager()); w.waits(1) != "deleted" {
		t.Errorf("failed: the last stage after the wait: %s", w.waits(1))
	}
	for range 2 {
		w.reconcile(w.manager())
	}
	if n := w.requests("delete", resource); n != 2 || len(w.invs) > 0 {
		t.Errorf("%d deletions, the Inventories at the end: %v", n, w.invs)
	}
}
