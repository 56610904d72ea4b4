package seldon

import (
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/source"
)

// TestWhatIsRandomStaysWhenItsNamesChange: a stack whose values were named by their places in the whole chart keeps them over the first
// rendering since, a change of the chart after it, and restarts; one that is made now has names by file from the beginning.
func TestWhatIsRandomStaysWhenItsNamesChange(t *testing.T) {
	const own = "{apiVersion: v1, kind: Secret, metadata: {name: own}, stringData: {a: '{{ randAlphaNum 10 }}', key: {{ genPrivateKey \"ed25519\" | quote }}}}\n"
	const other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {x: '{{ randAlphaNum 10 }} {{ genPrivateKey \"ed25519\" | len }}'}}\n"
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	before := made(t, nil, testNow, helm.Certificate{Kind: helm.Key, Type: "ed25519", CommonName: "1"})
	legacy := map[string]string{}
	for entry, value := range before.data {
		if entry != entryNaming {
			legacy[entry] = string(value)
		}
	}
	oldKey, _ := before.Certificate(helm.Certificate{Kind: helm.Key, Type: "ed25519", CommonName: "1"})
	old := map[string]string{"a": helm.Pick(before.bytes("randAlphaNum 10#1", 20), alphanumeric), "key": oldKey.Key}
	for name, data := range map[string]map[string]string{"made before": legacy, "made now": nil} {
		t.Run(name, func(t *testing.T) {
			from := &fakeStore{store: store}
			put := func(files fstest.MapFS) {
				t.Helper()
				files["Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: small\nversion: 1.0.0\n")}
				if from.data, err = manifesttest.Pack(files); err != nil {
					t.Fatal(err)
				}
			}
			cr := &v1alpha1.SeldonOperator{}
			cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
			cluster := controllertest.New(testNow)
			if data != nil {
				cluster.Own(opaque("stack-generated", data), stackOf(cr).ID())
			}
			// settled has everything rendered and stored, and returns what is random.
			settled := func() map[string]string {
				t.Helper()
				clear(cluster.Answers)
				s := New(Settings{Trusted: true, Sources: from}).(*system)
				for range 6 {
					facts, err := s.Gather(t.Context(), cluster, cr)
					if err != nil {
						t.Fatal(err)
					}
					cluster.Written(s.Render(cr, facts), stackOf(cr).ID())
					if part := facts.Parts; len(part) > 0 && !part[0].Pending && facts.Keys.stored {
						if failure := part[0].Result.Failure; failure != nil {
							t.Fatal(failure)
						}
						for _, o := range part[0].Result.Content.Objects {
							if o.GetName() == "own" {
								found, _, _ := unstructured.NestedStringMap(o.Object, "stringData")
								return found
							}
						}
					}
					for _, asked := range cluster.Asked {
						cluster.Answers[asked.Name] = asked.Job(t.Context(), nil)
					}
					cluster.Asked = nil
				}
				t.Fatal("it does not settle")
				return nil
			}
			put(fstest.MapFS{"templates/own.yaml": {Data: []byte(own)}})
			first := settled()
			if stays := first["a"] == old["a"] && first["key"] == old["key"]; stays != (data != nil) {
				t.Errorf("what is random is %q, and was %q", first, old)
			}
			put(fstest.MapFS{
				"templates/a.yaml": {Data: []byte(other)}, "templates/own.yaml": {Data: []byte(own)}, "templates/z.yaml": {Data: []byte(other)},
			})
			for range 2 {
				if next := settled(); next["a"] != first["a"] || next["key"] != first["key"] || len(next["a"]) != 10 {
					t.Errorf("with another file, what is random is %q, and was %q", next, first)
				}
			}
		})
	}
}

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// TestTheNamesOfBeforeAreBounded: a chart that asks for more than is recorded has the others by their names of now.
func TestTheNamesOfBeforeAreBounded(t *testing.T) {
	k := (&keys{data: map[string][]byte{entrySeed: []byte("seed")}}).of(core)
	for i := range maxNames + 1 {
		k.named(helm.Name{Now: string(rune('a' + i)), Before: "b"})
	}
	if got := k.named(helm.Name{Now: "late", Before: "b"}); got != core+" late" || len(k.found) != maxNames {
		t.Errorf("%s, beside %d", got, len(k.found))
	}
	k.data[prefixNames+core] = []byte("no JSON")
	if k := k.of(core); k.unknown || k.named(helm.Name{Now: "n", Before: "b"}) != core+" n" {
		t.Error("damaged names are used")
	}
}
