package trustyai

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// meshPod is the pod template of a Deployment that is edited in place. It works on the unstructured object, so that
// fields which this binary does not know survive, and takes nothing for granted about types.
type meshPod struct {
	object  *unstructured.Unstructured
	spec    map[string]any
	changed bool
}

func podOf(u *unstructured.Unstructured) *meshPod {
	return &meshPod{object: u, spec: podSpec(u)}
}

func podSpec(u *unstructured.Unstructured) map[string]any {
	at := u.Object
	for _, field := range []string{"spec", "template", "spec"} {
		at, _ = at[field].(map[string]any)
	}
	return at
}

func podItems(u *unstructured.Unstructured, field string) []map[string]any {
	return mapsIn(podSpec(u)[field])
}

func (p *meshPod) containers() []map[string]any { return mapsIn(p.spec["containers"]) }

func (p *meshPod) volume(name string) map[string]any {
	for _, v := range mapsIn(p.spec["volumes"]) {
		if v["name"] == name {
			return v
		}
	}
	return nil
}

// mounted says that any container still mounts the volume.
func (p *meshPod) mounted(volume string) bool {
	for _, field := range []string{"containers", "initContainers"} {
		for _, c := range mapsIn(p.spec[field]) {
			if slices.ContainsFunc(mapsIn(c["volumeMounts"]), func(m map[string]any) bool { return m["name"] == volume }) {
				return true
			}
		}
	}
	return false
}

// add appends an item to a list of the holder.
func (p *meshPod) add(holder map[string]any, field string, item map[string]any) {
	list, _ := holder[field].([]any)
	holder[field] = append(list, item)
	p.changed = true
}

// drop removes the items of a list that match, and the list when it becomes empty, as the API server leaves it out.
func (p *meshPod) drop(holder map[string]any, field string, match func(map[string]any) bool) {
	list, ok := holder[field].([]any)
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(list), func(i any) bool {
		m, ok := i.(map[string]any)
		return ok && match(m)
	})
	if len(left) == len(list) {
		return
	}
	p.changed = true
	if holder[field] = left; len(left) == 0 {
		delete(holder, field)
	}
}

// mapsIn returns the maps of a list, whatever else it holds.
func mapsIn(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// envOf is the variable of a container: the last of that name, which is the one that counts; nil when there is none.
func envOf(container map[string]any, name string) map[string]any {
	list := mapsIn(container["env"])
	for i := len(list) - 1; i >= 0; i-- {
		if list[i]["name"] == name {
			return list[i]
		}
	}
	return nil
}

func mountAt(container map[string]any, path string) map[string]any {
	for _, m := range mapsIn(container["volumeMounts"]) {
		if m["mountPath"] == path {
			return m
		}
	}
	return nil
}

func secretOf(volume map[string]any) string {
	secret, _ := volume["secret"].(map[string]any)
	name, _ := secret["secretName"].(string)
	return name
}
