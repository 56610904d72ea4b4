package faults

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// otherWriter is the field manager of another controller that writes a child whenever MLKeeper did.
const otherWriter = "other-controller"

// slowly is how long another controller that is not in a hurry takes.
const slowly = time.Second

// overwritableLabel is a label of the child that another controller can take without any other effect: one that is not MLKeeper's own mark. It is
// empty where there is none.
func overwritableLabel(u *unstructured.Unstructured) string {
	for _, f := range managed(u) {
		for key := range u.GetLabels() {
			if f.pointer == "/metadata/labels/"+pointer(key) && !strings.Contains(key, "mlkeeper.dev") {
				return key
			}
		}
	}
	return ""
}

// retake has another controller set a field back a second after each correction.
func (r *run) retake(u *unstructured.Unstructured) (func() error, error) {
	return r.overwrite(u, slowly)
}

// revert has another controller set a field back at once.
func (r *run) revert(u *unstructured.Unstructured) (func() error, error) { return r.overwrite(u, 0) }

// overwrite has another controller take a field whenever its value is not that controller's.
func (r *run) overwrite(u *unstructured.Unstructured, after time.Duration) (func() error, error) {
	label := overwritableLabel(u)
	if label == "" {
		return nil, errNoDrift
	}
	was := u.GetLabels()[label]
	set := func(value string) error {
		raw, err := json.Marshal([]jsonOp{{"replace", "/metadata/labels/" + pointer(label), value}})
		if err != nil {
			return err
		}
		return r.suite.cluster.Client.Patch(r.ctx, u.DeepCopy(), client.RawPatch(types.JSONPatchType, raw), client.FieldOwner(otherWriter))
	}
	const theirs = "theirs"
	stop := r.each(func(live *unstructured.Unstructured) error {
		if live.GetLabels()[label] == theirs || !r.pauseFor(after) {
			return nil
		}
		return set(theirs)
	})
	if err := set(theirs); err != nil {
		return nil, err
	}
	return func() error {
		stop()
		return set(was)
	}, nil
}

// keepRemoving has another client take a label out whenever it is there.
func (r *run) keepRemoving(u *unstructured.Unstructured) (func() error, error) {
	label := overwritableLabel(u)
	if label == "" {
		return nil, errNoDrift
	}
	return r.takeOut(label), nil
}

// keepEmptying has another client take the data out whenever there are some, so that nobody holds them. A Secret of the type kubernetes.io/tls must
// keep the keys, which it makes empty.
func (r *run) keepEmptying(u *unstructured.Unstructured) (func() error, error) {
	if !emptiable(u) {
		return nil, errNoDrift
	}
	return r.keepPatching(func(live *unstructured.Unstructured) (ops []jsonOp) {
		data, _, _ := unstructured.NestedStringMap(live.Object, "data")
		kind, _, _ := unstructured.NestedString(live.Object, "type")
		if kind != string(corev1.SecretTypeTLS) && len(data) > 0 {
			return []jsonOp{{Op: "remove", Path: "/data"}}
		}
		for key, value := range data {
			if value != "" {
				ops = append(ops, jsonOp{"replace", "/data/" + pointer(key), ""})
			}
		}
		return ops
	}), nil
}

// emptiable says that a Secret or ConfigMap has data that can be taken out.
func emptiable(u *unstructured.Unstructured) bool {
	immutable, _, _ := unstructured.NestedBool(u.Object, "immutable")
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	return !immutable && len(data) > 0
}

// keepUnmarking has another client take out a label by which MLKeeper finds the child. Its watches report the child as deleted then.
func (r *run) keepUnmarking(*unstructured.Unstructured) (func() error, error) {
	r.allowed[r.plan.Standing.Resource+"/"+r.plan.Standing.Name] = tally{endlessly, endlessly}
	return r.takeOut(keeper.StackLabel), nil
}

// takeOut has another client take out a label whenever it is there, until the returned function is called.
func (r *run) takeOut(label string) (end func() error) {
	return r.keepPatching(func(live *unstructured.Unstructured) []jsonOp {
		if _, there := live.GetLabels()[label]; !there {
			return nil
		}
		return []jsonOp{{Op: "remove", Path: "/metadata/labels/" + pointer(label)}}
	})
}

// keepPatching has another client patch the child after each of its changes, if there is anything to patch, until the returned function is called.
func (r *run) keepPatching(patch func(live *unstructured.Unstructured) []jsonOp) (end func() error) {
	stop := r.each(func(live *unstructured.Unstructured) error {
		ops := patch(live)
		if len(ops) == 0 {
			return nil
		}
		raw, err := json.Marshal(ops)
		if err != nil {
			return err
		}
		return r.suite.cluster.Client.Patch(r.ctx, live.DeepCopy(), client.RawPatch(types.JSONPatchType, raw), client.FieldOwner(otherWriter))
	})
	return func() error {
		stop()
		return nil
	}
}

// keepDeleting has another controller delete the child whenever it is there.
func (r *run) keepDeleting(u *unstructured.Unstructured) (func() error, error) {
	c := r.suite.cluster.Client
	r.allowed[r.plan.Standing.Resource+"/"+r.plan.Standing.Name] = tally{endlessly, endlessly}
	stop := r.each(func(live *unstructured.Unstructured) error {
		if live.GetDeletionTimestamp() != nil {
			return nil
		}
		uid := live.GetUID()
		return c.Delete(r.ctx, live.DeepCopy(), client.Preconditions{UID: &uid})
	})
	return func() error {
		stop()
		return nil
	}, client.IgnoreNotFound(c.Delete(r.ctx, u.DeepCopy()))
}

// endlessly is more often than anything happens in a run.
const endlessly = 1000

// each calls f for the child after each of its changes, until the returned function is called.
func (r *run) each(f func(*unstructured.Unstructured) error) (stop func()) {
	t := r.plan.Standing
	ctx, cancel := context.WithCancel(r.ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		last := ""
		for ctx.Err() == nil {
			if u := r.child(&Drift{Resource: t.Resource, Name: t.Name}); u != nil && u.GetResourceVersion() != last {
				last = u.GetResourceVersion()
				if err := f(u); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
					r.note("otherWriter: %v", err)
					last = ""
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(look):
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// pauseFor waits; it says whether the run goes on.
func (r *run) pauseFor(d time.Duration) bool {
	select {
	case <-r.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// zero is the quantity of nothing.
func zero() *resource.Quantity { return resource.NewQuantity(0, resource.DecimalSI) }
