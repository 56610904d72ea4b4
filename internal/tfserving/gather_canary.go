package tfserving

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// canary gathers what is known of the canary track, whose servers are asked as those of the stable one, and decides about it.
func (g *gathering) canary() {
	spec := g.cr.Spec.Canary
	t := &gathering{settings: g.settings, hosts: g.hosts, rolls: g.rolls, read: g.read, cr: g.cr, of: canaryTrack(g.of), track: "canary: "}
	if spec == nil {
		t.ask(nil)
		t.failures()
		return
	}
	t.cr, t.facts = canaryOf(g.cr), g.facts
	f := &t.facts
	f.Problems, f.Running, f.Ports, f.Answer, f.Failure, f.ConfigText, f.ConfigOwn = nil, nil, nil, nil, nil, "", true
	pinned, found := g.facts.Config.Pinned(spec.Model, spec.Version)
	if f.Config = pinned; found {
		f.ConfigText, f.Serving = pinned.String(), pinned
	}
	servers, service := g.own(gvkDeployment, t.cr.Name), g.own(gvkService, serviceName(t.cr))
	if servers != nil && spec.State != v1alpha1.CanaryAborted {
		t.running()
	}
	recorded := ""
	switch marks := service.Stripped(); {
	case marks != nil:
		recorded = marks.GetAnnotations()[availableAnnotation]
	case f.Running != nil:
		f.Running.Ready = 0 // Nobody reaches them.
	}
	t.ask([]wanted{{name: spec.Model, listed: []int64{spec.Version}, labelled: []int64{spec.Version}}})
	t.failures()
	c := decideCanary(g.cr, g.facts, t.facts, recorded)
	g.facts.Canary = &c
}

// own is an object under a name of the canary track, unless it is being deleted.
func (g *gathering) own(gvk schema.GroupVersionKind, name string) *observe.Object {
	child := g.there(gvk, name)
	if child == nil || child.Terminating() {
		return nil
	}
	return child
}

// there is an object under a name, unless it is somebody else's: another Tfserv may have the name of the canary track.
func (g *gathering) there(gvk schema.GroupVersionKind, name string) *observe.Object {
	child := g.read.Child(gvk, g.cr.Namespace, name)
	if child == nil {
		return nil
	}
	stack := plan.Stack{GVK: v1alpha1.GroupVersion.WithKind("Tfserv"), Namespace: g.cr.Namespace, Name: g.cr.Name}
	ref := metav1.GetControllerOfNoCopy(&child.ObjectMeta)
	if child.Annotations[keeper.OwnerAnnotation] != stack.ID() || ref != nil && ref.UID != g.cr.UID {
		return nil
	}
	return child
}
