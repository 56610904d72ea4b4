package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// hardened are the values of values-hardened.yaml, with an image.
func hardened(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, folder, "values-hardened.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return merged(t, string(data), "image: {repository: registry.example.com/mlkeeper, digest: \"sha256:"+strings.Repeat("a", 64)+"\"}")
}

// TestTheHardenedValues renders the chart with values-hardened.yaml and looks for what the file promises.
func TestTheHardenedValues(t *testing.T) {
	objects, err := render(t, hardened(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := byKind(objects)
	deployment := all["Deployment"][0]
	if at(deployment, "spec", "replicas") != any(float64(2)) || len(all["PodDisruptionBudget"]) != 1 || len(all["NetworkPolicy"]) != 1 {
		t.Errorf("replicas %v, %d budgets, %d network policies", at(deployment, "spec", "replicas"), len(all["PodDisruptionBudget"]), len(all["NetworkPolicy"]))
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(at(deployment, "spec", "template").(map[string]any), &template); err != nil {
		t.Fatal(err)
	}
	restricted(t, &template)
	container := template.Spec.Containers[0]
	if !strings.HasSuffix(container.Image, "@sha256:"+strings.Repeat("a", 64)) {
		t.Errorf("the image %s is not pinned", container.Image)
	}
	knownFlags(t, container.Args)
	for _, binding := range all["ValidatingAdmissionPolicyBinding"] {
		if text(t, at(binding, "spec", "validationActions")) != `["Deny"]` {
			t.Errorf("%v does not deny", at(binding, "metadata", "name"))
		}
	}
	for _, object := range slices.Concat(all["ClusterRole"], all["Role"]) {
		leastRights(t, object)
	}
	for _, object := range all["ClusterRoleBinding"] {
		if at(object, "roleRef", "name") == "cluster-admin" {
			t.Errorf("%v binds cluster-admin", at(object, "metadata", "name"))
		}
	}
	linted := lint.RunAll(filepath.Join(root, folder), parse(t, hardened(t)), namespace, lint.WithKubeVersion(&capabilities(t).KubeVersion))
	for _, message := range linted.Messages {
		if message.Severity >= support.WarningSev {
			t.Errorf("%v", message)
		}
	}
}

// restricted asks Kubernetes' own admission plugin.
func restricted(t *testing.T, template *corev1.PodTemplateSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			t.Errorf("the pods are not restricted: %s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
}

// knownFlags looks for each flag in the table of docs/operations.md, which a test compares with the manager's, and for those that harden.
func knownFlags(t *testing.T, args []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile("--[a-z][a-z-]*").FindAllString(string(page), -1)
	for _, arg := range args[1:] {
		if name, _, _ := strings.Cut(arg, "="); !slices.Contains(known, name) {
			t.Errorf("the manager has no flag %s", name)
		}
	}
	for _, want := range []string{
		"--trustyai-untrusted-metrics", "--source-require-digest", "--kubeflow-remote-bases=none", "--source-deny-cidr=10.0.0.0/8", "--source-deny-cidr=fc00::/7",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("the manager does not get %s", want)
		}
	}
}

// leastRights refuses rights that are as much as all rights.
func leastRights(t *testing.T, object map[string]any) {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal([]byte(text(t, object)), &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
		if slices.Contains(all, "*") || slices.Contains(all, "impersonate") || slices.Contains(all, "escalate") {
			t.Errorf("%s may do too much: %v", role.Name, rule)
		}
	}
}
