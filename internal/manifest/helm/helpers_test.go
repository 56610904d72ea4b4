package helm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// standIns are the charts of make demo.
const standIns = "../../../hack/demo/seldon/charts/"

// memory are the generated credentials of a test: it has every certificate that it is encoded to.
type memory struct {
	seed string
	has  map[string]Pair
}

func (m memory) Bytes(name Name, n int) []byte {
	var out []byte
	for i := 0; len(out) < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, m.seed, name.Now, i))
		out = append(out, sum[:]...)
	}
	return out[:n]
}

func (m memory) Since() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func (m memory) Certificate(c Certificate) (Pair, bool) {
	if c.Kind == Authority {
		return Pair{Cert: "the authority"}, true
	}
	pair, ok := m.has[c.Kind+" "+c.CommonName]
	return pair, ok
}

// folder loads a chart from a folder.
func folder(t testing.TB, path string) *Chart {
	t.Helper()
	c, err := Load(os.DirFS(path))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// chartOf loads a chart from files in one text, each after a line "-- NAME --"; Chart.yaml is added where there is none.
func chartOf(t testing.TB, text string) *Chart {
	t.Helper()
	files := fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: small\nversion: 1.2.3\n")}}
	for _, part := range strings.Split(text, "-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	c, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func input(c *Chart, values map[string]any) Input {
	return Input{
		Chart: c, Release: "release", Namespace: "ns", Values: values, Generated: memory{seed: "seed"},
		Cluster: Cluster{
			Version: "v1.36.2", Serves: func(v string) bool { return v == "apps/v1" },
			All: func() []string { return []string{"apps/v1", "apps/v1/Deployment", "v1"} },
		},
	}
}

// chartOfExpression is a chart of one ConfigMap that holds what an expression gives.
func chartOfExpression(expression string) string {
	return "-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: {{ " + expression + " | quote }}\n"
}

// renderExpression renders one expression.
func renderExpression(t testing.TB, expression string) (string, error) {
	t.Helper()
	out, err := Render(t.Context(), input(chartOf(t, chartOfExpression(expression)), nil))
	if err != nil {
		return "", err
	}
	x, _, _ := unstructured.NestedString(out.Objects[0].Object, "data", "x")
	return x, nil
}

func names(objects []*unstructured.Unstructured) string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetKind()+"/"+o.GetName())
	}
	return strings.Join(out, " ")
}
