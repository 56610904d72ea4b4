package main

import (
	"strings"
	"testing"
)

const file = `# a licence
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.test, annotations: {their: own, api-approved.kubernetes.io: "https://approval"}}
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: dropped
        properties:
          description: {type: string, description: dropped, default: <kept>}
          properties: {type: object, description: dropped, properties: {description: {type: integer}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bs.example.test}
spec: {conversion: {strategy: Webhook}}
`

// TestOnlyDescriptionsAreTakenOut: a field that is called description, or properties, stays.
func TestOnlyDescriptionsAreTakenOut(t *testing.T) {
	found, err := definitions([]byte(file), []string{"as.example.test"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"annotations":{"api-approved.kubernetes.io":"https://approval"},"name":"as.example.test"},` +
		`"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{` +
		`"description":{"default":"<kept>","type":"string"},` +
		`"properties":{"properties":{"description":{"type":"integer"}},"type":"object"}}}}}]}}`
	if len(found) != 1 || found[0] != want {
		t.Errorf("got  %s\nwant %s", strings.Join(found, "\n"), want)
	}
}

func TestWhatADevclusterCannotServeIsRefused(t *testing.T) {
	for wanted, names := range map[string][]string{
		"strategy Webhook": {"bs.example.test"},
		"0 definitions":    {"cs.example.test"},
		"1 definitions":    {"as.example.test", "cs.example.test"},
	} {
		if _, err := definitions([]byte(file), names); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%v: %v, and not %s", names, err, wanted)
		}
	}
}
