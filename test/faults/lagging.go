package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// collectorUser is whom the garbage collector of kube-controller-manager acts as.
const collectorUser = "system:serviceaccount:kube-system:generic-garbage-collector"

// HoldCollector makes the garbage collector lag behind in the run's namespace, as it does on a large cluster: what it wants
// to delete there is refused, and it tries again later. It returns once that is in force.
func (w *World) HoldCollector() error {
	w.held = true
	name := w.policyName()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
				}}},
			},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("request.userInfo.username != %q", collectorUser), Message: "the garbage collector is held",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, o := range []client.Object{policy, binding} {
		if err := w.run.suite.cluster.Client.Create(w.run.ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("hold the garbage collector: %w", err)
		}
	}
	return w.run.await("the garbage collector to be held", w.collectorHeld)
}

// ReleaseCollector ends what HoldCollector began.
func (w *World) ReleaseCollector() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	meta := metav1.ObjectMeta{Name: w.policyName()}
	var failed error
	for _, o := range []client.Object{
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta},
	} {
		failed = errors.Join(failed, client.IgnoreNotFound(w.run.suite.cluster.Client.Delete(ctx, o)))
	}
	return failed
}

// policyName names the policy of the run, whose namespace no other run has.
func (w *World) policyName() string { return "hold-collector-" + w.Namespace }

// collectorHeld tries, without effect, what the garbage collector would do.
func (w *World) collectorHeld() error {
	config := rest.CopyConfig(w.run.suite.cluster.Config)
	config.Impersonate.UserName = collectorUser
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	collector, err := client.New(config, client.Options{Scheme: w.run.suite.cluster.Client.Scheme()})
	if err != nil {
		return err
	}
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "kube-root-ca.crt"}}
	switch err := collector.Delete(w.run.ctx, probe, client.DryRunAll); {
	case err == nil:
		return errors.New("it may delete")
	case !apierrors.IsInvalid(err):
		return fmt.Errorf("ask for a deletion as it: %w", err)
	}
	return nil
}
