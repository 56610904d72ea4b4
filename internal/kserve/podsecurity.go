package kserve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// reasonPodSecurity is the reason of a service whose pods the Pod Security Standards forbid.
const reasonPodSecurity = "PodSecurityViolation"

// workerSpec is the PodSpec of the further nodes of a predictor (kserve v0.17.0, PredictorSpec).
const workerSpec = "workerSpec"

// pod is a pod as an InferenceService declares it.
type pod struct {
	field string
	meta  metav1.ObjectMeta
	spec  corev1.PodSpec
}

// serviceAccount is the name of the pod's ServiceAccount.
func (p pod) serviceAccount() string {
	return cmp.Or(p.spec.ServiceAccountName, p.spec.DeprecatedServiceAccount, "default")
}

// podsOf reads the pods that a service declares.
func podsOf(service *unstructured.Unstructured) ([]pod, error) {
	var out []pod
	for _, name := range components(service) {
		fields, declared, err := unstructured.NestedMap(service.Object, "spec", name)
		if err != nil {
			return nil, unreadable("spec."+name, err)
		}
		if !declared {
			continue
		}
		one, err := podOf("spec."+name, fields, service.GetAnnotations())
		if err != nil {
			return nil, err
		}
		out = append(out, one)
		if worker, ok := fields[workerSpec].(map[string]any); ok {
			if one, err = podOf("spec."+name+"."+workerSpec, worker, service.GetAnnotations()); err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// podOf reads the pod of a component. A component has the fields of a PodSpec, further fields, and a container under the name of a model
// framework, such as model or sklearn. Every object among the fields counts as a container, which needs no list of frameworks.
func podOf(field string, fields map[string]any, annotations map[string]string) (pod, error) {
	out := pod{field: field, meta: metav1.ObjectMeta{Annotations: maps.Clone(annotations)}}
	convert := runtime.DefaultUnstructuredConverter
	if err := convert.FromUnstructured(fields, &out.spec); err != nil {
		return out, unreadable(field, err)
	}
	var own struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := convert.FromUnstructured(fields, &own); err != nil {
		return out, unreadable(field, err)
	}
	if out.meta.Annotations == nil {
		out.meta.Annotations = map[string]string{}
	}
	maps.Copy(out.meta.Annotations, own.Annotations)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, ok := fields[name].(map[string]any)
		if !ok || name == workerSpec {
			continue
		}
		container := corev1.Container{}
		if err := convert.FromUnstructured(securityFields(value), &container); err != nil {
			return out, unreadable(field+"."+name, err)
		}
		container.Name = name
		out.spec.Containers = append(out.spec.Containers, container)
	}
	return out, nil
}

// securityFields are those fields of a container that the Pod Security Standards are about, without the texts of labels and annotations
// of the same name.
func securityFields(container map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"securityContext", "ports", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
		switch value := container[name].(type) {
		case map[string]any, []any:
			out[name] = value
		}
	}
	return out
}

func unreadable(field string, err error) error {
	return plan.Problem{
		Class: plan.Terminal, Reason: reasonInvalidProperties, Field: field, Message: "it cannot be read: " + err.Error(),
		Remedy: "correct the payload",
	}
}

// reasonAnnotation is the reason of a service with an annotation that an order may not have.
const reasonAnnotation = "AnnotationNotAllowed"

// harmless are the domains whose annotations, and those of their subdomains, change nothing about a pod but what the Pod Security Standards
// judge.
var harmless = []string{"kserve.io", "knative.dev", "prometheus.io", "kubernetes.io", "mlkeeper.dev"}

// injecting says why an annotation may not be on the pods of a service; nil where all may. Annotations become those of the pods, of which
// webhooks such as those of service meshes take volumes and images that are not in the payload (sidecar.istio.io/userVolume), and runtimes
// more (io.katacontainers). Where the namespace enforces a level, the API server judges the pods as they are then.
func injecting(service *unstructured.Unstructured, pods []pod, labels map[string]string) *plan.Problem {
	if labels[api.EnforceLevelLabel] != "" {
		return nil
	}
	declared := []pod{{meta: metav1.ObjectMeta{Annotations: service.GetAnnotations()}, field: "metadata"}}
	for _, one := range append(declared, pods...) {
		for _, key := range slices.Sorted(maps.Keys(one.meta.Annotations)) {
			if mayAnnotate(key) {
				continue
			}
			return &plan.Problem{
				Class: plan.Terminal, Reason: reasonAnnotation, Field: one.field + ".annotations", Value: key,
				Message: "it may add to the pods what the Pod Security Standards do not judge before, such as volumes of the node",
				Remedy: fmt.Sprintf("remove it, or have an administrator label the namespace %s=%s, so that the API server judges the pods",
					api.EnforceLevelLabel, api.LevelBaseline),
			}
		}
	}
	return nil
}

// mayAnnotate says that an annotation is a word of the user, or of a domain that is harmless. Whether a sidecar is injected is no harm either.
func mayAnnotate(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	if !qualified {
		return !strings.Contains(key, ".")
	}
	return key == "sidecar.istio.io/inject" || slices.ContainsFunc(harmless, func(one string) bool {
		return domain == one || strings.HasSuffix(domain, "."+one)
	})
}

// evaluator is that of Kubernetes' own PodSecurity admission plugin.
var evaluator = sync.OnceValue(func() policy.Evaluator {
	out, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic("bug: the default checks are refused: " + err.Error())
	}
	return out
})

// podSecurity says why the pods of a service may not run in a namespace with these labels; nil where they may. They must meet the level
// baseline of the Pod Security Standards, unless the namespace enforces privileged. The API server itself enforces restricted, since
// KServe adds the security context of a ServingRuntime.
func podSecurity(pods []pod, labels map[string]string) *plan.Problem {
	if labels[api.EnforceLevelLabel] == string(api.LevelPrivileged) {
		return nil
	}
	level := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	for _, one := range pods {
		result := policy.AggregateCheckResults(evaluator().EvaluatePod(level, &one.meta, &one.spec))
		if result.Allowed {
			continue
		}
		return &plan.Problem{
			Class: plan.Terminal, Reason: reasonPodSecurity, Field: one.field, Value: strings.Join(result.ForbiddenReasons, ", "),
			Message: fmt.Sprintf("its pods violate the level %s of the Pod Security Standards: %s", api.LevelBaseline, result.ForbiddenDetail()),
			Remedy: fmt.Sprintf("remove these fields, or have an administrator label the namespace %s=%s",
				api.EnforceLevelLabel, api.LevelPrivileged),
		}
	}
	return nil
}

// placement says why the pods of a service may not be placed as they ask for in a namespace with these labels; nil where they may. The Pod
// Security Standards do not judge that. A priority has pods of others preempted, in whatever namespace those are, and nodeName passes over the
// scheduler, with its taints and resources. Models need nodeSelector, affinity, tolerations and runtimeClassName, such as for GPUs: the scheduler
// decides with these. A namespace that enforces privileged accepts all pods.
func placement(namespace string, pods []pod, labels map[string]string) *plan.Problem {
	if labels[api.EnforceLevelLabel] == string(api.LevelPrivileged) {
		return nil
	}
	for _, one := range pods {
		switch {
		case one.spec.NodeName != "":
			return &plan.Problem{
				Class: plan.Terminal, Reason: reasonPodSecurity, Field: one.field + ".nodeName", Value: one.spec.NodeName,
				Message: "orders may not place pods on a node without the scheduler", Remedy: "remove the field, or choose nodes by nodeSelector",
			}
		case one.spec.PriorityClassName != "" && labels[keeper.CompositionsPriorityLabel] != keeper.CompositionsAllowed:
			return &plan.Problem{
				Class: plan.Terminal, Reason: reasonPodSecurity, Field: one.field + ".priorityClassName", Value: one.spec.PriorityClassName,
				Message: "pods with a priority have those of others preempted",
				Remedy: "remove the field, or have an administrator allow priorities: kubectl label namespace " + namespace + " " +
					keeper.CompositionsPriorityLabel + "=" + keeper.CompositionsAllowed,
			}
		}
	}
	return nil
}
