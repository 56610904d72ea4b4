package cluster

import "slices"

// Orders returns every order of the steps.
func Orders[T any](steps ...T) [][]T {
	if len(steps) == 0 {
		return [][]T{nil}
	}
	var out [][]T
	for i, first := range steps {
		rest := slices.Delete(slices.Clone(steps), i, i+1)
		for _, o := range Orders(rest...) {
			out = append(out, append([]T{first}, o...))
		}
	}
	return out
}
