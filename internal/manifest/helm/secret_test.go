package helm

import (
	"context"
	"strings"
	"testing"
)

// secretText is what no error may quote, not even in part.
const secretText = "hunter2hunter2"

// secretChart is a chart of one template, in whose second line an expression is.
func secretChart(expression string) string {
	return "-- templates/a.yaml --\n# The second line fails.\n{{ " + expression + " }}\n"
}

func withSecret(t *testing.T, files string) Input {
	t.Helper()
	in := input(chartOf(t, files), map[string]any{"password": secretText})
	in.Secret = true
	return in
}

func wantNoSecret(t *testing.T, text, secret, want string) {
	t.Helper()
	for i := range len(secret) - 3 {
		if strings.Contains(text, secret[i:i+4]) {
			t.Fatalf("%q is quoted: %s", secret[i:i+4], text)
		}
	}
	if !strings.Contains(text, want) {
		t.Errorf("%s; want %q", text, want)
	}
}

// TestErrorsQuoteNoSecretValue has templates fail in every way in which Helm, the functions of templates and the parsers quote a value.
func TestErrorsQuoteNoSecretValue(t *testing.T) {
	const inLine = "small/templates/a.yaml fails in line 2"
	for name, c := range map[string]struct{ files, want string }{
		"fail":             {secretChart(`fail .Values.password`), inLine},
		"required":         {secretChart(`required .Values.password nil`), inLine},
		"encoded":          {secretChart(`fail (printf "%s" .Values.password)`), inLine},
		"include":          {secretChart(`include .Values.password .`), inLine},
		"tpl":              {secretChart(`tpl (printf "{{ %s }}" .Values.password) .`), inLine},
		"a date":           {secretChart(`mustToDate "2006" .Values.password`), inLine},
		"a version":        {secretChart(`semver .Values.password`), inLine},
		"a repeated text":  {secretChart(`repeat 99999 .Values.password`), inLine},
		"a list":           {"-- templates/a.yaml --\n{{ .Values.password }}\n", "small/templates/a.yaml renders no YAML"},
		"an alias":         {"-- templates/a.yaml --\na: *{{ .Values.password }}\n", "small/templates/a.yaml renders no YAML"},
		"schema":           {"-- values.schema.json --\n{\"properties\": {\"password\": {\"pattern\": \"^[0-9]+$\"}}}\n", "the values do not fit the chart"},
		"enumeration":      {"-- values.schema.json --\n{\"properties\": {\"password\": {\"enum\": [1]}}}\n", "the values do not fit the chart"},
		"no secret inside": {secretChart(`range until 3000`) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a{{ . }}}\n{{ end }}", "more than 2000 objects: split it"},
	} {
		t.Run(name, func(t *testing.T) {
			in := withSecret(t, c.files)
			_, err := Render(t.Context(), in)
			if err == nil {
				t.Fatal("it is rendered")
			}
			wantNoSecret(t, err.Error(), secretText, c.want)
		})
	}
}

// TestErrorsQuoteNothingThatTemplatesReadOfSecrets has values that are none, and templates that look a Secret up or generate a password.
func TestErrorsQuoteNothingThatTemplatesReadOfSecrets(t *testing.T) {
	generated, err := renderExpression(t, "randAlphaNum 20")
	if err != nil {
		t.Fatal(err)
	}
	const inLine = "small/templates/a.yaml fails in line 2"
	for name, c := range map[string]struct{ expression, secret, want string }{
		"a Secret":    {`fail (lookup "v1" "Secret" "ns" "login").data.password`, secretText, inLine},
		"Secrets":     {`fail (index (lookup "v1" "Secret" "ns" "").items 0).data.password`, secretText, inLine},
		"a password":  {`fail (randAlphaNum 20)`, generated, inLine},
		"a key":       {`fail (genSelfSignedCert "own" nil nil 1).Key`, secretText, inLine},
		"no Secret":   {`fail (lookup "v1" "ConfigMap" "ns" "login").data.password`, "", secretText},
		"no secret":   {`fail "say why"`, "", "say why"},
		"public":      {`fail (genCA "ca" 1).Cert`, "", "the authority"},
		"none, later": {`fail (print "say why" (len (lookup "v1" "Secret" "ns" "none")))`, "", "say why0"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(chartOf(t, secretChart(c.expression)), nil)
			in.Generated = memory{seed: "seed", has: map[string]Pair{"SelfSigned own": {Cert: "public", Key: secretText}}}
			in.Lookup = func(_ context.Context, _, _, _, name string) (map[string]any, error) {
				one := map[string]any{"data": map[string]any{"password": secretText}}
				switch name {
				case "none":
					return nil, nil
				case "":
					return map[string]any{"items": []any{one}}, nil
				}
				return one, nil
			}
			_, err := Render(t.Context(), in)
			if err == nil {
				t.Fatal("it is rendered")
			}
			wantNoSecret(t, err.Error(), c.secret, c.want)
		})
	}
}

// TestWarningsQuoteNoValueOfAnAnnotation: it may be any value of the chart.
func TestWarningsQuoteNoValueOfAnAnnotation(t *testing.T) {
	out, err := Render(t.Context(), withSecret(t, "-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\n"+
		"metadata: {name: a, annotations: {helm.sh/hook: '{{ .Values.password }}'}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, strings.Join(out.Warnings.Texts, " "), secretText, "ConfigMap a is left out: it is a hook of an event that Helm does not know")
}
