package kserve

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// Facts are all that rendering needs.
type Facts struct {
	Element acm.Element
	// Outcome is how the order ended, as it is told in status; nil while it is being carried out.
	Outcome *acm.Outcome
	// Services are those that should run. Refused says why the order cannot be carried out as it was given; the services are
	// then those of before, for an update or a migration, and none for a deployment.
	Services []*unstructured.Unstructured
	Refused  *plan.Problem
	// Unknown says that what is refused is what should run, and not what is prepared: then it is not known what should not run.
	Unknown bool
	// GoesBack says that an update or a migration has failed, so that what ran before runs on.
	GoesBack bool
	// Held is why some services are left out: their namespace is absent, or takes no orders, or they are somebody else's.
	Held *plan.Problem
	// HandedOver are the services of somebody else that were handed over to the element.
	HandedOver map[plan.Key]bool
	// Rollouts are what KServe made of the services, by namespace, while an order waits for them alone.
	Rollouts map[string]*workloads
	// Deadline is when the runtime is told what an order waits for that is not carried out yet; zero without an order.
	Deadline time.Time
	// SlowFrom is when what an order waits for alone is asked for with growing pauses: the element may allow it hours.
	SlowFrom time.Time
	Now      time.Time
}

// Gather reads the order, and whether it may go where it says.
func (system) Gather(ctx context.Context, read controller.Reader, cr *keeper.CompositionElement) (Facts, error) {
	e, err := element(ctx, read, cr)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{Element: e, Now: read.Now()}
	if told := cr.Status.Outcome; told != nil {
		outcome := record.Outcome(*told)
		if outcome.OrderID == e.Order.ID && outcome.Type == e.Order.Type {
			facts.Outcome = &outcome
		}
	}
	if cr.Spec.Order != nil {
		took := timeout(e)
		facts.Deadline, facts.SlowFrom = cr.Spec.Order.Received.Add(took), cr.Spec.Order.Received.Add(min(took, defaultTimeout))
	}
	if e.Candidate != nil {
		candidates, refused := servicesOf(*e.Candidate)
		_, held, err := admit(ctx, read, candidates, nil)
		if err != nil {
			return facts, err
		}
		if facts.Refused = refused; held != nil && held.Class == plan.Terminal {
			facts.Refused = held
		}
	}
	if !e.Present {
		return facts, nil
	}
	if err := facts.settle(ctx, read, standing(read, cr)); err != nil {
		return facts, err
	}
	facts.Rollouts = facts.rollouts(read)
	return facts, facts.handOver(ctx, read)
}

// element reads an element with its properties. One whose services are to be removed needs none, so that it is removed without them, too.
func element(ctx context.Context, read controller.Reader, cr *keeper.CompositionElement) (acm.Element, error) {
	e, err := record.Element(cr, func(ref keeper.PayloadReference) ([]byte, error) { return payload(ctx, read, cr.Name, ref) })
	if err != nil && !cr.Spec.Exists && cr.Spec.PendingContent == nil {
		return record.Element(cr, nil)
	}
	return e, err
}

// payload reads what the participant keeps of an element in a Secret.
func payload(ctx context.Context, read controller.Reader, id string, ref keeper.PayloadReference) ([]byte, error) {
	secret, err := read.Referenced(ctx, gvkSecret, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	problem := plan.Problem{
		Class: plan.Waiting, Reason: reasonPayloadNotFound, Field: "spec", Value: ref.Namespace + "/" + ref.Name,
		Message: "there is no Secret with what was ordered", Remedy: "give the order again; what runs stays as it is until then",
	}
	if secret == nil {
		return nil, problem
	}
	out, err := record.Payload(secret, controller.SecretData(secret), record.PayloadOf("CompositionElement", id))
	if err != nil {
		problem.Message = "the Secret with what was ordered cannot be used: " + err.Error()
		return nil, problem
	}
	return out, nil
}

// settle finds the services that should run.
func (f *Facts) settle(ctx context.Context, read controller.Reader, stands func(*unstructured.Unstructured) bool) error {
	services, refused := servicesOf(f.Element.Content)
	open := f.rollsOut() && (f.Outcome == nil || f.Outcome.Failure != "")
	already := stands
	if open {
		already = nil
	}
	var err error
	if f.Services, f.Held, err = admit(ctx, read, services, already); err != nil {
		return err
	}
	if open && f.Held != nil && f.Held.Class == plan.Terminal {
		refused, f.Services, f.Held = f.Held, nil, nil
	}
	if refused != nil {
		f.Refused, f.Unknown = refused, true
	}
	if before := f.before(); before != nil {
		f.GoesBack = true
		f.Services, f.Held, err = admit(ctx, read, before, stands)
	}
	return err
}

// before are the services that ran before an update or a migration that has failed; nil where none has, or where the record of what ran
// before has no services that can be read: then nothing is known to go back to, and what runs stays.
func (f Facts) before() []*unstructured.Unstructured {
	if f.Element.Previous == nil || !f.Unknown && (f.Outcome == nil || f.Outcome.Failure == "") {
		return nil
	}
	services, _ := servicesOf(*f.Element.Previous)
	return services
}

// servicesOf reads the services of one content.
func servicesOf(c acm.Content) ([]*unstructured.Unstructured, *plan.Problem) {
	services, err := services(c.Effective())
	var problem plan.Problem
	switch {
	case errors.As(err, &problem):
		return nil, &problem
	case err != nil:
		return nil, &plan.Problem{
			Class: plan.Terminal, Reason: reasonInvalidProperties, Message: err.Error(), Remedy: "correct the properties",
		}
	}
	return services, nil
}

// defaultTimeout is how long an order may take whose element says nothing, that of the original (uninitializedToPassiveTimeout).
const defaultTimeout = 60 * time.Second

// timeout is how long the order of an element may take: what the runtime itself waits for by the properties of the element, else
// what the definition says.
func timeout(e acm.Element) time.Duration {
	properties := e.Content.Effective()
	if d := properties.Millis(map[acm.OrderType]string{
		acm.OrderDeploy: "deployTimeoutMs", acm.OrderUndeploy: "undeployTimeoutMs", acm.OrderDelete: "deleteTimeoutMs",
		acm.OrderUpdate: "updateTimeoutMs", acm.OrderMigrate: "migrateTimeoutMs",
	}[e.Order.Type]); d > 0 {
		return d
	}
	if d := properties.Seconds("uninitializedToPassiveTimeout"); d > 0 {
		return d
	}
	return defaultTimeout
}
