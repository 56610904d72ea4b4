package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
)

const samples = "../../config/samples/"

// ownSamples are no seeds.
var ownSamples = []string{"kfdef-kubeflow-1.11.yaml", "kfdef.yaml", "seldonoperator.yaml", "tfserv-volume.yaml", "trustyai.yaml"}

// TestSamplesAreTheSeedsAndApply holds every seed manifest of a kind that exists against its copy in config/samples.
func TestSamplesAreTheSeedsAndApply(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	files, err := filepath.Glob(samples + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	applied := map[string]bool{}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "kustomization.yaml" {
			continue
		}
		absolute, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		sample, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(ownSamples, name) {
			seed, err := os.ReadFile(seeds + name)
			if err != nil {
				t.Errorf("%s is no seed: %v", name, err)
				continue
			}
			if !bytes.Equal(sample, seed) {
				t.Errorf("%s differs from its seed", name)
			}
		}
		// Each in a namespace of its own, and with every field known.
		for _, u := range c.Apply(t, file, c.Namespace(t)) {
			if _, err := c.TryKubectl("apply", "--dry-run=server", "--validate=strict", "-n", u.GetNamespace(), "-f", absolute); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			applied[strings.ToLower(u.GetKind())] = true
		}
	}
	for _, name := range []string{"trustyai-service.yaml", "trustyai-service-monitoring.yaml"} {
		if _, err := os.Stat(samples + name); err != nil {
			t.Errorf("the seed %s is not among the samples: %v", name, err)
		}
	}
	if !applied["trustyaiservice"] {
		t.Error("no TrustyAIService was applied")
	}
}

// TestExampleStatusOfTheADRFitsTheSchema holds every key of the ADR's example against the schema of both versions.
func TestExampleStatusOfTheADRFitsTheSchema(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	raw, err := os.ReadFile(seeds + "trustyai-example-status.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Parse("apiVersion: v1\nkind: Example\n" + string(raw))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "trustyaiservices.trustyai.opendatahub.io"}, crd); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, version := range crd.Spec.Versions {
		checked += known(t, version.Name+".status", version.Schema.OpenAPIV3Schema.Properties["status"], objects[0].Object["status"])
	}
	if checked < 2*10 {
		t.Errorf("only %d keys were checked", checked)
	}
}

// known says which keys of a value the schema does not have, and counts those that it has.
func known(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps, value any) (count int) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			property, ok := schema.Properties[key]
			if !ok {
				t.Errorf("%s has no %s", path, key)
				continue
			}
			count += 1 + known(t, path+"."+key, property, item)
		}
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			t.Errorf("%s is no list", path)
			return count
		}
		for _, item := range v {
			count += known(t, path, *schema.Items.Schema, item)
		}
	}
	return count
}
