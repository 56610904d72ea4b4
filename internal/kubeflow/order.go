package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
)

// sortByDependencies orders applications: each after those it depends on, and otherwise as in the spec. wrong says of applications why they
// cannot be sorted: each is in a circle of dependencies, or depends on what there is not. waits says of those that depend on a circle, by way
// of others too, what they wait for.
func sortByDependencies(applications []kubeflowv1.Application) (order []int, wrong, waits map[int]string) {
	after, wrong := dependencies(applications)
	order, left := placeable(after, nil)
	// blocked says what those wait for that depend on an application.
	blocked, waits := map[int]string{}, map[int]string{}
	for _, i := range left {
		if names := circle(applications, after, i); len(names) > 0 {
			order = append(order, i)
			wrong[i] = "dependsOn goes in a circle by way of " + strings.Join(names, ", ")
			blocked[i] = "application " + applications[i].Name + ", whose dependsOn goes in a circle"
		}
	}
	order, _ = placeable(after, order)
	for _, i := range order {
		for _, j := range after[i] {
			if blocked[i] == "" && blocked[j] != "" {
				waits[i], blocked[i] = blocked[j], blocked[j]
			}
		}
	}
	return order, wrong, waits
}

// dependencies are the applications that each one depends on, by their places. wrong says of those that name one that there is not.
func dependencies(applications []kubeflowv1.Application) (after [][]int, wrong map[int]string) {
	place := map[string]int{}
	for i, a := range applications {
		if _, taken := place[a.Name]; !taken {
			place[a.Name] = i
		}
	}
	after, wrong = make([][]int, len(applications)), map[int]string{}
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
	return after, wrong
}

// placeable adds to an order what can follow it, one after the other, and says what is left.
func placeable(after [][]int, order []int) (more, left []int) {
	placed := make([]bool, len(after))
	for _, i := range order {
		placed[i] = true
	}
	for next := 0; next >= 0; {
		next = -1
		for i := range after {
			if !placed[i] && !slices.ContainsFunc(after[i], func(j int) bool { return !placed[j] }) {
				next, placed[i], order = i, true, append(order, i)
				break
			}
		}
	}
	for i := range after {
		if !placed[i] {
			left = append(left, i)
		}
	}
	return order, left
}

// circle names those dependencies of an application by way of which it depends on itself.
func circle(applications []kubeflowv1.Application, after [][]int, i int) (names []string) {
	// What depends on the application, by way of others too.
	dependants, todo := map[int]bool{i: true}, []int{i}
	for len(todo) > 0 {
		of := todo[0]
		todo = todo[1:]
		for j := range after {
			if !dependants[j] && slices.Contains(after[j], of) {
				dependants[j], todo = true, append(todo, j)
			}
		}
	}
	for _, j := range after[i] {
		if name := applications[j].Name; dependants[j] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
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
