package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"sigs.k8s.io/yaml"
)

// unpack reads a tar.gz.
func unpack(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// loaded writes a bundle to a folder and reads it as operator-sdk bundle validate does.
func loaded(t *testing.T, files map[string][]byte) *manifests.Bundle {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	bundle, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// tolerated are the warnings that the bundle has by intention: nobody makes an Inventory, and the example of a KfDef is of the version that
// is stored.
var tolerated = regexp.MustCompile(`(Kind=Inventory|v1beta1, Kind=KfDef): provided API should have an example annotation`)

// TestTheBundleIsValid asks OLM's own validators, those that operator-sdk bundle validate runs always and those of its suite operatorframework.
func TestTheBundleIsValid(t *testing.T) {
	_, all := finished(t)
	bundle := loaded(t, unpack(t, all["mlkeeper-bundle-0.1.0-rc.1.tar.gz"]))
	if bundle.Package != packageName || bundle.DefaultChannel != "candidate" || len(bundle.V1CRDs) != 5 {
		t.Errorf("the bundle is of the package %q, the channel %q and has %d definitions", bundle.Package, bundle.DefaultChannel, len(bundle.V1CRDs))
	}
	validators := validation.DefaultBundleValidators.WithValidators(validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator, validation.ObjectValidator, validation.GoodPracticesValidator, validation.AlphaDeprecatedAPIsValidator)
	results := validators.Validate(bundle.ObjectsToValidate()...)
	if len(results) < 8 {
		t.Errorf("only %d results", len(results))
	}
	for _, result := range results {
		for _, problem := range slices.Concat(result.Errors, result.Warnings) {
			if !tolerated.MatchString(problem.Error()) {
				t.Error(problem)
			}
		}
	}
	if size := bundle.CompressedSize; size > 512<<10 {
		t.Errorf("compressed, the bundle has %d KiB, of the 1024 that a ConfigMap takes", size>>10)
	}
}

// serviceVersion reads the ClusterServiceVersion by OLM's type, and no field that this does not have.
func serviceVersion(t *testing.T, files map[string][]byte) *v1alpha1.ClusterServiceVersion {
	t.Helper()
	out := &v1alpha1.ClusterServiceVersion{}
	if err := yaml.UnmarshalStrict(files["manifests/mlkeeper.clusterserviceversion.yaml"], out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheBundleIsTheInstallation compares the bundle with install.yaml: OLM installs the same rights, definitions and Deployment.
func TestTheBundleIsTheInstallation(t *testing.T) {
	o, all := finished(t)
	files := unpack(t, all["mlkeeper-bundle-0.1.0-rc.1.tar.gz"])
	csv := serviceVersion(t, files)
	installation, err := parse(all["install.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	strategy := csv.Spec.InstallStrategy.StrategySpec
	if len(strategy.ClusterPermissions) != 1 || len(strategy.Permissions) != 1 || len(strategy.DeploymentSpecs) != 1 {
		t.Fatalf("the strategy is %+v", strategy)
	}
	var granted []string
	for _, rule := range slices.Concat(strategy.ClusterPermissions[0].Rules, strategy.Permissions[0].Rules) {
		granted = append(granted, string(marshal(rule)))
	}
	inline := 0
	for _, u := range installation {
		file := files["manifests/"+named(u)+"."+strings.ToLower(u["kind"].(string))+".yaml"]
		switch kind := u["kind"].(string); kind {
		case "CustomResourceDefinition", "ClusterRole", "Role":
			if file != nil {
				if !bytes.Equal(file, marshal(u)) {
					t.Errorf("%s differs in the bundle", key(u))
				}
				continue
			}
			for _, rule := range u["rules"].([]any) {
				inline++
				if text := string(marshal(rule)); !slices.Contains(granted, text) {
					t.Errorf("a rule of %s is in no permission:\n%s", key(u), text)
				}
			}
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			if !bytes.Contains(all["admission.yaml"], marshal(u)) {
				t.Errorf("%s is not in admission.yaml", key(u))
			}
		case "ServiceAccount", "Namespace":
			if file != nil {
				t.Errorf("the bundle has a file for %s, which OLM makes by itself", key(u))
			}
		}
	}
	if inline != len(granted) || inline < 20 {
		t.Errorf("the installation has %d rules for the operator, and the bundle %d", inline, len(granted))
	}
	for _, role := range []string{"mlkeeper-kubeflow-kinds", "mlkeeper-seldon-kinds"} {
		// An administrator's grants arrive there by aggregation, which OLM's own roles do not know.
		if binding := files["manifests/"+role+".clusterrolebinding.yaml"]; !bytes.Contains(binding, []byte("namespace: "+csv.Annotations["operatorframework.io/suggested-namespace"])) {
			t.Errorf("%s is not bound in the suggested namespace: %s", role, binding)
		}
	}
	if image := strategy.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image; !strings.HasPrefix(image, o.image+"@sha256:") {
		t.Errorf("the Deployment has the image %s", image)
	}
}

// TestTheBundleNamesEveryImage compares the images of the bundle with images.txt, the list for registries without the Internet.
func TestTheBundleNamesEveryImage(t *testing.T) {
	o, all := finished(t)
	csv := serviceVersion(t, unpack(t, all["mlkeeper-bundle-0.1.0-rc.1.tar.gz"]))
	var related []string
	for _, one := range csv.Spec.RelatedImages {
		related = append(related, strings.Replace(one.Image, o.image+"@", o.image+":v0.1.0-rc.1@", 1))
	}
	if list := strings.Fields(string(all["images.txt"])); !slices.Equal(list, related) {
		t.Errorf("images.txt has %v, and the bundle %v", list, related)
	}
}

// TestEveryOwnedFieldIsDescribed: the console has a description and a widget for each field of spec and status.
func TestEveryOwnedFieldIsDescribed(t *testing.T) {
	_, all := finished(t)
	files := unpack(t, all["mlkeeper-bundle-0.1.0-rc.1.tar.gz"])
	described := 0
	for _, one := range serviceVersion(t, files).Spec.CustomResourceDefinitions.Owned {
		if one.DisplayName == "" || one.Description == "" || len(one.SpecDescriptors) == 0 || len(one.StatusDescriptors) == 0 {
			t.Errorf("%s %s is not described: %+v", one.Name, one.Version, one)
		}
		for _, field := range one.SpecDescriptors {
			described++
			if field.Description == "" || len(field.XDescriptors) == 0 {
				t.Errorf("%s: %+v", one.Name, field)
			}
		}
	}
	if described < 100 {
		t.Errorf("only %d fields are described", described)
	}
	for field, want := range map[string]string{"serviceAccountName": "Service Account Name", "externalURL": "External URL", "s3": "S3", "url": "Url"} {
		if got := title(field); got != want {
			t.Errorf("%s is shown as %q", field, got)
		}
	}
}

// TestTheUpgradeGraph: a release replaces the one before it and is reached from each older one; a release candidate is in no stable channel.
func TestTheUpgradeGraph(t *testing.T) {
	const changelog = "## [Unreleased]\n\n## [0.3.0] - 2026-12-01\n\n## [0.2.0] - 2026-11-01\n\n## [0.1.0] - 2026-10-01\n"
	for _, one := range []struct{ version, name, channels, replaces, skipRange string }{
		{"v0.1.0-rc.1", "mlkeeper.v0.1.0-rc.1", "candidate", "", "<0.1.0-rc.1"},
		{"v0.1.0", "mlkeeper.v0.1.0", "candidate stable", "", "<0.1.0"},
		{"v0.2.0-rc.2", "mlkeeper.v0.2.0-rc.2", "candidate", "mlkeeper.v0.1.0", "<0.2.0-rc.2"},
		{"v0.2.1", "mlkeeper.v0.2.1", "candidate stable", "mlkeeper.v0.2.0", "<0.2.1"},
		{"v0.2.0", "mlkeeper.v0.2.0", "candidate stable", "mlkeeper.v0.1.0", "<0.2.0"},
		{"v0.3.0", "mlkeeper.v0.3.0", "candidate stable", "mlkeeper.v0.2.0", "<0.3.0"},
		{"v0.4.0-RC.1+build", "mlkeeper.v0.4.0-rc.1-build", "candidate", "mlkeeper.v0.3.0", "<0.4.0-RC.1+build"},
	} {
		o := &olm{dist: &dist{distOptions: distOptions{version: one.version}}}
		if err := o.graph(changelog); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(o.name, ",", strings.Join(o.channels, " "), ",", o.replaces, ",", o.skipRange)
		if want := fmt.Sprint(one.name, ",", one.channels, ",", one.replaces, ",", one.skipRange); got != want {
			t.Errorf("%s: %s, not %s", one.version, got, want)
		}
	}
}

// document is what the test reads of a file-based catalog.
type document struct {
	Schema, Name, Package, Image, DefaultChannel string
	Entries                                      []struct{ Name, Replaces, SkipRange string }
	Properties                                   []struct {
		Type  string
		Value json.RawMessage
	}
	RelatedImages []struct{ Name, Image string }
}

// TestTheCatalogIsValid checks the rules by which opm validate reads a catalog (operator-framework/operator-registry alpha/declcfg/
// declcfg_to_model.go and alpha/model/model.go), whose module the registries do not have.
func TestTheCatalogIsValid(t *testing.T) {
	o, all := finished(t)
	documents := map[string][]document{}
	for _, text := range strings.Split(string(all["catalog.yaml"]), "---\n")[1:] {
		var one document
		if err := yaml.Unmarshal([]byte(text), &one); err != nil {
			t.Fatal(err)
		}
		documents[one.Schema] = append(documents[one.Schema], one)
	}
	if len(documents["olm.package"]) != 1 || len(documents["olm.channel"]) != 1 || len(documents["olm.bundle"]) != 1 || len(documents) != 3 {
		t.Fatalf("the catalog has %v", documents)
	}
	bundle, channel := documents["olm.bundle"][0], documents["olm.channel"][0]
	if documents["olm.package"][0].DefaultChannel != channel.Name || channel.Package != packageName || bundle.Package != packageName {
		t.Error("the default channel is not in the package")
	}
	if len(channel.Entries) != 1 || channel.Entries[0].Name != bundle.Name || channel.Entries[0].SkipRange != "<0.1.0-rc.1" {
		t.Errorf("the channel has %+v, and the bundle is %s", channel.Entries, bundle.Name)
	}
	count := map[string]int{}
	for _, property := range bundle.Properties {
		count[property.Type]++
	}
	if count["olm.package"] != 1 || count["olm.csv.metadata"] != 1 || count["olm.gvk"] != 7 {
		t.Errorf("the bundle has %v", count)
	}
	metadata := struct {
		Annotations map[string]string
	}{}
	if err := json.Unmarshal(bundle.Properties[len(bundle.Properties)-1].Value, &metadata); err != nil || metadata.Annotations["capabilities"] == "" {
		t.Errorf("the metadata: %v, %+v", err, metadata)
	}
	published(t, o, bundle)
}

// TestTheSubscriptionIsOfTheCatalog reads what OLM is told by its own types.
func TestTheSubscriptionIsOfTheCatalog(t *testing.T) {
	o, all := finished(t)
	objects, err := parse(all["subscription.yaml"])
	if err != nil || len(objects) != 4 {
		t.Fatalf("%d objects: %v", len(objects), err)
	}
	var source v1alpha1.CatalogSource
	var subscription v1alpha1.Subscription
	if err := errors.Join(yaml.UnmarshalStrict(marshal(objects[1]), &source), yaml.UnmarshalStrict(marshal(objects[3]), &subscription)); err != nil {
		t.Fatal(err)
	}
	if want := o.image + ":catalog-v0.1.0-rc.1"; source.Spec.Image != want || source.Spec.GrpcPodConfig.ExtractContent.CatalogDir != "/configs" {
		t.Errorf("the catalog is %+v, not %s", source.Spec, want)
	}
	wanted := v1alpha1.SubscriptionSpec{
		CatalogSource: source.Name, CatalogSourceNamespace: source.Namespace, Package: packageName, Channel: "candidate",
	}
	if *subscription.Spec != wanted {
		t.Errorf("the subscription is %+v, not %+v", subscription.Spec, wanted)
	}
}

// published compares the images that the catalog names with those of the layout.
func published(t *testing.T, o distOptions, bundle document) {
	t.Helper()
	path, err := layout.FromPath(filepath.Join(o.output, imageFolder))
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for _, one := range manifest.Manifests {
		tags[one.Annotations[reference]] = o.image + "@" + one.Digest.String()
		if one.Annotations[reference] != "catalog-v0.1.0-rc.1" {
			continue
		}
		image, err := path.Image(one.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Config.Labels["operators.operatorframework.io.index.configs.v1"] != "/configs" {
			t.Errorf("the catalog's image does not say where the catalog is: %v", err)
		}
	}
	if bundle.Image != tags["bundle-v0.1.0-rc.1"] || tags["catalog-v0.1.0-rc.1"] == "" {
		t.Errorf("the catalog names %s, and the layout has %v", bundle.Image, tags)
	}
	if len(bundle.RelatedImages) != 3 || bundle.RelatedImages[0].Image != bundle.Image || bundle.RelatedImages[1].Image != tags["v0.1.0-rc.1"] {
		t.Errorf("the catalog lists the images %v", bundle.RelatedImages)
	}
}
