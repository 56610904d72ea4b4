package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/util/jsonpath"
)

// The formats of --output that all reports have.
const (
	outputJSON     = "json"
	outputYAML     = "yaml"
	outputName     = "name"
	outputJSONPath = "jsonpath="
)

// nameable are the reports on objects that a further command can be given.
type nameable interface{ names() []string }

// checkOutput refuses a format of --output that a command does not have. Its own come before those of all reports.
func checkOutput(output string, report any, own ...string) error {
	all := slices.Concat(own, []string{outputJSON, outputYAML})
	if _, ok := report.(nameable); ok {
		all = append(all, outputName)
	}
	if slices.Contains(all, output) {
		return nil
	}
	if template, found := strings.CutPrefix(output, outputJSONPath); found {
		_, err := parseJSONPath(template)
		return err
	}
	return fmt.Errorf("--output %q: use one of %s and jsonpath=TEMPLATE", output, strings.Join(all, ", "))
}

func parseJSONPath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		// kubectl takes the braces for granted, too.
		template = "{" + template + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return nil, fmt.Errorf("--output jsonpath: %w", err)
	}
	return path, nil
}

// printReport prints a report in a format that all reports have; printed is false for another one, which the command prints itself.
func printReport(w io.Writer, output string, report any) (printed bool, err error) {
	switch template, found := strings.CutPrefix(output, outputJSONPath); {
	case found:
		return true, printJSONPath(w, template, report)
	case output == outputJSON:
		return true, printJSON(w, report)
	case output == outputYAML:
		return true, printYAML(w, report)
	case output == outputName:
		list, ok := report.(nameable)
		if !ok {
			return true, errors.New("--output name: the report has no objects")
		}
		return true, printLines(w, list.names()...)
	}
	return false, nil
}

// tellWarnings says on standard error what a format leaves out that has a part of a report.
func tellWarnings(cmd *cobra.Command, output string, warnings []string) error {
	if output == outputJSON || output == outputYAML {
		return nil
	}
	return printWarnings(cmd.ErrOrStderr(), warnings)
}

func printYAML(w io.Writer, report any) error {
	content, err := asJSON(report)
	if err != nil {
		return err
	}
	var out strings.Builder
	// The library takes no control characters out of JSON, but it writes them, escaped.
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(content); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return printLines(w, CleanLines(strings.TrimSuffix(out.String(), "\n")))
}

func printJSONPath(w io.Writer, template string, report any) error {
	path, err := parseJSONPath(template)
	if err != nil {
		return err
	}
	content, err := asJSON(report)
	if err != nil {
		return err
	}
	var out strings.Builder
	if err := path.Execute(&out, content); err != nil {
		return fmt.Errorf("--output jsonpath: %w", err)
	}
	return printLines(w, CleanLines(out.String()))
}

// asJSON is a report with the fields that JSON has.
func asJSON(report any) (any, error) {
	data, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var content any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return content, nil
}

// names implements nameable.
func (r *StatusReport) names() []string {
	var out []string
	for i := range r.Stacks {
		out = append(out, r.Stacks[i].argument())
	}
	return out
}

// names implements nameable.
func (r *TreeReport) names() []string {
	var out []string
	for i := range r.Stacks {
		out = append(out, r.Stacks[i].argument())
	}
	return out
}

// argument is how kubectl and these commands are told of the custom resource, as kubectl get -o name prints it.
func (s *StackStatus) argument() string {
	group, _, _ := strings.Cut(s.APIVersion, "/")
	return Clean(strings.ToLower(s.Kind) + "." + group + "/" + s.Name)
}
