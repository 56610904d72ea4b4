package kserve

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// planned is what the controller makes of an element in a cluster, with the status that follows when all that it wants is there.
func planned(t *testing.T, cluster *controllertest.Cluster, cr *keeper.CompositionElement) plan.Plan {
	t.Helper()
	facts, err := system{}.Gather(t.Context(), cluster, cr)
	if err != nil {
		t.Fatal(err)
	}
	p := system{}.Render(cr, facts)
	system{}.Project(cr, facts, controller.ObservedState{Plan: p, Problems: p.Problems, Now: facts.Now, Waiting: "waiting"})
	return p
}

func names(p plan.Plan) string {
	var out []string
	for _, o := range p.Stages[0].Objects {
		out = append(out, o.Desired.GetNamespace()+"/"+o.Desired.GetName())
	}
	return strings.Join(out, " ")
}

// TestOrdersGoIntoLabelledNamespaces: whatever was ordered before, nothing is made in a namespace that takes no orders, and nothing
// that runs is taken away because it takes none any more.
func TestOrdersGoIntoLabelledNamespaces(t *testing.T) {
	in := func(namespace, name string) map[string]any {
		return declared(name, namespace, `{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","spec":{"predictor":{}}}`)
	}
	content := func(entities ...map[string]any) acm.Content {
		return acm.Content{Properties: properties(list(entities...))}
	}
	bad := acm.Content{Properties: properties(map[string]any{"a": 1})}
	success := &acm.Outcome{OrderID: "m1", States: acm.States{DeployState: acm.Deployed}}
	for _, c := range []struct {
		name                         string
		order                        acm.OrderType
		content                      acm.Content
		previous, candidate, runs    *acm.Content
		told                         *acm.Outcome
		want, problem, failure, says string
	}{
		{name: "a labelled one", order: acm.OrderDeploy, content: content(in("kserve-test", "a")), want: "kserve-test/a"},
		{
			name: "another one", order: acm.OrderDeploy, content: content(in("kserve-test", "a"), in("kube-system", "b")),
			problem: "Terminal NamespaceNotAllowed", failure: "kubectl label namespace kube-system keeper.mlkeeper.dev/compositions=allowed",
		},
		{
			name: "one that is absent", order: acm.OrderDeploy, content: content(in("kserve-test", "a"), in("absent", "b")),
			want: "kserve-test/a", problem: "Waiting NamespaceAbsent", says: "there is no such namespace",
		},
		{
			name: "of an update", order: acm.OrderUpdate, content: content(in("kube-system", "a")), previous: ptr(content(in("kserve-test", "a"))),
			want: "kserve-test/a", failure: "kube-system",
		},
		{
			name: "of an update of what was refused", order: acm.OrderUpdate, content: bad, previous: ptr(content(in("kube-system", "a"))),
			problem: "Terminal NamespaceNotAllowed", failure: "kserveInferenceEntities",
		},
		{
			name: "of a lock after a refusal", order: acm.OrderLock, content: content(in("kube-system", "a")), told: success,
			problem: "Terminal NamespaceNotAllowed",
		},
		{
			name: "of a review", order: acm.OrderReview, content: content(in("kserve-test", "a")), candidate: ptr(content(in("kube-system", "a"))),
			want: "kserve-test/a", failure: "kube-system",
		},
		{
			name: "that takes none any more", order: acm.OrderDeploy, content: content(in("withdrawn", "a")), told: success,
			runs: ptr(content(in("withdrawn", "a"))), want: "withdrawn/a",
		},
		{
			name: "that takes none any more, of an update", order: acm.OrderUpdate, content: content(in("withdrawn", "a"), in("withdrawn", "b")),
			previous: ptr(content(in("withdrawn", "a"))), runs: ptr(content(in("withdrawn", "a"))), want: "withdrawn/a", failure: "withdrawn",
		},
		{name: "of a message about the past", order: acm.NoOrder, content: content(in("kube-system", "a")), problem: "Terminal NamespaceNotAllowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := open(controllertest.New(noon.Add(time.Hour)))
			cluster.Put(namespace("kube-system", "true"))
			cluster.Put(namespace("withdrawn", ""))
			if c.runs != nil {
				run(t, cluster, *c.runs)
			}
			e := acm.Element{
				ID: elementID, InstanceID: instanceID, Present: true, Content: c.content, Previous: c.previous, Candidate: c.candidate,
			}
			if c.order != acm.NoOrder {
				e.Order = acm.Order{Type: c.order, ID: "m1", Time: noon}
			}
			if c.told != nil {
				c.told.Type = c.order
			}
			cr := resource(e, c.told)
			p := planned(t, cluster, cr)
			if got := names(p); got != c.want || controllertest.Reasons(p) != c.problem {
				t.Errorf("it makes %q, with problems %v", got, p.Problems)
			}
			failure := ""
			if cr.Status.Outcome != nil {
				failure = cr.Status.Outcome.Failure
			}
			if (failure == "") != (c.failure == "") || !strings.Contains(failure, c.failure) || !strings.Contains(cr.Status.OutProperties["message"], c.says) {
				t.Errorf("the failure is %q, told is %+v", failure, cr.Status.ElementCondition)
			}
		})
	}
}

func ptr(c acm.Content) *acm.Content { return &c }

// run has the services of a content run, as the engine writes them for the element.
func run(t *testing.T, cluster *controllertest.Cluster, c acm.Content) {
	t.Helper()
	made, problem := servicesOf(c)
	if problem != nil {
		t.Fatal(problem)
	}
	gvk := keeper.GroupVersion.WithKind("CompositionElement")
	stack := plan.Stack{Controller: ControllerName, GVK: gvk, Name: elementID}
	owner := plan.Owner{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: elementID}
	for _, one := range made {
		stamped, err := plan.Stamp(digest.Key{1}, plan.Object{Desired: one}, stack, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		cluster.Own(stamped.Desired.DeepCopy(), stack.ID())
	}
}

// TestTheNextOrderDoesNotBringWhatWasRefused: a service that runs goes on as it is when an order for it is refused, and no order after it
// takes the service for what was refused.
func TestTheNextOrderDoesNotBringWhatWasRefused(t *testing.T) {
	payload := func(spec string) acm.Content {
		return acm.Content{Properties: properties(list(declared("a", "kserve-test",
			`{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","spec":`+spec+`}`)))}
	}
	runs := payload(`{"predictor":{"minReplicas":1}}`)
	unreadable := acm.Content{Properties: properties(map[string]any{"a": 1})}
	success := &acm.Outcome{OrderID: "m1", States: acm.States{DeployState: acm.Deployed}}
	for name, refused := range map[string]acm.Content{
		"hostPath":       payload(`{"predictor":{"volumes":[{"name":"host","hostPath":{"path":"/"}}]}}`),
		"privileged":     payload(`{"predictor":{"containers":[{"name":"kserve-container","securityContext":{"privileged":true}}]}}`),
		"ServiceAccount": payload(`{"predictor":{"serviceAccountName":"admin"}}`),
	} {
		for _, c := range []struct {
			name              string
			order             acm.OrderType
			content, previous *acm.Content
			told              *acm.Outcome
		}{
			{name: "the order itself", order: acm.OrderDeploy, content: &refused},
			{name: "a lock", order: acm.OrderLock, content: &refused},
			{name: "a lock that has ended", order: acm.OrderLock, content: &refused, told: success},
			{name: "an unlock", order: acm.OrderUnlock, content: &refused},
			{name: "a review", order: acm.OrderReview, content: &refused},
			{name: "an update that cannot be read", order: acm.OrderUpdate, content: &unreadable, previous: &refused},
			{name: "an update that is refused", order: acm.OrderUpdate, content: &refused, previous: &refused},
			{name: "a message about the past", order: acm.NoOrder, content: &refused},
			{name: "a deployment that is said to have succeeded", order: acm.OrderDeploy, content: &refused, told: success},
		} {
			for label, orders := range map[string]string{"labelled": keeper.CompositionsAllowed, "withdrawn": ""} {
				t.Run(name+", "+c.name+", "+label, func(t *testing.T) {
					cluster := controllertest.New(noon.Add(time.Hour))
					cluster.Put(namespace("kserve-test", orders))
					run(t, cluster, runs)
					e := acm.Element{ID: elementID, InstanceID: instanceID, Present: true, Content: *c.content, Previous: c.previous}
					if c.order != acm.NoOrder {
						e.Order = acm.Order{Type: c.order, ID: "m1", Time: noon}
					}
					if c.told != nil {
						c.told.Type = c.order
					}
					p := planned(t, cluster, resource(e, c.told))
					if got := names(p); got != "" || len(p.Problems) == 0 {
						t.Errorf("%s is written, or what runs is pruned: problems %v", got, p.Problems)
					}
				})
			}
		}
	}
}

// TestAnElementThatRunsRefersToItsNamespace: of an object to which no custom resource refers nothing is kept, so that elements which
// referred to it before they run alone would have it read once for each of them.
func TestAnElementThatRunsRefersToItsNamespace(t *testing.T) {
	cr := resource(ordered(acm.OrderDeploy, list(declared("sklearn-iris", "kserve-test", iris))), nil)
	cluster := open(controllertest.New(noon.Add(time.Second)))
	facts, err := system{}.Gather(t.Context(), cluster, cr)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Own(service(facts.Services[0], true), "")
	cluster.Referred = nil
	cr = resource(ordered(acm.OrderDeploy, list(declared("sklearn-iris", "kserve-test", iris))), &acm.Outcome{
		OrderID: "m1", Type: acm.OrderDeploy, States: acm.States{DeployState: acm.Deployed},
	})
	if _, err := (system{}).Gather(t.Context(), cluster, cr); err != nil {
		t.Fatal(err)
	}
	if want := (plan.Key{GroupKind: gvkNamespace.GroupKind(), Name: "kserve-test"}); !slices.Contains(cluster.Referred, want) {
		t.Errorf("it refers to %v", cluster.Referred)
	}
}

// TestNothingIsAdoptedOnAMessagesWord: a service that somebody made becomes the element's by a mark on it alone.
func TestNothingIsAdoptedOnAMessagesWord(t *testing.T) {
	for mark, want := range map[string]string{"": "", "another": "", elementID: "kserve-test/sklearn-iris"} {
		for _, order := range []acm.OrderType{acm.NoOrder, acm.OrderLock, acm.OrderUnlock, acm.OrderReview, acm.OrderPrecheck} {
			e := ordered(order, list(declared("sklearn-iris", "kserve-test", iris)))
			e.Present, e.Known = true, acm.States{DeployState: "DEPLOYED", LockState: "LOCKED"}
			cluster := open(controllertest.New(noon))
			u := &unstructured.Unstructured{Object: object(iris)}
			u.SetAnnotations(map[string]string{keeper.ElementAnnotation: mark})
			cluster.Put(u)
			p := planned(t, cluster, resource(e, nil))
			if names(p) != want || want == "" && !strings.Contains(p.Problems[0].Remedy, keeper.ElementAnnotation+"="+elementID) {
				t.Errorf("%q after %q: it takes %q, with problems %v", mark, order, names(p), p.Problems)
			}
			if want != "" && (!p.Stages[0].Objects[0].Inherit || len(p.Problems) != 0) {
				t.Errorf("%q: it is %+v, with problems %v", mark, p.Stages[0].Objects[0], p.Problems)
			}
			cluster.Remove(plan.KeyOf(u))
			if p := planned(t, cluster, resource(e, nil)); names(p) != "kserve-test/sklearn-iris" || p.Stages[0].Objects[0].Inherit {
				t.Errorf("%q: what is gone is made anew as %q", mark, names(p))
			}
		}
	}
}
