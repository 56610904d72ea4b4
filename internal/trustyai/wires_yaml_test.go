package trustyai

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"mlkeeper.dev/internal/engine/wiring"
)

const testURL = "http://trustyai-service.ns.svc.cluster.local/consumer/kserve/v2"

// TestMeshConfigText shows how the text looks with the URL; taking the URL out must give the first text back, byte by
// byte.
func TestMeshConfigText(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"empty":                  {"", "payloadProcessors: U\n"},
		"only a comment":         {"# nothing yet", "# nothing yet\npayloadProcessors: U"},
		"document start":         {"---\n", "---\npayloadProcessors: U\n"},
		"other keys":             {"# head\nb: 1 # one\n\na:\n    - x\n", "# head\nb: 1 # one\n\na:\n    - x\npayloadProcessors: U\n"},
		"no newline at the end":  {"a: b", "a: b\npayloadProcessors: U"},
		"text at the end":        {"a: |\n  text", "payloadProcessors: U\na: |\n  text"},
		"document end":           {"a: b\n...\n", "payloadProcessors: U\na: b\n...\n"},
		"indented":               {"  a: b\n  c: d\n", "  a: b\n  c: d\n  payloadProcessors: U\n"},
		"Windows":                {"a: b\r\n", "a: b\r\npayloadProcessors: U\r\n"},
		"JSON":                   {`{"a": 1}`, `{"payloadProcessors": "U", "a": 1}`},
		"empty braces":           {"{}\n", "{\"payloadProcessors\": \"U\"}\n"},
		"one URL":                {"payloadProcessors: http://x/y # mine\na: b\n", "payloadProcessors: http://x/y U # mine\na: b\n"},
		"double quotes":          {"payloadProcessors: \"http://x\"\n", "payloadProcessors: \"http://x U\"\n"},
		"single quotes":          {"a: 1\npayloadProcessors: 'x  y' \n", "a: 1\npayloadProcessors: 'x  y  U' \n"},
		"quoted JSON":            {`{"payloadProcessors":"x","b":[1]}`, `{"payloadProcessors":"x U","b":[1]}`},
		"literal block":          {"payloadProcessors: |\n  x\n  y\nz: 1\n", "payloadProcessors: |\n  x\n  y\n  U\nz: 1\n"},
		"literal block of one":   {"payloadProcessors: |-\n    x\n", "payloadProcessors: |-\n    x\n    U\n"},
		"folded block":           {"payloadProcessors: >\n  x y\n", "payloadProcessors: >\n  x y U\n"},
		"plain over two lines":   {"payloadProcessors: x\n  y\nb: c\n", "payloadProcessors: x\n  y\n  U\nb: c\n"},
		"no value":               {"payloadProcessors:\nb: c\n", "payloadProcessors: U\nb: c\n"},
		"no value but a comment": {"payloadProcessors:   # none\n", "payloadProcessors: U   # none\n"},
		"null":                   {"payloadProcessors: ~\n", "payloadProcessors: U\n"},
		"empty quotes":           {"payloadProcessors: \"\"\n", "payloadProcessors: \"U\"\n"},
		"anchors elsewhere":      {"base: &b {k: 1}\nuse: *b\n", "base: &b {k: 1}\nuse: *b\npayloadProcessors: U\n"},
		"not ASCII":              {"ключ: значение # ж\npayloadProcessors: ж\n", "ключ: значение # ж\npayloadProcessors: ж U\n"},
		"prefix of another":      {"payloadProcessors: U/more\n", "payloadProcessors: U/more U\n"},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := strings.ReplaceAll(c.before, "U", testURL), strings.ReplaceAll(c.after, "U", testURL)
			got, made := mustAdd(t, before)
			if got != after {
				t.Fatalf("got\n%q\nwant\n%q", got, after)
			}
			config, err := parseMeshConfig(got)
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := config.removeURL(testURL, meshMadeOf(made.detail()))
			if err != nil || back != before {
				t.Errorf("taken out again (%v):\n%q\nwant\n%q", err, back, before)
			}
		})
	}
}

func mustAdd(t *testing.T, text string) (string, meshMade) {
	t.Helper()
	config, err := parseMeshConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	got, made, err := config.addURL(testURL)
	if err != nil {
		t.Fatal(err)
	}
	return got, made
}

func TestMeshConfigRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, reason string }{
		"not YAML":          {"a: b: c", ReasonConfigNotYAML},
		"tab":               {"\ta: b", ReasonConfigNotYAML},
		"a list":            {"- a\n", ReasonConfigNotYAML},
		"a text":            {"hello", ReasonConfigNotYAML},
		"two documents":     {"a: b\n---\nc: d\n", ReasonConfigNotYAML},
		"set twice":         {"payloadProcessors: a\npayloadProcessors: b\n", ReasonConfigNotYAML},
		"a list of URLs":    {"payloadProcessors: [a, b]\n", ReasonConfigNotEditable},
		"an alias":          {"a: &a x\npayloadProcessors: *a\n", ReasonConfigNotEditable},
		"an anchor":         {"payloadProcessors: &a x\nb: *a\n", ReasonConfigNotEditable},
		"merged":            {"a: &a {payloadProcessors: x}\n<<: *a\n", ReasonConfigNotEditable},
		"escaped URL":       {`payloadProcessors: "\x41"`, ReasonConfigNotEditable},
		"too deep":          {strings.Repeat("[", 20000), ReasonConfigNotYAML},
		"too large":         {"# " + strings.Repeat("x", 1<<20), ReasonConfigTooLarge},
		"too many values":   {"a: [" + strings.Repeat("b,", 100_000) + "]", ReasonConfigTooLarge},
		"a complex key":     {"? a\n: |\n b", ReasonConfigNotEditable},
		"empty block":       {"payloadProcessors: |\n", ReasonConfigNotEditable},
		"control character": {"a: \x00", ReasonConfigNotYAML},
	} {
		t.Run(name, func(t *testing.T) {
			target := meshConfigMap(c.text)
			edited, outcomes, err := editMeshConfig(target, nil, []wiring.Entry{{Owner: "o", Value: testURL}})
			if err != nil || edited != nil || len(outcomes) != 1 {
				t.Fatalf("edited %v, outcomes %v, error %v", edited, outcomes, err)
			}
			if o := outcomes[0]; o.Wired || o.Record || o.Reason != c.reason || o.Message == "" {
				t.Errorf("outcome %+v", o)
			}
			recorded := []wiring.Entry{{Owner: "o", Value: "http://gone"}}
			_, outcomes, _ = editMeshConfig(target, recorded, nil)
			for _, o := range outcomes {
				if !o.Record {
					t.Errorf("what could not be taken out is forgotten: %+v", o)
				}
			}
		})
	}
}

func TestMeshConfigImmutable(t *testing.T) {
	target := meshConfigMap("a: b\n")
	target.Object["immutable"] = true
	edited, outcomes, err := editMeshConfig(target, nil, []wiring.Entry{{Owner: "o", Value: testURL}})
	if err != nil || edited != nil || outcomes[0].Reason != ReasonConfigImmutable {
		t.Errorf("edited %v, outcomes %v, error %v", edited, outcomes, err)
	}
}

func TestMeshConfigUserEditsStay(t *testing.T) {
	for name, c := range map[string]struct {
		before   string
		edit     func(string) string
		expected string
	}{
		"comment on our line":  {"a: b\n", func(s string) string { return strings.TrimSuffix(s, "\n") + " # why\n" }, "a: b\npayloadProcessors: # why\n"},
		"URL behind ours":      {"a: b\n", func(s string) string { return strings.TrimSuffix(s, "\n") + " http://x\n" }, "a: b\npayloadProcessors: http://x\n"},
		"his own taken out":    {"payloadProcessors: http://x\n", func(s string) string { return strings.Replace(s, "http://x ", "", 1) }, "payloadProcessors:\n"},
		"keys behind ours":     {"a: b", func(s string) string { return s + "\nc: d" }, "a: b\nc: d"},
		"ours taken out":       {"a: b\n", func(string) string { return "a: b\n" }, "a: b\n"},
		"ours quoted":          {"a: b\n", func(s string) string { return strings.Replace(s, testURL, `"`+testURL+`"`, 1) }, "a: b\npayloadProcessors: \"\"\n"},
		"null and another":     {"payloadProcessors: ~\n", func(s string) string { return strings.Replace(s, testURL, "http://x "+testURL, 1) }, "payloadProcessors: http://x\n"},
		"braces and other key": {"{}", func(s string) string { return strings.Replace(s, "}", ", b: c}", 1) }, "{b: c}"},
	} {
		t.Run(name, func(t *testing.T) {
			text, made := mustAdd(t, c.before)
			config, err := parseMeshConfig(c.edit(text))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := config.removeURL(testURL, made)
			if err != nil || got != c.expected {
				t.Errorf("got %q (%v), want %q", got, err, c.expected)
			}
		})
	}
}

func TestMeshMadeTrustsNothing(t *testing.T) {
	if m := meshMadeOf(`{"was":"evil: true\n"}`); m.Was != "" {
		t.Errorf("%+v", m)
	}
	if m := meshMadeOf(`{"key":`); m != (meshMade{}) {
		t.Errorf("%+v", m)
	}
}

func meshConfigMap(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{meshConfigFile: text},
	}}
	u.SetNamespace("ns")
	u.SetName(meshConfigName)
	return u
}

// meshTexts draws configurations of every layout that is edited, and the odd one that is not.
func meshTexts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{
			"# a comment", "", "a: 1", "b: [x, y]  # list", "c:", "  - deep: {k: v}", "d: |", "   text # no comment", "e: \"q\"",
			"payloadProcessors: http://u1", "payloadProcessors: 'http://u1  http://u2'  # mine", "payloadProcessors:",
			"payloadProcessors: |\n  http://u1\n  http://u2", "payloadProcessors: \"\"", "payloadProcessors: null", "---", "...",
			"f: >-\n  folded\n  text", "payloadProcessors: " + testURL,
		}), 0, 6).Draw(t, "lines")
		text := strings.Join(lines, rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "newline"))
		return text + rapid.SampledFrom([]string{"", "\n", "\n\n"}).Draw(t, "end")
	})
}

func TestMeshConfigTextProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkMeshText(t, meshTexts().Draw(t, "text")) })
}

func FuzzMeshConfig(f *testing.F) {
	f.Add("a: b\npayloadProcessors: http://x\n")
	f.Add("{\"payloadProcessors\": \"x\"}")
	f.Add("payloadProcessors: |\n  x\n")
	f.Add("- &a [*a]")
	f.Fuzz(func(t *testing.T, text string) { checkMeshText(t, text) })
}

// checkMeshText adds a URL and takes it out again: nothing else may change, and the text comes back.
func checkMeshText(t interface{ Fatalf(string, ...any) }, text string) {
	config, err := parseMeshConfig(text)
	if err != nil {
		var refusal *wireError
		if !errors.As(err, &refusal) || refusal.reason == "" {
			t.Fatalf("%q: refused without a reason: %v", text, err)
		}
		return
	}
	if lastIndex(config.urls(), testURL) >= 0 {
		return
	}
	added, made, err := config.addURL(testURL)
	if err != nil {
		return
	}
	with, err := parseMeshConfig(added)
	if err != nil {
		t.Fatalf("%q: the edit does not parse: %q: %v", text, added, err)
	}
	back, left, err := with.removeURL(testURL, meshMadeOf(made.detail()))
	if err != nil {
		t.Fatalf("%q: what was added cannot be taken out: %q: %v", text, added, err)
	}
	if back != text {
		t.Fatalf("%q comes back as %q (with the URL: %q)", text, back, added)
	}
	if left.Key {
		t.Fatalf("%q: the key is still taken for ours", text)
	}
}
