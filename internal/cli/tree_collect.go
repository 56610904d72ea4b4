package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// stageMap says which stage each object belongs to.
type stageMap struct {
	names []string
	of    map[plan.Key]int
	// waits are the stages that must be healthy before the objects of a stage are created; nil where nothing was rendered.
	waits map[int][]int
	// planned are the objects of a rendered plan; nil where nothing was rendered.
	planned []ObjectStatus
	// settled says that the plan is the whole truth: it was rendered, and no problem stands in its way.
	settled bool
}

// treeOfOne is the tree of the custom resource that is meant.
func (r *resolver) treeOfOne(cmd *cobra.Command, env Environment, text, namespace string) (*TreeReport, error) {
	ctx := cmd.Context()
	s, err := r.find(ctx, text, namespace)
	if err != nil {
		return nil, err
	}
	if s.live == nil {
		return nil, absent(s)
	}
	if err := printOwner(cmd, s); err != nil {
		return nil, err
	}
	c := &collector{cluster: r.cluster, namespace: s.namespace, only: s}
	status, err := c.collect(ctx, []controller.Any{s.controller})
	if err != nil {
		return nil, err
	}
	stages := inventoryStages(c.inventories(ctx)[inventoryOwner(s.stack())])
	c.renderStages(ctx, env, s, &stages)
	out := &TreeReport{Stacks: []StackTree{grow(status.Stacks[0], stages)}, Warnings: []string{}}
	out.Warnings = append(out.Warnings, c.warnings...)
	return out, nil
}

// printOwner says which custom resource is shown where one of its objects was named.
func printOwner(cmd *cobra.Command, s *subject) error {
	if s.through == "" {
		return nil
	}
	return printLines(cmd.ErrOrStderr(), Clean(s.through+" belongs to "+s.key().String()))
}

// treeOfAll are the trees of every custom resource of a namespace, or of all. Stages are those of the Inventories, since
// rendering each would read what each refers to.
func (r *resolver) treeOfAll(ctx context.Context, namespace string) (*TreeReport, error) {
	c := &collector{cluster: r.cluster, namespace: namespace}
	inventories := c.inventories(ctx)
	status, err := c.collect(ctx, append(slices.Clone(r.controllers), r.strangers(inventories)...))
	if err != nil {
		return nil, err
	}
	out := &TreeReport{Stacks: []StackTree{}, Warnings: []string{}}
	for i := range status.Stacks {
		out.Stacks = append(out.Stacks, grow(status.Stacks[i], inventoryStages(inventories[ownerOfStatus(&status.Stacks[i])])))
	}
	out.Warnings = append(out.Warnings, c.warnings...)
	return out, nil
}

// strangers stand for the kinds that have Inventories and no controller in this binary.
func (r *resolver) strangers(inventories byOwner) []controller.Any {
	found := map[string]controller.Any{}
	for owner := range inventories {
		gk := schema.GroupKind{Group: owner.Group, Kind: owner.Kind}
		if r.isController(gk) {
			continue
		}
		if mapping, err := r.mapper().RESTMapping(gk); err == nil {
			found[gk.String()] = uncontrolled{mapping.GroupVersionKind}
		}
	}
	var out []controller.Any
	for _, kind := range sortedKeys(found) {
		out = append(out, found[kind])
	}
	return out
}

func ownerOfStatus(s *StackStatus) keeper.InventoryOwner {
	gv, _ := schema.ParseGroupVersion(s.APIVersion)
	return keeper.InventoryOwner{Group: gv.Group, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
}

// inventoryStages are the stages as the Inventories, which are in their order, record them. Those of earlier versions have no names.
func inventoryStages(all []keeper.Inventory) stageMap {
	out := stageMap{of: map[plan.Key]int{}}
	for i := range all {
		if spec := all[i].Spec; i == 0 || spec.Stage != all[i-1].Spec.Stage || spec.StageName != all[i-1].Spec.StageName {
			out.names = append(out.names, spec.StageName)
		}
		for _, e := range all[i].Spec.Entries {
			out.of[plan.KeyOfEntry(e)] = len(out.names) - 1
		}
	}
	return out
}

// renderStages adds the names of the stages, and what is declared. A custom resource that cannot be rendered, for want
// of a controller or of rights, is shown as it was recorded.
func (c *collector) renderStages(ctx context.Context, env Environment, s *subject, stages *stageMap) {
	w := &somewhere{cluster: c.cluster, now: env.Now(), context: s.namespace}
	t := &target{controller: s.controller, given: s.live, admitted: s.live.DeepCopy()}
	r, err := renderOne(ctx, w, t, []*target{t})
	if err != nil {
		if _, unknown := s.controller.(uncontrolled); !unknown {
			c.warn("it could not be rendered, so stages have no names, and objects that are not created yet are not shown: %v", err)
		}
		return
	}
	if len(r.plan.Stages) == 0 {
		return
	}
	stages.names = stages.names[:0]
	stages.settled = len(r.plan.Problems) == 0
	stages.waits = waitsOf(r.plan.Stages)
	for i, stage := range r.plan.Stages {
		stages.names = append(stages.names, stage.Name)
		for _, o := range stage.Objects {
			stages.of[o.Key()] = i
			planned := ObjectStatus{
				APIVersion: o.Desired.GetAPIVersion(), Kind: o.Desired.GetKind(), Namespace: o.Desired.GetNamespace(),
				Name: o.Desired.GetName(), Health: healthNotCreated, Reason: "NotCreated",
				Message: "It is declared, and MLKeeper has not created it yet.",
			}
			if api, skipped := r.skipped[o.Key()]; skipped {
				planned.Health, planned.Reason = healthSkipped, "APINotServed"
				planned.Message = fmt.Sprintf("It is optional, and the cluster does not serve %s.", api)
			}
			stages.planned = append(stages.planned, planned)
		}
	}
}

// waitsOf says which stages must be healthy before the objects of a stage are created: those that it names, and the latest before it that
// holds back all later ones.
func waitsOf(stages []plan.Stage) map[int][]int {
	out, gate := map[int][]int{}, -1
	for i := range stages {
		if gate >= 0 {
			out[i] = append(out[i], gate)
		}
		for j := range stages[:i] {
			if j != gate && slices.Contains(stages[i].After, stages[j].Name) {
				out[i] = append(out[i], j)
			}
		}
		if stages[i].WaitHealthy {
			gate = i
		}
	}
	return out
}

// grow puts the objects of a custom resource into its stages.
func grow(s StackStatus, stages stageMap) StackTree {
	objects := slices.Clone(s.Objects)
	there := map[plan.Key]bool{}
	for i := range objects {
		there[objects[i].key()] = true
	}
	for _, p := range stages.planned {
		if !there[p.key()] {
			objects = append(objects, p)
		}
	}
	slices.SortStableFunc(objects, func(a, b ObjectStatus) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.Objects = nil
	out := StackTree{StackStatus: s, Stages: []StageTree{}}
	for i, name := range stages.names {
		out.Stages = append(out.Stages, StageTree{Stage: i, Name: name, Objects: []ObjectStatus{}})
	}
	rest := StageTree{Stage: -1}
	if stages.settled {
		rest.Name = "to be pruned"
	}
	for _, o := range objects {
		if i, found := stages.of[o.key()]; found && i < len(out.Stages) {
			out.Stages[i].Objects = append(out.Stages[i].Objects, o)
		} else {
			rest.Objects = append(rest.Objects, o)
		}
	}
	if len(rest.Objects) > 0 {
		out.Stages = append(out.Stages, rest)
	}
	return out
}

// key is the identity of the object.
func (o *ObjectStatus) key() plan.Key {
	gv, _ := schema.ParseGroupVersion(o.APIVersion)
	return plan.Key{GroupKind: schema.GroupKind{Group: gv.Group, Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}
}
