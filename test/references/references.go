package references

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Missing is one reference that resolves to nothing.
type Missing struct {
	// Workload is the kind, namespace and name of the object whose pods do not start, such as "Deployment kubeflow/ml-pipeline".
	Workload string
	// Field is where in its pods the reference is.
	Field string
	// To is what is missing, such as "Secret kubeflow/mysql-secret" or "key password of Secret kubeflow/mysql-secret".
	To string
}

// String prints the reference for people.
func (m Missing) String() string {
	return m.Workload + ": " + m.Field + " refers to the missing " + m.To
}

// Resolve fails the test for every reference of a workload in the cluster that resolves to nothing. atRunTime lists what is
// made by something that does not run in the test, each with the reason.
func Resolve(t testing.TB, c client.Client, atRunTime map[string]string) {
	t.Helper()
	objects, err := Read(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Problems(objects, atRunTime) {
		t.Error(p)
	}
}

// Problems are the references that resolve to none of the objects and are not in the list, and the entries of the list that no
// longer describe a missing object, so that the list stays as short as it may be.
func Problems(objects []client.Object, atRunTime map[string]string) []string {
	var out []string
	used := map[string]bool{}
	missing, _ := Check(objects)
	for _, m := range missing {
		used[m.To] = true
		if atRunTime[m.To] == "" {
			out = append(out, m.String())
		}
	}
	for to, reason := range atRunTime {
		if !used[to] {
			out = append(out, fmt.Sprintf("nothing refers to a missing %s any more: take it off the list of what is made at run time (%s)", to, reason))
		}
	}
	return out
}

// Read returns the objects of a cluster that Check looks at, as the API server has stored them.
func Read(ctx context.Context, c client.Client, opts ...client.ListOption) ([]client.Object, error) {
	var out []client.Object
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &appsv1.ReplicaSetList{},
		&batchv1.JobList{}, &batchv1.CronJobList{}, &corev1.PodList{},
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceAccountList{},
	} {
		if err := c.List(ctx, list, opts...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		out = append(out, items(list)...)
	}
	return out, nil
}

// items are the elements of a list of one of the kinds that Read asks for.
func items(list client.ObjectList) []client.Object {
	switch l := list.(type) {
	case *appsv1.DeploymentList:
		return pointers(l.Items, func(o *appsv1.Deployment) client.Object { return o })
	case *appsv1.StatefulSetList:
		return pointers(l.Items, func(o *appsv1.StatefulSet) client.Object { return o })
	case *appsv1.DaemonSetList:
		return pointers(l.Items, func(o *appsv1.DaemonSet) client.Object { return o })
	case *appsv1.ReplicaSetList:
		return pointers(l.Items, func(o *appsv1.ReplicaSet) client.Object { return o })
	case *batchv1.JobList:
		return pointers(l.Items, func(o *batchv1.Job) client.Object { return o })
	case *batchv1.CronJobList:
		return pointers(l.Items, func(o *batchv1.CronJob) client.Object { return o })
	case *corev1.PodList:
		return pointers(l.Items, func(o *corev1.Pod) client.Object { return o })
	case *corev1.SecretList:
		return pointers(l.Items, func(o *corev1.Secret) client.Object { return o })
	case *corev1.ConfigMapList:
		return pointers(l.Items, func(o *corev1.ConfigMap) client.Object { return o })
	case *corev1.PersistentVolumeClaimList:
		return pointers(l.Items, func(o *corev1.PersistentVolumeClaim) client.Object { return o })
	case *corev1.ServiceAccountList:
		return pointers(l.Items, func(o *corev1.ServiceAccount) client.Object { return o })
	}
	return nil
}

func pointers[T any](of []T, object func(*T) client.Object) []client.Object {
	out := make([]client.Object, len(of))
	for i := range of {
		out[i] = object(&of[i])
	}
	return out
}

// Check follows the references of the workloads among the objects. It returns those that resolve to none of the objects, and
// how many it has followed.
func Check(objects []client.Object) (missing []Missing, followed int) {
	have, workloads := index{keys: map[object][]string{}}, map[types.UID]bool{}
	for _, o := range objects {
		have.add(o)
		if _, spec, _ := podsOf(o); spec != nil && o.GetUID() != "" {
			workloads[o.GetUID()] = true
		}
	}
	for _, o := range objects {
		kind, spec, own := podsOf(o)
		if spec == nil {
			continue
		}
		// What another workload made has the references of that one.
		if ref := metav1.GetControllerOf(o); ref != nil && workloads[ref.UID] {
			continue
		}
		r := resolver{have: have, namespace: o.GetNamespace(), workload: kind + " " + o.GetNamespace() + "/" + o.GetName()}
		r.pod(spec, own)
		missing, followed = append(missing, r.missing...), followed+r.followed
	}
	return missing, followed
}

// podsOf is the kind of a workload with the spec of its pods, and the volumes that a StatefulSet gives them by itself.
func podsOf(o client.Object) (kind string, spec *corev1.PodSpec, own []string) {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return "Deployment", &w.Spec.Template.Spec, nil
	case *appsv1.StatefulSet:
		for i := range w.Spec.VolumeClaimTemplates {
			own = append(own, w.Spec.VolumeClaimTemplates[i].Name)
		}
		return "StatefulSet", &w.Spec.Template.Spec, own
	case *appsv1.DaemonSet:
		return "DaemonSet", &w.Spec.Template.Spec, nil
	case *appsv1.ReplicaSet:
		return "ReplicaSet", &w.Spec.Template.Spec, nil
	case *batchv1.Job:
		return "Job", &w.Spec.Template.Spec, nil
	case *batchv1.CronJob:
		return "CronJob", &w.Spec.JobTemplate.Spec.Template.Spec, nil
	case *corev1.Pod:
		return "Pod", &w.Spec, nil
	}
	return "", nil, nil
}

// object is the identity of something that is referred to.
type object struct {
	kind string
	types.NamespacedName
}

// index holds what can be referred to, with the keys of its data.
type index struct{ keys map[object][]string }

func (x index) add(o client.Object) {
	var kind string
	var keys []string
	switch v := o.(type) {
	case *corev1.Secret:
		kind = "Secret"
		for k := range v.Data {
			keys = append(keys, k)
		}
	case *corev1.ConfigMap:
		kind = "ConfigMap"
		for k := range v.Data {
			keys = append(keys, k)
		}
		for k := range v.BinaryData {
			keys = append(keys, k)
		}
	case *corev1.PersistentVolumeClaim:
		kind = "PersistentVolumeClaim"
	case *corev1.ServiceAccount:
		kind = "ServiceAccount"
	default:
		return
	}
	x.keys[object{kind, client.ObjectKeyFromObject(o)}] = keys
}

// resolver looks up the references of one workload.
type resolver struct {
	have                index
	namespace, workload string
	missing             []Missing
	followed            int
}

// needs looks up an object and some of its keys. A kubelet does without what is optional.
func (r *resolver) needs(field, kind, name string, optional *bool, keys ...string) {
	if optional != nil && *optional {
		return
	}
	r.followed++
	o := object{kind, types.NamespacedName{Namespace: r.namespace, Name: name}}
	text := kind + " " + o.String()
	there, ok := r.have.keys[o]
	if !ok {
		r.missing = append(r.missing, Missing{r.workload, field, text})
		return
	}
	for _, key := range keys {
		if !slices.Contains(there, key) {
			r.missing = append(r.missing, Missing{r.workload, field, "key " + key + " of " + text})
		}
	}
}

// String is the namespace and name.
func (o object) String() string { return o.NamespacedName.String() }

func (r *resolver) pod(spec *corev1.PodSpec, own []string) {
	if spec.ServiceAccountName != "" {
		r.needs("serviceAccountName", "ServiceAccount", spec.ServiceAccountName, nil)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		r.environment("initContainers["+c.Name+"]", c.Env, c.EnvFrom)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		r.environment("containers["+c.Name+"]", c.Env, c.EnvFrom)
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; !slices.Contains(own, v.Name) {
			r.volume("volumes["+v.Name+"]", v)
		}
	}
}

func (r *resolver) environment(field string, env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			r.needs(field+".env["+e.Name+"]", "Secret", ref.Name, ref.Optional, ref.Key)
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.needs(field+".env["+e.Name+"]", "ConfigMap", ref.Name, ref.Optional, ref.Key)
		}
	}
	for i, e := range from {
		at := fmt.Sprintf("%s.envFrom[%d]", field, i)
		if e.SecretRef != nil {
			r.needs(at, "Secret", e.SecretRef.Name, e.SecretRef.Optional)
		}
		if e.ConfigMapRef != nil {
			r.needs(at, "ConfigMap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
	}
}

func (r *resolver) volume(field string, v *corev1.Volume) {
	switch {
	case v.Secret != nil:
		r.needs(field, "Secret", v.Secret.SecretName, v.Secret.Optional, keysOf(v.Secret.Items)...)
	case v.ConfigMap != nil:
		r.needs(field, "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional, keysOf(v.ConfigMap.Items)...)
	case v.PersistentVolumeClaim != nil:
		r.needs(field, "PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		r.needs(field, "Secret", v.CSI.NodePublishSecretRef.Name, nil)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			at := fmt.Sprintf("%s.projected.sources[%d]", field, i)
			if s := v.Projected.Sources[i].Secret; s != nil {
				r.needs(at, "Secret", s.Name, s.Optional, keysOf(s.Items)...)
			}
			if s := v.Projected.Sources[i].ConfigMap; s != nil {
				r.needs(at, "ConfigMap", s.Name, s.Optional, keysOf(s.Items)...)
			}
		}
	}
}

func keysOf(items []corev1.KeyToPath) []string {
	var out []string
	for _, item := range items {
		out = append(out, item.Key)
	}
	return out
}
