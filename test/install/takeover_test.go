package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

const trustyai = "trustyaiservices.trustyai.opendatahub.io"

// upstream has the shape of the definition of the upstream operator: two versions of which v1 is stored, the annotation of its
// controller-gen, and a webhook of its own that converts (trustyai-service-operator at 11c335b, config/components/tas: the
// crd, and patches/webhook_in_trustyaiservices.yaml).
const upstream = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: trustyaiservices.trustyai.opendatahub.io
  annotations: {controller-gen.kubebuilder.io/version: v0.20.0}
spec:
  group: trustyai.opendatahub.io
  names: {kind: TrustyAIService, listKind: TrustyAIServiceList, plural: trustyaiservices, singular: trustyaiservice}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {service: {namespace: opendatahub, name: trustyai-webhook-service, path: /convert}}
      conversionReviewVersions: [v1]
  versions:
    - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: &schema {openAPIV3Schema: {type: object, properties: {
        apiVersion: {type: string}, kind: {type: string}, metadata: {type: object}, status: {type: object},
        spec: {type: object, required: [metrics, storage], properties: {
          data: {type: object, required: [filename, format], properties: {filename: {type: string}, format: {type: string}}},
          metrics: {type: object, required: [schedule], properties: {batchSize: {type: integer}, schedule: {type: string}}},
          replicas: {type: integer, format: int32},
          storage: {type: object, required: [format], properties: {databaseConfigurations: {type: string}, folder: {type: string}, format: {type: string}, size: {type: string}}}}}}}}}
    - {name: v1alpha1, served: true, storage: false, subresources: {status: {}}, schema: *schema}
`

// stored is a service that upstream keeps.
const stored = `apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: old, namespace: default}
spec:
  storage: {format: PVC, folder: /data, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 5000}
`

// underUpstream boots a cluster in which upstream's definition was applied so, with a service.
func underUpstream(t *testing.T, apply ...string) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t)
	for name, text := range map[string]string{"crd.yaml": upstream, "cr.yaml": stored} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Kubectl(t, append(apply, "-f", filepath.Join(c.Dir, "crd.yaml"))...)
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/"+trustyai)
	c.Kubectl(t, "apply", "-f", filepath.Join(c.Dir, "cr.yaml"))
	return c
}

func definitionOf(t *testing.T, c *cluster.Cluster, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, out)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// installed says what is missing of MLKeeper's definitions, or wrong with them, and that what upstream stored is as it was.
func installed(t *testing.T, c *cluster.Cluster) error {
	t.Helper()
	if definitionOf(t, c, "inventories.keeper.mlkeeper.dev") == nil {
		return fmt.Errorf("the definition of Inventory is not there")
	}
	d := definitionOf(t, c, trustyai)
	if d.Spec.Conversion != nil && d.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		return fmt.Errorf("the conversion of %s is %s", trustyai, d.Spec.Conversion.Strategy)
	}
	if d.Annotations["controller-gen.kubebuilder.io/version"] == "v0.20.0" {
		return fmt.Errorf("%s is upstream's", trustyai)
	}
	objects, err := cluster.Parse(stored)
	if err != nil {
		return err
	}
	for _, version := range []string{"v1", "v1alpha1"} {
		gvk := schema.GroupVersionKind{Group: "trustyai.opendatahub.io", Version: version, Kind: "TrustyAIService"}
		// The API server takes a moment until a definition that has changed is what it serves.
		cluster.Eventually(t, 30*time.Second, func() error {
			_, err := c.TryKubectl("get", "trustyaiservices."+version+".trustyai.opendatahub.io", "old")
			return err
		})
		old := c.Get(t, gvk, "default", "old")
		want, _ := objects[0].Object["spec"].(map[string]any)
		have, _ := old.Object["spec"].(map[string]any)
		for field, value := range want {
			if !reflect.DeepEqual(have[field], value) {
				return fmt.Errorf("spec.%s of what was stored is %v in %s, and was %v", field, have[field], version, value)
			}
		}
	}
	return nil
}

// asSampled applies the sample that the README begins with, which is of the version that is not stored.
func asSampled(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "apply", "-f", filepath.Join(root, "config", "samples", "trustyai-service.yaml"))
	c.Kubectl(t, "get", "trustyaiservices.v1alpha1.trustyai.opendatahub.io", "trustyai-service-example")
}

// TestMakeOverUpstreamsDefinition installs over the definition of the upstream operator, however that was applied: not at all
// without being told to, and then wholly.
func TestMakeOverUpstreamsDefinition(t *testing.T) {
	for name, apply := range map[string][]string{
		"applied by another on the server": {"apply", "--server-side", "--field-manager=opendatahub-operator"},
		"applied by kubectl":               {"apply"},
	} {
		t.Run(name, func(t *testing.T) {
			c := underUpstream(t, apply...)
			run := maker(t, c)
			before := definitionOf(t, c, trustyai)
			for _, args := range [][]string{{"install"}, {"deploy", "IMG=" + image}} {
				out, err := run(args...)
				if err == nil || !strings.Contains(out, trustyai) || !strings.Contains(out, "FORCE=1") {
					t.Errorf("make %v: %v\n%s", args, err, out)
				}
				if definitionOf(t, c, "inventories.keeper.mlkeeper.dev") != nil {
					t.Errorf("make %v installed the half", args)
				}
				if now := definitionOf(t, c, trustyai); !reflect.DeepEqual(now.Spec, before.Spec) {
					t.Errorf("make %v changed upstream's definition", args)
				}
			}
			out, err := run("install", "FORCE=1")
			must(t, out, err)
			if err := installed(t, c); err != nil {
				t.Error(err)
			}
			asSampled(t, c)
			out, err = run("deploy", "IMG="+image)
			must(t, out, err)
			if err := installed(t, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInstallFileOverUpstreamsDefinition applies config/install.yaml, whose objects kubectl applies one by one. No way to apply it
// leaves a version that nobody can read: the API server refuses the definition, the manager tells so, and the two commands
// that docs/operations.md has put it right.
func TestInstallFileOverUpstreamsDefinition(t *testing.T) {
	c := underUpstream(t, "apply", "--server-side", "--field-manager=opendatahub-operator")
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "config", "install.yaml")
	for _, apply := range [][]string{{"apply"}, {"apply", "--server-side"}, {"apply", "--server-side", "--force-conflicts"}} {
		out, err := c.TryKubectl(append(apply, "-f", file)...)
		if err == nil || !strings.Contains(err.Error()+out, "spec.conversion") && !strings.Contains(err.Error()+out, "conflict") {
			t.Errorf("%v: %v\n%s", apply, err, out)
		}
		if d := definitionOf(t, c, trustyai); d.Annotations["controller-gen.kubebuilder.io/version"] != "v0.20.0" {
			t.Errorf("%v: the definition is MLKeeper's, and its conversion %s", apply, d.Spec.Conversion.Strategy)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	operator, ended, err := harness.Run(ctx, c, harness.Options{}, fixture.Controller())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	cluster.Eventually(t, 30*time.Second, func() error {
		if err := operator.Engine.Ready(); err == nil || !strings.Contains(err.Error(), "opendatahub/trustyai-webhook-service") {
			return fmt.Errorf("ready over upstream's definition: %w", err)
		}
		return nil
	})
	c.Kubectl(t, "patch", "crd", trustyai, "--type=json", "-p", `[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]`)
	c.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", file)
	if err := installed(t, c); err != nil {
		t.Error(err)
	}
	asSampled(t, c)
	cluster.Eventually(t, 30*time.Second, operator.Engine.Ready)
}
