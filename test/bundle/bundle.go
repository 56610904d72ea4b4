// Package bundle is a controller for tests: a custom resource whose spec lists, stage by stage, the very objects that the
// engine is to keep. The tests of the engine's invariants use it, so that they need no product's controller.
package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// GVK is the kind of the test's custom resource.
var GVK = schema.GroupVersionKind{Group: "test.mlkeeper.dev", Version: "v1", Kind: "Bundle"}

// CRD is the permissive definition of Bundle.
const CRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bundles.test.mlkeeper.dev}
spec:
  group: test.mlkeeper.dev
  scope: Namespaced
  names: {kind: Bundle, plural: bundles, singular: bundle, listKind: BundleList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// Object is one object of a stage, with the switches of plan.Object.
type Object struct {
	Retain bool `json:"retain,omitempty"`
	// Recreate allows the object to be deleted and made again for a field that cannot be changed.
	Recreate bool                  `json:"recreate,omitempty"`
	Optional bool                  `json:"optional,omitempty"`
	Manifest *runtime.RawExtension `json:"manifest"`
}

// Stage is one stage.
type Stage struct {
	Name           string   `json:"name"`
	WaitHealthy    bool     `json:"waitHealthy,omitempty"`
	TimeoutSeconds int      `json:"timeoutSeconds,omitempty"`
	Objects        []Object `json:"objects,omitempty"`
}

// Spec is what a Bundle declares.
type Spec struct {
	Stages []Stage `json:"stages,omitempty"`
	// Secret names a Secret of somebody else; the ConfigMaps of the bundle get its keys and a digest of its data, the Deployments the digest.
	Secret string `json:"secret,omitempty"`
	// DeletionPolicy is that of the bundle.
	DeletionPolicy keeper.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Problem, when set, is a terminal problem of the plan.
	Problem string `json:"problem,omitempty"`
	// Wire is a line that the bundle wants in every ConfigMap with WireLabel in its namespace.
	Wire string `json:"wire,omitempty"`
}

// Status is what the engine observed.
type Status struct {
	Conditions             []metav1.Condition       `json:"conditions,omitempty"`
	ObservedGeneration     int64                    `json:"observedGeneration,omitempty"`
	LastHandledReconcileAt string                   `json:"lastHandledReconcileAt,omitempty"`
	Inventory              keeper.ResourceInventory `json:"inventory,omitzero"`
	Skipped                []string                 `json:"skipped,omitempty"`
	Warnings               []string                 `json:"warnings,omitempty"`
}

// Bundle is the test's custom resource.
type Bundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec,omitempty"`
	Status            Status `json:"status,omitempty"`
}

// DeepCopyObject copies through JSON, which is enough for a test.
func (b *Bundle) DeepCopyObject() runtime.Object {
	raw, err := json.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("encode a Bundle: %v", err))
	}
	out := &Bundle{}
	if err := json.Unmarshal(raw, out); err != nil {
		panic(fmt.Sprintf("decode a Bundle: %v", err))
	}
	return out
}

// Facts are what the controller gathers.
type Facts struct {
	// Keys are the keys of the Secret that the spec names.
	Keys []string
	// Digest is a digest of its data.
	Digest string
}

// Definition describes Bundle to the engine. children are the kinds that the test will use, wires its wires.
func Definition(children []schema.GroupVersionKind, wires ...wiring.Wire) controller.Definition[*Bundle] {
	return controller.Definition[*Bundle]{
		Controller: "bundle", GVK: GVK, Resource: "bundles", New: func() *Bundle { return &Bundle{} }, Children: children, Wires: wires,
		StripFinalizers: []string{OriginalFinalizer},
		Rules: []controller.Rule{
			{
				Group: "rbac.authorization.k8s.io", Resources: []string{"clusterroles"}, Verbs: []string{"escalate"},
				Why: "The ClusterRoles of bundles grant what the operator need not hold.",
			},
		},
		Retained: []schema.GroupVersionKind{{Version: "v1", Kind: "PersistentVolumeClaim"}},
		Common: func(b *Bundle) controller.Common {
			return controller.Common{
				Conditions: &b.Status.Conditions, ObservedGeneration: &b.Status.ObservedGeneration,
				LastHandledReconcileAt: &b.Status.LastHandledReconcileAt, Inventory: &b.Status.Inventory,
			}
		},
	}
}

// OriginalFinalizer is the finalizer of the operator that the bundles had before.
const OriginalFinalizer = "original.test/finalizer"

// System is the controller. Its hooks let a test look into the loop.
type System struct {
	// OnRender is called at each render.
	OnRender func(*Bundle)
	// Source, when set, is asked at each render; its error is a source that is down.
	Source func() error
}

// Gather reads the Secret that the spec names.
func (s *System) Gather(ctx context.Context, read controller.Reader, b *Bundle) (Facts, error) {
	if b.Spec.Secret == "" {
		return Facts{}, nil
	}
	secret, err := read.Referenced(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, b.Namespace, b.Spec.Secret)
	if err != nil {
		return Facts{}, err
	}
	if secret == nil {
		return Facts{}, plan.Problem{
			Class: plan.Waiting, Reason: "SecretMissing", Field: "spec.secret", Value: b.Spec.Secret,
			Message: "the Secret does not exist", Remedy: "create it",
		}
	}
	data, _, err := unstructured.NestedMap(secret.Object, "data")
	return Facts{Keys: slices.Sorted(maps.Keys(data)), Digest: read.Digest(controller.SecretData(secret))}, err
}

// Render takes the objects as they are.
func (s *System) Render(b *Bundle, facts Facts) plan.Plan {
	if s.OnRender != nil {
		s.OnRender(b)
	}
	var out plan.Plan
	if s.Source != nil {
		if err := s.Source(); err != nil {
			return plan.Plan{Problems: []plan.Problem{{
				Class: plan.Blocked, Reason: "SourceUnavailable", Message: err.Error() + ": repair is suspended",
				Remedy: "bring the source back",
			}}}
		}
	}
	if b.Spec.Problem != "" {
		out.Problems = append(out.Problems, plan.Problem{
			Class: plan.Terminal, Reason: "BadInput", Field: "spec.problem", Value: b.Spec.Problem,
			Message: "is a problem", Remedy: "remove it",
		})
	}
	for _, stage := range b.Spec.Stages {
		st := plan.Stage{
			Name: stage.Name, WaitHealthy: stage.WaitHealthy, Timeout: time.Duration(stage.TimeoutSeconds) * time.Second,
		}
		for _, o := range stage.Objects {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(o.Manifest.Raw, &u.Object); err != nil {
				continue
			}
			if u.GetKind() == "ConfigMap" && len(facts.Keys) > 0 {
				_ = unstructured.SetNestedField(u.Object, fmt.Sprint(facts.Keys), "data", "keys")
				_ = unstructured.SetNestedField(u.Object, facts.Digest, "data", "digest")
			}
			if u.GetKind() == "Deployment" && len(facts.Keys) > 0 {
				_ = unstructured.SetNestedField(u.Object, facts.Digest, "spec", "template", "metadata", "annotations", "digest")
			}
			declared := plan.Object{Desired: u, Retain: o.Retain, Optional: o.Optional}
			if o.Recreate {
				declared.OnImmutable = plan.ImmutableRecreate
			}
			st.Objects = append(st.Objects, declared)
		}
		out.Stages = append(out.Stages, st)
	}
	out.SetDeletionPolicy(b.Spec.DeletionPolicy)
	return out
}

// Project tells what was left out.
func (s *System) Project(b *Bundle, _ Facts, seen controller.ObservedState) controller.Verdict {
	b.Status.Skipped, b.Status.Warnings = seen.Skipped, seen.Warnings
	return controller.Verdict{}
}
