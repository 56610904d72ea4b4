package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/shard"
)

var (
	podKind    = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	eventKind  = schema.GroupVersionKind{Version: "v1", Kind: "Event"}
	volumeKind = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}
	leaseKind  = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
)

const (
	// maxClues bounds a paragraph: what comes later mostly follows from what comes first.
	maxClues = 3
	// leaseName begins the names of the leases of the leader and of the other shards.
	leaseName = "mlkeeper"
	leaseEnd  = "keeper.mlkeeper.dev"
)

// clue is what one object tells of why the custom resource is not Ready.
type clue struct {
	text, remedy string
	// weight orders clues: causes come before what follows from them.
	weight int
}

// detective reads what the objects of a custom resource, their pods and their events tell. What it may not read it does
// without.
type detective struct {
	*cluster
	now time.Time
}

// clues are those of the objects that are not healthy, causes first.
func (d *detective) clues(
	ctx context.Context, status *StackStatus, whole map[plan.Key]*unstructured.Unstructured,
) []clue {
	var out []clue
	for i := range status.Objects {
		o := &status.Objects[i]
		if o.Health == string(health.Current) {
			continue
		}
		out = append(out, d.of(ctx, status, o, whole[o.key()]))
	}
	slices.SortStableFunc(out, func(a, b clue) int { return cmp.Compare(a.weight, b.weight) })
	if len(out) > maxClues {
		rest := len(out) - maxClues
		out = append(out[:maxClues:maxClues], clue{text: fmt.Sprintf("%d more of its objects are not healthy; `mlkeeper tree` shows them.", rest)})
	}
	return out
}

// of asks one object, and what stands behind it.
func (d *detective) of(ctx context.Context, status *StackStatus, o *ObjectStatus, live *unstructured.Unstructured) clue {
	name := o.Kind + " " + o.Name
	if o.Namespace != status.Namespace && o.Namespace != "" {
		name = o.Kind + " " + o.Namespace + "/" + o.Name
	}
	out := clue{text: name + " is " + healthText(o.Health) + ": " + sentence(o.Message), remedy: objectAdvice[o.Reason], weight: 3}
	if live == nil {
		out.weight = 2
		return out
	}
	if o.Health == string(health.Terminating) {
		if held := live.GetFinalizers(); len(held) > 0 {
			out.text += " Its finalizers " + strings.Join(held, ", ") + " delay the deletion."
		}
		return out
	}
	switch o.Kind {
	case "PersistentVolumeClaim":
		d.claim(ctx, &out, live)
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
		d.pods(ctx, &out, live)
	default:
		d.warning(ctx, &out, live)
	}
	return out
}

func healthText(status string) string {
	switch status {
	case string(health.InProgress):
		return "not ready"
	case string(health.Terminating):
		return "being deleted"
	}
	return strings.ToLower(status)
}

// claim tells which volume a claim waits for.
func (d *detective) claim(ctx context.Context, out *clue, live *unstructured.Unstructured) {
	// A pod waits for its claim, so the claim is the cause.
	out.weight = 0
	wanted, _, _ := unstructured.NestedString(live.Object, "spec", "volumeName")
	if wanted == "" {
		d.warning(ctx, out, live)
		return
	}
	volume, err := d.get(ctx, volumeKind, "", wanted)
	switch {
	case apierrors.IsNotFound(err):
		out.text += fmt.Sprintf(" It requests the PersistentVolume %s, which does not exist.", wanted)
		out.remedy = "Create the PersistentVolume " + wanted + "."
	case err == nil:
		phase, _, _ := unstructured.NestedString(volume.Object, "status", "phase")
		out.text += fmt.Sprintf(" It requests the PersistentVolume %s, which is %s", wanted, cmp.Or(phase, "in no phase yet"))
		owner, _, _ := unstructured.NestedString(volume.Object, "spec", "claimRef", "name")
		if space, _, _ := unstructured.NestedString(volume.Object, "spec", "claimRef", "namespace"); owner != "" &&
			(owner != live.GetName() || space != live.GetNamespace()) {
			out.text += fmt.Sprintf(" and belongs to the claim %s/%s", space, owner)
			out.remedy = "Free the PersistentVolume " + wanted + ", or use another one."
		}
		out.text += "."
	}
}

// pods tells why the pods of a workload are not ready; where there are none, why none is made.
func (d *detective) pods(ctx context.Context, out *clue, live *unstructured.Unstructured) {
	out.weight = 1
	raw, found, _ := unstructured.NestedMap(live.Object, "spec", "selector")
	var selector metav1.LabelSelector
	if !found || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector) != nil {
		return
	}
	match, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || match.Empty() {
		return
	}
	pods, err := d.selected(ctx, live.GetNamespace(), match)
	if err != nil {
		return
	}
	if len(pods) == 0 {
		out.text += " It has no pods."
		d.warning(ctx, out, live)
		return
	}
	for _, pod := range pods {
		result := health.Of(pod)
		if result.Status == health.Current || result.Status == health.Terminating {
			continue
		}
		out.text += fmt.Sprintf(" Its pod %s: %s", pod.GetName(), sentence(result.Message))
		if detail := podDetail(pod); detail != "" {
			out.text += " It says: " + sentence(detail)
		}
		if remedy := objectAdvice[result.Reason]; remedy != "" {
			out.remedy = remedy
		}
		if d.warning(ctx, out, pod); result.Status == health.Failed {
			// Nothing else of the workload helps as long as this pod cannot run.
			return
		}
		break
	}
}

// podDetail is the kubelet's or the scheduler's own text on a pod.
func podDetail(pod *unstructured.Unstructured) string {
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		containers, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, item := range containers {
			container, _ := item.(map[string]any)
			for _, state := range []string{"waiting", "terminated"} {
				if text, _, _ := unstructured.NestedString(container, "state", state, "message"); text != "" {
					return cut(text, 300)
				}
			}
		}
	}
	if c, found := conditionsOf(pod)["PodScheduled"]; found && c.Status == metav1.ConditionFalse {
		return cut(c.Message, 300)
	}
	return ""
}

// warning adds the latest warning event about an object that says something new.
func (d *detective) warning(ctx context.Context, out *clue, live *unstructured.Unstructured) {
	mapping, err := d.lookup(eventKind)
	if err != nil || mapping == nil {
		return
	}
	all, err := d.list(ctx, mapping, live.GetNamespace(), metav1.ListOptions{
		FieldSelector: "type=Warning,involvedObject.uid=" + string(live.GetUID()),
	})
	if err != nil {
		return
	}
	text, reason, latest := "", "", time.Time{}
	for _, event := range all {
		uid, _, _ := unstructured.NestedString(event.Object, "involvedObject", "uid")
		kind, _, _ := unstructured.NestedString(event.Object, "type")
		if uid != string(live.GetUID()) || kind != "Warning" {
			continue
		}
		if at := eventTime(event); text == "" || at.After(latest) {
			text, _, _ = unstructured.NestedString(event.Object, "message")
			reason, _, _ = unstructured.NestedString(event.Object, "reason")
			latest = at
		}
	}
	if text == "" || strings.Contains(out.text, text) {
		return
	}
	ago := ""
	if !latest.IsZero() {
		ago = " " + duration.HumanDuration(d.now.Sub(latest)) + " ago"
	}
	out.text += fmt.Sprintf(" Event%s (%s): %s", ago, reason, sentence(cut(text, 300)))
	if out.remedy == "" {
		out.remedy = objectAdvice[reason]
	}
}

// eventTime is when an event was seen last, in whichever field its writer put it.
func eventTime(event *unstructured.Unstructured) time.Time {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}} {
		text, _, _ := unstructured.NestedString(event.Object, path...)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at
		}
	}
	return event.GetCreationTimestamp().Time
}

// managers tells of the leases of managers, so that a custom resource which nobody looked at is told from one whose
// manager has its hands full.
func (d *detective) managers(ctx context.Context) []string {
	mapping, err := d.lookup(leaseKind)
	if err != nil || mapping == nil {
		return nil
	}
	all, err := d.list(ctx, mapping, "", metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for _, lease := range all {
		if !strings.HasPrefix(lease.GetName(), leaseName) || !strings.HasSuffix(lease.GetName(), leaseEnd) || shard.IsMemberLease(lease.GetName()) {
			continue
		}
		holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
		text, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
		at, err := time.Parse(time.RFC3339, text)
		switch {
		case holder == "":
			out = append(out, fmt.Sprintf("The lease %s/%s has no holder: no manager reconciles its shard.", lease.GetNamespace(), lease.GetName()))
		case err == nil:
			out = append(out, fmt.Sprintf("The manager %s renewed the lease %s/%s %s ago.", holder, lease.GetNamespace(),
				lease.GetName(), duration.HumanDuration(d.now.Sub(at))))
		}
	}
	if len(out) == 0 {
		out = append(out, "There is no lease of a manager; a manager without --leader-elect has none.")
	}
	return out
}

func (d *detective) get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	mapping, err := d.lookup(gvk)
	if err != nil {
		return nil, err
	}
	if mapping == nil {
		return nil, fmt.Errorf("the cluster does not serve %s", gvk)
	}
	return d.resource(mapping, namespace).Get(ctx, name, metav1.GetOptions{})
}

func (d *detective) selected(ctx context.Context, namespace string, match labels.Selector) ([]*unstructured.Unstructured, error) {
	mapping, err := d.lookup(podKind)
	if err != nil || mapping == nil {
		return nil, err
	}
	return d.list(ctx, mapping, namespace, metav1.ListOptions{LabelSelector: match.String()})
}
