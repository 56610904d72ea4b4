package cli

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// redacted stands for a value that is not shown. It is no base64, so that a redacted Secret can never be applied.
const redacted = "***"

var secretKind = schema.GroupKind{Kind: "Secret"}

// redact hides the values of a Secret, in place.
func redact(u *unstructured.Unstructured) {
	if u.GroupVersionKind().GroupKind() != secretKind {
		return
	}
	for _, name := range []string{"data", "stringData"} {
		switch values := u.Object[name].(type) {
		case nil:
		case map[string]any:
			for key := range values {
				values[key] = redacted
			}
		default:
			u.Object[name] = redacted
		}
	}
}

// printRendered prints the plans: YAML documents with the stage above each, or one List.
func printRendered(w io.Writer, all []rendered, f renderFlags) error {
	items := []any{}
	for _, r := range all {
		for _, stage := range r.plan.Stages {
			for _, o := range stage.Objects {
				if _, skipped := r.skipped[o.Key()]; skipped {
					continue
				}
				u, err := marked(o, r.stack)
				if err != nil {
					return err
				}
				if !f.showSecrets {
					redact(u)
				}
				if f.output == "json" {
					items = append(items, u.Object)
					continue
				}
				comments := []string{"stack: " + r.stack.ID(), "stage: " + stage.Name}
				if o.Retain {
					comments = append(comments, "retained: it stays when its custom resource is deleted")
				}
				if err := printDocument(w, u, comments); err != nil {
					return err
				}
			}
		}
	}
	if f.output != "json" {
		return nil
	}
	return printJSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

func printDocument(w io.Writer, u *unstructured.Unstructured, comments []string) error {
	raw, err := yaml.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var out strings.Builder
	out.WriteString("---\n")
	for _, comment := range comments {
		out.WriteString("# " + Clean(comment) + "\n")
	}
	out.Write(raw)
	_, err = io.WriteString(w, out.String())
	return err
}
