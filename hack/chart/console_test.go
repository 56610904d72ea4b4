package main

import "testing"

// TestTheConsoleRunsWhereTheOperatorRuns has a registry with credentials, nodes of their own, and a cluster such as OpenShift that says itself
// whom pods run as.
func TestTheConsoleRunsWhereTheOperatorRuns(t *testing.T) {
	objects, err := render(t, `
image: {repository: r, tag: t, pullPolicy: Always}
console: {enabled: true, extraArgs: [--trustyai-image=mirror.example.com/trustyai:v1]}
extraArgs: [--trustyai-image=mirror.example.com/trustyai:v1]
imagePullSecrets: [{name: pull}]
nodeSelector: {pool: infra}
tolerations: [{key: infra, operator: Exists}]
priorityClassName: system-cluster-critical
runAsUser: null
runAsGroup: null
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	deployments := byKind(objects)["Deployment"]
	if len(deployments) != 2 {
		t.Fatalf("%d Deployments", len(deployments))
	}
	for _, object := range deployments {
		spec := at(object, "spec", "template", "spec").(map[string]any)
		container := spec["containers"].([]any)[0].(map[string]any)
		security := at(container, "securityContext").(map[string]any)
		for what, ok := range map[string]bool{
			"image":       container["image"] == "r:t" && container["imagePullPolicy"] == "Always",
			"pull secret": text(t, spec["imagePullSecrets"]) == `[{"name":"pull"}]`,
			"nodes":       text(t, spec["nodeSelector"]) == `{"pool":"infra"}` && text(t, spec["tolerations"]) == `[{"key":"infra","operator":"Exists"}]`,
			"priority":    spec["priorityClassName"] == "system-cluster-critical",
			"user":        security["runAsUser"] == nil && security["runAsGroup"] == nil && security["runAsNonRoot"] == true,
			"images":      hasAll(container["args"], "--trustyai-image=mirror.example.com/trustyai:v1"),
		} {
			if !ok {
				t.Errorf("%s of %s: %s", what, container["name"], text(t, spec))
			}
		}
	}
}
