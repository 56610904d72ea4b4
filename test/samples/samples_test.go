package samples

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	seldonv1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

func TestMain(m *testing.M) { cluster.Main(m, fixture.CRDs()) }

// patience is how long the tests wait for what takes seconds.
const patience = 2 * time.Minute

// folder has the samples.
const folder = "../../config/samples/"

// charts are those of the SeldonOperator, which has no network here.
var charts = map[string]seldonv1alpha1.Chart{"core": ChartOf("core"), "enterprise": ChartOf("enterprise")}

// start runs the operator with every controller, as an installation does, and returns the name of its ServiceAccount.
func start(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	c.InstallCRDs(t)
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	harness.Start(t, c, harness.Options{LeastRights: true, Verbose: testing.Verbose()},
		fixture.Controller(), fixture.TfservController(tfserving.DefaultImage, fixture.Serving(fixture.TutorialVersion)),
		harness.Controller(kubeflow.Definition(), kubeflow.New(kubeflow.Settings{OperatorNamespace: cluster.OperatorNamespace, Sources: store})),
		harness.Controller(seldon.Definition(), seldon.New(seldon.Settings{
			OperatorNamespace: cluster.OperatorNamespace, Sources: store, Charts: charts,
		})),
		harness.Controller(kserve.Definition(), kserve.New()))
	rights := cluster.Rights{Controllers: []string{"trustyai", "tfserving", "kubeflow", "seldon", "kserve"}, Least: true}
	return rights.Account()
}

// storage makes a default StorageClass, and the volumes that a provisioner would make of it.
func storage(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	manifest := `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/none
`
	for i := range 4 {
		manifest += fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: sample-%d}
spec:
  storageClassName: standard
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /data}
`, i)
	}
	c.Apply(t, manifest)
}

// TestSamplesBecomeReady applies one sample of each kind, and compares what kubectl prints with what the README says that it prints.
func TestSamplesBecomeReady(t *testing.T) {
	c := cluster.Start(t, fixture.CRDs())
	storage(t, c)
	account := start(t, c)
	printed := printedIn(t, "../../README.md")
	for _, one := range []struct{ file, resource string }{
		{"trustyai.yaml", "trustyaiservices"}, {"tfserv-volume.yaml", "tfservs"}, {"kfdef.yaml", "kfdefs"}, {"seldonoperator.yaml", "seldonoperators"},
	} {
		t.Run(one.resource, func(t *testing.T) {
			ns := c.Namespace(t)
			if one.resource == "kfdefs" || one.resource == "seldonoperators" {
				Grant(t, c, cluster.OperatorNamespace+"/"+account, ns)
			}
			Charts(t, c, ns)
			objects := c.Apply(t, folder+one.file, ns)
			sample := objects[len(objects)-1]
			cluster.Eventually(t, patience, func() error { return Ready(c.Get(t, sample.GroupVersionKind(), ns, sample.GetName())) })
			compare(t, printed, one.resource, strings.ReplaceAll(c.Kubectl(t, "-n", ns, "get", one.resource), ns, "demo"))
		})
	}
	t.Run("compositionelements", func(t *testing.T) {
		c.Kubectl(t, "create", "namespace", "kserve-test")
		c.Kubectl(t, "label", "namespace", "kserve-test", "keeper.mlkeeper.dev/compositions=allowed")
		element := ordered(t)
		c.Apply(t, element)
		sample, err := cluster.Parse(element)
		if err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, patience, func() error { return Ready(c.Get(t, sample[0].GroupVersionKind(), "", sample[0].GetName())) })
		compare(t, printed, "compositionelements", strings.ReplaceAll(c.Kubectl(t, "get", "compositionelements"), "models.devcluster.test", "example.com"))
	})
	record(t, "healthy.txt")
	// Two that are not Ready: one needs a PersistentVolume that nobody has, and one the rights that nobody granted.
	ns := c.Namespace(t)
	c.Apply(t, folder+"trustyai-service.yaml", ns)
	c.Apply(t, folder+"seldonoperator.yaml", ns)
	c.Kubectl(t, "patch", "-n", ns, "seldonoperator", "seldon", "--type=json", "-p", `[{"op":"remove","path":"/spec/serviceAccountName"}]`)
	for name, reason := range map[string]string{"trustyaiservice/trustyai-service-example": "VolumeNotFound", "seldonoperator/seldon": "ServiceAccountRequired"} {
		cluster.Eventually(t, patience, func() error {
			got := c.Kubectl(t, "-n", ns, "get", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
			if got != reason {
				return fmt.Errorf("%s has reason %q", name, got)
			}
			return nil
		})
	}
	record(t, "not-ready.txt")
}

// record stores the metrics of the operator with RECORD=1, for the tests of the alerts.
func record(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("RECORD") != "1" {
		return
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, family := range families {
		// The rules use no histogram, and nothing of Go's own metrics.
		if family.GetType().String() == "HISTOGRAM" || strings.HasPrefix(family.GetName(), "go_") || strings.HasPrefix(family.GetName(), "process_") {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join("../../hack/monitoring/testdata", name), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ordered is what the participant stores when the runtime orders the sample's instance.
func ordered(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(folder + "participant/instance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var instance struct {
		Elements map[string]struct {
			Properties map[string]any
		}
	}
	if err := yaml.Unmarshal(raw, &instance); err != nil {
		t.Fatal(err)
	}
	for id, element := range instance.Elements {
		out, err := yaml.Marshal(map[string]any{
			"apiVersion": "keeper.mlkeeper.dev/v1alpha1", "kind": "CompositionElement", "metadata": map[string]any{"name": id},
			"spec": map[string]any{
				"participantId": "101c62b3-8918-41b9-a747-d21eb79c6c04", "automationCompositionId": "dfd8ef9a-0000-4000-8000-000000000001",
				"order": map[string]any{
					"type": "Deploy", "id": "m1", "time": "2026-01-01T00:00:00.000000Z", "received": "2099-01-01T00:00:00.000000Z",
				},
				"exists": true, "content": map[string]any{"properties": element.Properties},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	t.Fatal("the instance has no element")
	return ""
}

// console are the blocks of a page that show a terminal.
var console = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// printedIn is what a page says that kubectl get prints, by resource.
func printedIn(t *testing.T, page string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, block := range console.FindAllStringSubmatch(string(raw), -1) {
		command, lines := "", ""
		for line := range strings.Lines(block[1] + "$ \n") {
			next, isCommand := strings.CutPrefix(line, "$ ")
			if !isCommand {
				lines += line
				continue
			}
			if resource, found := strings.CutPrefix(strings.Replace(command, " -n demo", "", 1), "kubectl get "); found {
				out[resource] = lines
			}
			command, lines = strings.TrimSpace(next), ""
		}
	}
	return out
}

// compare compares two tables cell by cell, but for the age.
func compare(t *testing.T, printed map[string]string, resource, got string) {
	t.Helper()
	cells := func(table string) string {
		var out []string
		for line := range strings.Lines(strings.TrimSpace(table)) {
			fields := strings.Fields(line)
			out = append(out, strings.Join(fields[:len(fields)-1], " "))
		}
		return strings.Join(out, "\n")
	}
	if printed[resource] == "" || cells(got) != cells(printed[resource]) {
		t.Errorf("kubectl get %s prints\n%s\nand the README says\n%s", resource, got, printed[resource])
	}
}

// TestTheArchiveOfTheSampleIsItsFolder unpacks the archive in the sample of a KfDef.
func TestTheArchiveOfTheSampleIsItsFolder(t *testing.T) {
	raw, err := os.ReadFile(folder + "kfdef.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	data, _, _ := unstructured.NestedString(objects[0].Object, "binaryData", "manifests.tar.gz")
	archive, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := unpack(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = fs.WalkDir(os.DirFS(folder+"kfdef"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		want, err := os.ReadFile(filepath.Join(folder, "kfdef", path))
		if got[path] != string(want) {
			t.Errorf("%s is in the archive as\n%s", path, got[path])
		}
		return err
	})
	if err != nil || files != len(got) {
		t.Errorf("the folder has %d files, and the archive %d: %v", files, len(got), err)
	}
}
