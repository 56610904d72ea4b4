package helm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/manifest/worker"
)

// generated is how many templates are made up; a night may take 10000.
var generated = flag.Int("generated", 20, "how many templates are generated")

// templates has what templates are made of: what takes most, what answers something else each time, what reads, and what does not fit.
var templates = manifesttest.Grammar{
	"<int>": {
		"3", "0", "-1", "7", "40", "20000", "2000000000", "(len <list>)", "(add <int> <int>)", "(mul <int> <int>)", "(div 7 <int>)", "(randInt 1 <int>)",
		"(int <string>)", "<any>",
	},
	"<string>": {
		`"x"`, `""`, "$x", `"a: [b]"`, `"{{ include \"b\" . }}"`, "(repeat <int> <string>)", "(indent <int> <string>)", "(printf \"%s%s\" <string> <string>)",
		"(printf \"%900000d\" <int>)", "(cat <any> <any>)", "(join \",\" <list>)", "(replace \"x\" \"xx\" <string>)", "(regexReplaceAll \"x*\" \"xxx\" <string>)",
		"(toYaml <any>)", "(toJson <any>)", "(tpl <string> $)", "(include \"a\" <any>)", "(include \"b\" $)", "(randAlphaNum <int>)", "(shuffle <string>)", "uuidv4",
		"(genPrivateKey \"ecdsa\")", "(genSelfSignedCert \"a\" nil nil 1).Cert", "(derivePassword 1 \"long\" \"a\" \"b\" \"c\")", "(b64enc <string>)",
		"(quote <any>)", "(sha256sum <string>)", "(trunc <int> <string>)", "(wrap 3 <string>)", "(seq <int>)", "(htpasswd \"a\" <string>)", "(toToml <dict>)",
		"($.Files.Get <string>)", "(required \"it\" <string>)", "(fail <string>)", "(getHostByName <string>)", "(env \"HOME\")", "<any>",
	},
	"<list>": {
		`(list 1 "a")`, "(until <int>)", "(untilStep 0 <int> 7)", "(list <any> <any>)", "(append <list> <any>)", "(concat <list> <list>)", "(splitList \"x\" <string>)",
		"(keys <dict>)", "(fromYamlArray <string>)", "(deepCopy <list>)", "(slice <list> <int>)", ".Values.a", "<any>",
	},
	"<dict>": {
		`(dict "a" 1)`, ".Values", "$.Capabilities", "(dict <string> <any>)", "(merge <dict> <dict>)", "(deepCopy <dict>)", "(fromYaml <string>)",
		"(set <dict> <string> <any>)", "(lookup \"v1\" \"Secret\" \"ns\" <string>)", "(genCA \"a\" 1)", "<any>",
	},
	"<any>": {"nil", "1.5", "true", "$.Release", "<int>", "<string>", "<list>", "<dict>"},
	"<do>": {
		"", "{{ $x = <string> }}<do>", "{{ $x = printf \"%s%s\" $x $x }}<do>", "{{ range <list> }}<do>{{ end }}", "{{ range until 20000 }}<do><do>{{ end }}",
		"{{ if <any> }}<do>{{ else }}<do>{{ end }}", "{{ with <dict> }}<do>{{ end }}", "{{ $_ := set $.Values \"a\" <any> }}", "{{ template \"a\" . }}",
	},
	"<text>": {
		"x", "{{ <string> | toJson }}", "{{ <any> }}", "{{ range <list> }}<text>{{ end }}", "[&a [*a]]", "\n---\n", "{{ $x }}\n  c: {{ <any> | toJson }}", "\t{{",
	},
}

const generatedTemplate = `{{ $x := "x" }}<do>
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  a: {{ <any> | toJson }}
  b: <text>
{{ define "a" }}{{ $x := 1 }}<do>{{ end }}{{ define "b" }}{{ $x := . }}<do>x{{ end }}
`

// TestGeneratedTemplates renders what is made up. After all of it a good chart is still rendered.
func TestGeneratedTemplates(t *testing.T) {
	manifesttest.RenderGenerated(t, *generated, func(ctx context.Context, i int, namespace string, workers *worker.Pool) (bool, error) {
		text := rapid.Custom(func(t *rapid.T) string { return templates.Text(t, generatedTemplate, 6) }).Example(i)
		chart, err := Load(fstest.MapFS{
			"Chart.yaml": {Data: []byte("{apiVersion: v2, name: small, version: 1.2.3}\n")}, "templates/a.yaml": {Data: []byte(text)},
		})
		if err != nil {
			return false, err
		}
		in := input(chart, map[string]any{"a": []any{int64(1), "b"}})
		in.Namespace, in.Workers = namespace, workers
		out, err := renderInWorker(ctx, in, time.Second)
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, ErrUnavailable), !strings.HasPrefix(err.Error(), "chart small: "), strings.Contains(err.Error(), "ended too early"),
			len(err.Error()) > 2000, len(out.Objects) > 0:
			return false, fmt.Errorf("not refused with a reason: %w, %d objects\n%s", err, len(out.Objects), text)
		}
		return true, nil
	})
	if out, err := renderExpression(t, `printf "still %s" "here"`); err != nil || out != "still here" {
		t.Errorf("%q, %v", out, err)
	}
	checkNoWorkers(t)
}
