// Command minimal prints what the tests used of the operator's roles, and fails if a right is unused or missing without a reason. The
// tests of test/cluster write what they used to a folder if the environment variable MLKEEPER_RIGHTS names one; hack/rbac-minimal.sh runs
// both.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/rights"
)

func main() {
	folder := flag.String("used", "bin/rights", "folder with what the tests used")
	reasons := flag.String("reasons", "test/rights/reasons.yaml", "file with the reasons")
	partial := flag.Bool("partial", false, "only some tests ran: what they did not use is printed, and is no finding")
	flag.Parse()
	if err := run(os.Stdout, *folder, *reasons, *partial); err != nil {
		fmt.Fprintln(os.Stderr, "rbac-minimal:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folder, reasonsFile string, partial bool) error {
	roles, err := shipped()
	if err != nil {
		return err
	}
	used, err := recorded(folder)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(reasonsFile)
	if err != nil {
		return err
	}
	var reasons []rights.Reason
	if err := yaml.UnmarshalStrict(text, &reasons); err != nil {
		return fmt.Errorf("%s: %w", reasonsFile, err)
	}
	rows, unexercised := rights.Compare(roles, used, reasons)
	if err := rights.Print(out, rows); err != nil {
		return err
	}
	unused, missing := rights.Findings(rows)
	switch {
	case missing > 0 || unused > 0 && !partial:
		return fmt.Errorf("%d rights are unused and %d missing: change the role, or say in %s why it is as it is", unused, missing, reasonsFile)
	case len(unexercised) > 0 && !partial:
		return fmt.Errorf("no test ran an operator with %s", strings.Join(unexercised, ", "))
	}
	return nil
}

// recorded reads what the tests used.
func recorded(folder string) ([]rights.Used, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New(folder + " has nothing of a test: did one run?")
	}
	var out []rights.Used
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var used []rights.Used
		if err := json.Unmarshal(text, &used); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, used...)
	}
	return out, nil
}

// shipped are the roles of the operator in config/, by name.
func shipped() (map[string][]rbacv1.PolicyRule, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	out := map[string][]rbacv1.PolicyRule{}
	for _, pattern := range []string{"rbac/*/role.yaml", "rbac/engine/*_role.yaml", "components/every-namespace/role.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, "config", filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			objects, err := cluster.Parse(string(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, u := range objects {
				if kind := u.GetKind(); kind != "Role" && kind != "ClusterRole" {
					continue
				}
				var role rbacv1.ClusterRole
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				out[role.Name] = role.Rules
			}
		}
	}
	return out, nil
}
