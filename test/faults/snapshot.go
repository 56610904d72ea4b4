package faults

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// snapshot is the state of a run: for each object, by resource and lasting name, its fields by path. What differs from
// run to run by its nature is taken out.
type snapshot map[string]map[string]string

// unstable matches the paths whose values depend on the way to a state and not on the state: how the fields of an object
// came to be owned by MLKeeper, of which the inventory keeps a hash. A wrong hash shows all the same, as a write too many.
var unstable = regexp.MustCompile(`^status\.(children|objects)\[\d+\]\.fields$|^metadata\.annotations\.deployment~kubernetes~io/revision$`)

// instant matches a time, to the second or finer.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// interruption matches how long a migration kept a service from serving, which is how fast the machine is.
var interruption = regexp.MustCompile(`interrupted for (\d+h)?(\d+m)?\d+s`)

// digested matches what a key has of a digest of names, which are others in each run's namespace.
var digested = regexp.MustCompile(`-[0-9a-f]{16}\b`)

// serverMetadata are the fields of metadata that the API server sets.
var serverMetadata = []string{
	"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "deletionGracePeriodSeconds",
}

// take makes a snapshot of the objects of a run. The status of an object is taken where told says that MLKeeper writes it.
func take(objects map[string]*unstructured.Unstructured, namespace string, told func(resource string) bool) snapshot {
	names := map[string]string{}
	for key, u := range objects {
		resource, name, _ := strings.Cut(key, "/")
		names[string(u.GetUID())] = "uid of " + resource + "/" + lasting(name, namespace)
	}
	clean := func(s string) string {
		if name, ok := names[s]; ok {
			return name
		}
		s = strings.ReplaceAll(s, namespace, "NS")
		if m := inventory.FindStringSubmatch(s); m != nil {
			s = lasting(s, namespace)
		}
		if raw, err := base64.StdEncoding.DecodeString(s); err == nil && instant.Match(raw) {
			s = string(raw) // A Secret may tell a time too.
		}
		return interruption.ReplaceAllString(instant.ReplaceAllString(s, "TIME"), "interrupted for TIME")
	}
	out := snapshot{}
	places := stagePlaces(objects)
	for key, u := range objects {
		resource, name, _ := strings.Cut(key, "/")
		fields := map[string]string{}
		for field, value := range u.Object {
			if field == "status" && !told(resource) {
				continue
			}
			if m, ok := value.(map[string]any); ok && field == "metadata" {
				kept := map[string]any{}
				for k, v := range m {
					if !slices.Contains(serverMetadata, k) {
						kept[k] = v
					}
				}
				value = kept
			}
			flatten(field, value, clean, fields)
		}
		for path := range fields {
			if unstable.MatchString(path) {
				delete(fields, path)
			}
		}
		if place, found := places[key]; found {
			fields["spec.stage"] = place
		}
		out[resource+"/"+lasting(name, namespace)] = fields
	}
	return out
}

// stagePlaces are the places of the stages of Inventories among those of their custom resource. The numbers order them and depend on
// which were made first: between two there is room for others.
func stagePlaces(objects map[string]*unstructured.Unstructured) map[string]string {
	numbers := map[string][]int64{}
	of := func(key string, u *unstructured.Unstructured) (owner string, stage int64, found bool) {
		if !strings.HasPrefix(key, inventories+"/") {
			return "", 0, false
		}
		owner, _, _ = unstructured.NestedString(u.Object, "spec", "owner", "uid")
		stage, found, _ = unstructured.NestedInt64(u.Object, "spec", "stage")
		return owner, stage, found
	}
	for key, u := range objects {
		if owner, stage, found := of(key, u); found && !slices.Contains(numbers[owner], stage) {
			numbers[owner] = append(numbers[owner], stage)
		}
	}
	for _, all := range numbers {
		slices.Sort(all)
	}
	out := map[string]string{}
	for key, u := range objects {
		if owner, stage, found := of(key, u); found {
			out[key] = fmt.Sprintf("place %d", slices.Index(numbers[owner], stage))
		}
	}
	return out
}

// flatten writes the leaves of a value by their paths. Conditions are keyed by their type, since their order depends on
// which came first.
func flatten(path string, value any, clean func(string) string, out map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			out[path] = "{}"
		}
		for k, item := range v {
			flatten(path+"."+escape(digested.ReplaceAllString(k, "-DIGEST")), item, clean, out)
		}
	case []any:
		if len(v) == 0 {
			out[path] = "[]"
		}
		for i, item := range v {
			index := strconv.Itoa(i)
			if m, ok := item.(map[string]any); ok && strings.HasSuffix(path, ".conditions") {
				index = fmt.Sprint(m["type"])
			}
			flatten(path+"["+index+"]", item, clean, out)
		}
	case string:
		out[path] = clean(v)
	default:
		out[path] = fmt.Sprint(v)
	}
}

// escape spells a key so that its dots are told from those of the path.
func escape(key string) string { return strings.ReplaceAll(key, ".", "~") }

// mask holds the paths that differ between runs without faults, by object. An object that is not always there is masked
// as a whole, under the empty path.
type mask map[string]map[string]bool

func (m mask) add(object, path string) {
	if m[object] == nil {
		m[object] = map[string]bool{}
	}
	m[object][path] = true
}

// with is a mask that covers what either covers.
func (m mask) with(other mask) mask {
	out := mask{}
	for _, from := range []mask{m, other} {
		for object, paths := range from {
			for path := range paths {
				out.add(object, path)
			}
		}
	}
	return out
}

func (m mask) has(object, path string) bool { return m[object][""] || m[object][path] }

// learn finds what differs between runs without faults.
func learn(runs []snapshot) mask {
	m := mask{}
	for i := 1; i < len(runs); i++ {
		for _, d := range compare(runs[0], runs[i], mask{}) {
			m.add(d.Object, d.Path)
		}
	}
	return m
}

// Diff is a difference between the end of a run and that of the reference.
type Diff struct {
	Object string `json:"object"`
	// Path is the field; empty where the object as a whole is there or not there.
	Path string `json:"path,omitempty"`
	Want string `json:"want"`
	Have string `json:"have"`
}

// String prints the difference in one line.
func (d Diff) String() string {
	return fmt.Sprintf("%s %s is %s, not %s", d.Object, d.Path, short(d.Have), short(d.Want))
}

func short(s string) string {
	if len(s) > 1500 {
		return strings.ToValidUTF8(s[:1500], "") + "…"
	}
	return s
}

// absent stands for what is not there.
const absent = "(absent)"

// compare lists the differences between what is wanted and what there is, sorted, but for what the mask covers.
func compare(want, have snapshot, m mask) []Diff {
	var out []Diff
	for object, fields := range want {
		there, ok := have[object]
		if !ok {
			if !m.has(object, "") {
				out = append(out, Diff{Object: object, Want: "there", Have: absent})
			}
			continue
		}
		for path, value := range fields {
			got, ok := there[path]
			if !ok {
				got = absent
			}
			if got != value && !m.has(object, path) {
				out = append(out, Diff{Object: object, Path: path, Want: value, Have: got})
			}
		}
		for path, value := range there {
			if _, ok := fields[path]; !ok && !m.has(object, path) {
				out = append(out, Diff{Object: object, Path: path, Want: absent, Have: value})
			}
		}
	}
	for object := range have {
		if _, ok := want[object]; !ok && !m.has(object, "") {
			out = append(out, Diff{Object: object, Want: absent, Have: "there"})
		}
	}
	slices.SortFunc(out, func(a, b Diff) int { return strings.Compare(a.Object+" "+a.Path, b.Object+" "+b.Path) })
	return out
}
