// Package controllertest is a controller.Reader over objects in memory, for the unit tests of controllers.
package controllertest

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// Cluster is what a controller can read.
type Cluster struct {
	// Time is what Now returns.
	Time time.Time
	// DigestKey is the key of Digest.
	DigestKey digest.Key
	// APIs are the kinds that are served.
	APIs map[schema.GroupVersionKind]bool
	// ClusterScoped are the kinds that are in no namespace.
	ClusterScoped map[schema.GroupVersionKind]bool
	// Denied are the users that may read nothing.
	Denied map[string]bool
	// Others are the other custom resources of the namespace, Edited the targets by wire.
	Others []client.Object
	Edited map[string][]*unstructured.Unstructured
	// Answers are the answers of probes by name, Asked the names that were asked for, in order, and how often.
	Answers map[string]any
	Asked   []Asked
	// Referred are the objects of others that were referred to, in order.
	Referred []plan.Key

	// Objects are all objects there are, Children those of them that carry MLKeeper's marks.
	Objects, Children map[plan.Key]*unstructured.Unstructured
}

// Asked is one job.
type Asked struct {
	Name  string
	Every time.Duration
	Job   controller.Job
}

var _ controller.Reader = (*Cluster)(nil)

// New makes a cluster at a time that serves the kinds.
func New(now time.Time, served ...schema.GroupVersionKind) *Cluster {
	c := &Cluster{
		Time: now, APIs: map[schema.GroupVersionKind]bool{}, Edited: map[string][]*unstructured.Unstructured{},
		Answers: map[string]any{}, Objects: map[plan.Key]*unstructured.Unstructured{}, Children: map[plan.Key]*unstructured.Unstructured{},
	}
	for _, gvk := range served {
		c.APIs[gvk] = true
	}
	return c
}

// Put makes an object of somebody else.
func (c *Cluster) Put(u *unstructured.Unstructured) { c.Objects[plan.KeyOf(u)] = u }

// Remove takes an object away.
func (c *Cluster) Remove(key plan.Key) {
	delete(c.Objects, key)
	delete(c.Children, key)
}

// Own makes an object that MLKeeper wrote for the owner ("Kind.group/namespace/name"), which is seen both ways.
func (c *Cluster) Own(u *unstructured.Unstructured, owner string) {
	marks := u.GetAnnotations()
	if marks == nil {
		marks = map[string]string{}
	}
	marks[keeper.OwnerAnnotation] = owner
	u.SetAnnotations(marks)
	if u.GetUID() == "" {
		u.SetUID(types.UID("uid-" + u.GetName()))
	}
	if made := u.GetCreationTimestamp(); made.IsZero() {
		u.SetCreationTimestamp(metav1.NewTime(c.Time))
	}
	c.Objects[plan.KeyOf(u)], c.Children[plan.KeyOf(u)] = u, u
}

// Written takes the objects of a plan as written for the owner, but for those that are held.
func (c *Cluster) Written(p plan.Plan, owner string) {
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Hold != "" {
				continue
			}
			c.Own(o.Desired.DeepCopy(), owner)
		}
	}
}

// Get returns an object, or nil.
func (c *Cluster) Get(key plan.Key) *unstructured.Unstructured { return c.Objects[key] }

// Referenced implements controller.Reader.
func (c *Cluster) Referenced(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	key := plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}
	c.Referred = append(c.Referred, key)
	return c.Objects[key], nil
}

// ReferencedAs implements controller.Reader; a user in Denied may read nothing, and the operator may watch nothing if the empty user is.
func (c *Cluster) ReferencedAs(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	problem := plan.Problem{Class: plan.Blocked, Reason: "Forbidden", Field: gvk.Kind, Value: name}
	switch {
	case c.Denied[""]:
		return nil, problem
	case c.Denied[user]:
		return nil, controller.UserRefused{Problem: problem}
	}
	return c.Referenced(ctx, gvk, namespace, name)
}

// Child implements controller.Reader.
func (c *Cluster) Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object {
	if u := c.Children[plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}]; u != nil {
		return observe.From(u, true)
	}
	return nil
}

// Serves implements controller.Reader.
func (c *Cluster) Serves(gvk schema.GroupVersionKind) bool { return c.APIs[gvk] }

// Namespaced implements controller.Reader; every kind but those of ClusterScoped is in namespaces.
func (c *Cluster) Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool) {
	return !c.ClusterScoped[gvk], c.APIs[gvk]
}

// ServesVersion implements controller.Reader.
func (c *Cluster) ServesVersion(gv schema.GroupVersion) bool {
	for gvk, served := range c.APIs {
		if served && gvk.GroupVersion() == gv {
			return true
		}
	}
	return false
}

// Kinds implements controller.Reader.
func (c *Cluster) Kinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for gvk, served := range c.APIs {
		if served {
			out = append(out, gvk)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// KubernetesVersion implements controller.Reader.
func (c *Cluster) KubernetesVersion() string { return "v1.36.0" }

// Siblings implements controller.Reader.
func (c *Cluster) Siblings() []client.Object { return c.Others }

// Targets implements controller.Reader.
func (c *Cluster) Targets(wire, _ string) []*unstructured.Unstructured { return c.Edited[wire] }

// Background implements controller.Reader: it answers what Answers holds.
func (c *Cluster) Background(name string, every time.Duration, job controller.Job) any {
	c.Asked = append(c.Asked, Asked{name, every, job})
	return c.Answers[name]
}

// Render implements controller.Reader as Background does.
func (c *Cluster) Render(name string, every time.Duration, job controller.Job) any {
	return c.Background(name, every, job)
}

// Digest implements controller.Reader.
func (c *Cluster) Digest(secrets ...map[string][]byte) string { return c.DigestKey.Secrets(secrets...) }

// Now implements controller.Reader.
func (c *Cluster) Now() time.Time { return c.Time }
