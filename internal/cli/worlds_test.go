package cli

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWithoutAClusterRemovedAPIsAreNotServed(t *testing.T) {
	for text, want := range map[string]bool{
		"apps/v1/Deployment":                                                true,
		"extensions/v1beta1/Deployment":                                     false,
		"networking.k8s.io/v1beta1/Ingress":                                 false,
		"networking.k8s.io/v1/Ingress":                                      true,
		"policy/v1beta1/PodSecurityPolicy":                                  false,
		"policy/v1beta1/PodDisruptionBudget":                                false,
		"batch/v1beta1/CronJob":                                             false,
		"autoscaling/v2beta1/HorizontalPodAutoscaler":                       false,
		"autoscaling/v2/HorizontalPodAutoscaler":                            true,
		"rbac.authorization.k8s.io/v1beta1/ClusterRole":                     false,
		"admissionregistration.k8s.io/v1beta1/MutatingWebhookConfiguration": false,
		"admissionregistration.k8s.io/v1/MutatingWebhookConfiguration":      true,
		"apiextensions.k8s.io/v1beta1/CustomResourceDefinition":             false,
		"apiextensions.k8s.io/v1/CustomResourceDefinition":                  true,
		"route.openshift.io/v1/Route":                                       true,
	} {
		parts := splitAPI(text)
		n, err := newNoCluster(now, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := n.serves(parts); got != want {
			t.Errorf("%s: served %v", text, got)
		}
	}
	n, err := newNoCluster(now, []string{"batch/v1beta1/CronJob"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := n.serves(splitAPI("batch/v1beta1/CronJob")); !got {
		t.Error("one that is named is not served")
	}
}

func splitAPI(text string) schema.GroupVersionKind {
	parts := strings.Split(text, "/")
	return schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}
}
