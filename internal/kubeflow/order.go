package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
)

// sortByDependencies orders applications: each after those it depends on, and otherwise as in the spec. wrong says of applications
// why they cannot be sorted; these come last.
func sortByDependencies(applications []kubeflowv1.Application) (order []int, wrong map[int]string) {
	wrong = map[int]string{}
	place := map[string]int{}
	for i, a := range applications {
		if _, taken := place[a.Name]; !taken {
			place[a.Name] = i
		}
	}
	after := make([][]int, len(applications))
	for i, a := range applications {
		for _, name := range a.DependsOn {
			j, known := place[name]
			if !known {
				wrong[i] = fmt.Sprintf("dependsOn names %q, which is no application of this KfDef", name)
				continue
			}
			after[i] = append(after[i], j)
		}
	}
	placed := make([]bool, len(applications))
	for {
		next := -1
		for i := range applications {
			if !placed[i] && !slices.ContainsFunc(after[i], func(j int) bool { return !placed[j] }) {
				next = i
				break
			}
		}
		if next < 0 {
			break
		}
		placed[next] = true
		order = append(order, next)
	}
	for i := range applications {
		if placed[i] {
			continue
		}
		order = append(order, i)
		var names []string
		for _, j := range after[i] {
			if !placed[j] {
				names = append(names, applications[j].Name)
			}
		}
		wrong[i] = fmt.Sprintf("dependsOn goes in a circle by way of %s", strings.Join(names, ", "))
	}
	return order, wrong
}

// firstOf is the place of the first application with the name of another one; that of the other itself where none is before it. What several
// applications of one name render cannot be told apart later, by the status and by what depends on them, so that the first alone is rendered.
// kfctl applied the first alone, too, but merged the folders of the others into its own (kubeflow/kfctl, pkg/kfapp/kustomize/kustomize.go,
// Generate and Apply). An application without a name is refused for that.
func firstOf(applications []kubeflowv1.Application, i int) int {
	name := applications[i].Name
	if name == "" {
		return i
	}
	return slices.IndexFunc(applications, func(a kubeflowv1.Application) bool { return a.Name == name })
}
