package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// managerSelector selects the Deployments of config/manager.
const managerSelector = "app.kubernetes.io/name=mlkeeper,control-plane=controller-manager"

// managerState is one Deployment of MLKeeper.
type managerState struct {
	account     serviceAccount
	controllers []string
	running     bool
}

// managers finds the Deployments of MLKeeper, and checks that each runs.
func (c *checker) managers(ctx context.Context) ([]managerState, error) {
	all, err := c.managerDeployments(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		c.add(checkProblem, "manager", "MLKeeper is not deployed in this cluster: run make deploy, and mlkeeper check --pre before it")
	}
	var out []managerState
	for _, u := range all {
		m := c.managerState(u)
		subject := "manager " + u.GetNamespace() + "/" + u.GetName()
		if m.running {
			c.add(checkOK, subject, "it runs the controllers %s", cmp.Or(strings.Join(m.controllers, ", "), "none"))
		} else {
			c.add(checkProblem, subject, "no replica is available: kubectl -n %s describe deployment %s says why", u.GetNamespace(), u.GetName())
		}
		out = append(out, m)
	}
	return out, nil
}

// managerDeployments lists the Deployments of MLKeeper.
func (c *cluster) managerDeployments(ctx context.Context) ([]*unstructured.Unstructured, error) {
	mapping, err := c.lookup(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err != nil || mapping == nil {
		return nil, err
	}
	all, err := c.list(ctx, mapping, "", metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		return nil, fmt.Errorf("find MLKeeper's Deployment: %w", err)
	}
	return all, nil
}

// managerState reads which controllers a Deployment runs, and as which ServiceAccount.
func (c *checker) managerState(u *unstructured.Unstructured) managerState {
	account, _, _ := unstructured.NestedString(u.Object, "spec", "template", "spec", "serviceAccountName")
	out := managerState{account: serviceAccount{u.GetNamespace(), cmp.Or(account, "default")}, running: runs(u)}
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	limited := false
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		args, _, _ := unstructured.NestedStringSlice(fields, "args")
		for _, arg := range args {
			names, found := strings.CutPrefix(arg, "--controllers=")
			if !found {
				continue
			}
			limited = true
			for name := range strings.SplitSeq(names, ",") {
				if name != "" && !slices.Contains(out.controllers, name) {
					out.controllers = append(out.controllers, name)
				}
			}
		}
	}
	if !limited {
		for _, r := range c.controllers {
			out.controllers = append(out.controllers, r.Name())
		}
	}
	slices.Sort(out.controllers)
	return out
}

// runs says that a Deployment has a replica that is available.
func runs(deployment *unstructured.Unstructured) bool {
	available, _, _ := unstructured.NestedInt64(deployment.Object, "status", "availableReplicas")
	return available > 0
}

// noManager is an error while a Deployment of MLKeeper has pods, or is about to have some: a manager writes before it is available, and until
// its process has ended.
func (c *cluster) noManager(ctx context.Context) error {
	deployments, err := c.managerDeployments(ctx)
	if err != nil {
		return err
	}
	for _, u := range deployments {
		name := u.GetNamespace() + "/" + u.GetName()
		// The default of the API server is one.
		if declared, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); !found || declared != 0 {
			return fmt.Errorf("the manager %s runs, and would adopt everything again: kubectl -n %s scale deployment %s --replicas=0",
				name, u.GetNamespace(), u.GetName())
		}
		left, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
		observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		if left != 0 || observed != u.GetGeneration() {
			return fmt.Errorf("the manager %s is stopping: repeat the command once kubectl -n %s get deployment %s shows no replica",
				name, u.GetNamespace(), u.GetName())
		}
	}
	mapping, err := c.lookup(podKind)
	if err != nil || mapping == nil {
		return err
	}
	pods, err := c.list(ctx, mapping, "", metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		return fmt.Errorf("find the pods of MLKeeper: %w", err)
	}
	for _, pod := range pods {
		// The containers of a pod of these phases have ended, and the Deployment does not delete one that was evicted.
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		if phase != string(corev1.PodSucceeded) && phase != string(corev1.PodFailed) {
			return fmt.Errorf("the pod %s/%s of a manager is there, which would adopt everything again: repeat the command once it is gone",
				pod.GetNamespace(), pod.GetName())
		}
	}
	return nil
}

// managerRights checks that the ServiceAccount of a manager has the rights that this release needs.
func (c *checker) managerRights(ctx context.Context, m managerState) error {
	var known []string
	for _, r := range c.controllers {
		if slices.Contains(m.controllers, r.Name()) {
			known = append(known, r.Name())
		}
	}
	grants, err := c.grants(m, known)
	if err != nil {
		return err
	}
	user := "system:serviceaccount:" + m.account.namespace + ":" + m.account.name
	for _, g := range grants {
		missing, err := c.missing(ctx, user, g.namespace, g.rules)
		if apierrors.IsForbidden(err) {
			c.add(checkWarning, "rights", "you may not ask for the rights of %s, which takes create of subjectaccessreviews.authorization.k8s.io", user)
			return nil
		}
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			c.add(checkProblem, g.subject, "%s may not %s: run make deploy of this release", user, strings.Join(missing, ", "))
			continue
		}
		c.add(checkOK, g.subject, "%s has its rights", user)
	}
	return nil
}

// installRules are what make deploy needs, beside the rights that it grants: it applies the kinds of config/operator and config/components, deletes
// those of what is switched off, and looks for the pods of webhooks (hack/crds.sh).
var installRules = func() []rule {
	write := []string{"get", "create", "patch"}
	all := append(slices.Clone(write), "delete")
	return []rule{
		{group: "apiextensions.k8s.io", resources: []string{"customresourcedefinitions"}, verbs: write},
		{resources: []string{"namespaces"}, verbs: write},
		{group: "admissionregistration.k8s.io", resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, verbs: write},
		{resources: []string{"configmaps", "secrets", "serviceaccounts", "services"}, verbs: all},
		{group: "apps", resources: []string{"deployments"}, verbs: all},
		{group: "networking.k8s.io", resources: []string{"networkpolicies"}, verbs: all},
		{group: "policy", resources: []string{"poddisruptionbudgets"}, verbs: all},
		{group: "rbac.authorization.k8s.io", resources: []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"}, verbs: all},
		{group: "rbac.authorization.k8s.io", resources: []string{"clusterroles", "roles"}, verbs: []string{"bind", "escalate"}},
		{group: "discovery.k8s.io", resources: []string{"endpointslices"}, verbs: []string{"list"}},
	}
}()

// installRights checks that the user may install MLKeeper.
func (c *checker) installRights(ctx context.Context) error {
	all, err := c.missing(ctx, "", "", []rule{{group: "*", resources: []string{"*"}, verbs: []string{"*"}}})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		c.add(checkOK, "rights", "you may do everything")
		return nil
	}
	missing, err := c.missing(ctx, "", "", installRules)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		c.add(checkProblem, "rights", "you may not %s; escalate and bind are not needed by those who have every right that `mlkeeper rbac` prints",
			strings.Join(missing, ", "))
		return nil
	}
	c.add(checkOK, "rights", "you may install")
	return nil
}

// missing are the rights of some rules that a user does not have in a namespace, or in all of them where none is named: the one who asks where no
// user is named.
func (c *checker) missing(ctx context.Context, user, namespace string, rules []rule) ([]string, error) {
	var out []string
	for _, r := range rules {
		for _, resource := range r.resources {
			var verbs []string
			for _, verb := range r.verbs {
				for _, name := range append(slices.Clone(r.names), "")[:max(1, len(r.names))] {
					resource, subresource, _ := strings.Cut(resource, "/")
					may, err := c.may(ctx, user, authorizationv1.ResourceAttributes{
						Namespace: namespace, Group: r.group, Resource: resource, Subresource: subresource, Verb: verb, Name: name,
					})
					if err != nil {
						return nil, err
					}
					if !may && !slices.Contains(verbs, verb) {
						verbs = append(verbs, verb)
					}
				}
			}
			if len(verbs) > 0 {
				out = append(out, strings.Join(verbs, "/")+" "+strings.TrimSuffix(resource+"."+r.group, "."))
			}
		}
	}
	return out, nil
}

// namespaceOfUser is the namespace of a ServiceAccount by its user name, system:serviceaccount:NAMESPACE:NAME.
func namespaceOfUser(user string) string {
	parts := strings.Split(user, ":")
	return parts[len(parts)-2]
}

// may asks the API server for a right.
func (c *checker) may(ctx context.Context, user string, what authorizationv1.ResourceAttributes) (bool, error) {
	kind, resource := "SelfSubjectAccessReview", "selfsubjectaccessreviews"
	if user != "" {
		kind, resource = "SubjectAccessReview", "subjectaccessreviews"
	}
	attributes, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&what)
	if err != nil {
		return false, err
	}
	spec := map[string]any{"resourceAttributes": attributes}
	if user != "" {
		spec["user"] = user
		spec["groups"] = []any{"system:serviceaccounts", "system:serviceaccounts:" + namespaceOfUser(user), "system:authenticated"}
	}
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": authorizationv1.SchemeGroupVersion.String(), "kind": kind, "spec": spec,
	}}
	out, err := c.dynamic.Resource(authorizationv1.SchemeGroupVersion.WithResource(resource)).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for rights: %w", err)
	}
	allowed, _, _ := unstructured.NestedBool(out.Object, "status", "allowed")
	return allowed, nil
}
