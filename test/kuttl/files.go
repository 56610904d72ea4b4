package kuttl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
)

// defaultTimeout is kuttl's for a step without a TestAssert.
const defaultTimeout = 30 * time.Second

// testGroup is the API group of kuttl's own kinds.
const testGroup = "kuttl.dev"

// fileName is kuttl's pattern of file names: index, first word, more words, extension.
var fileName = regexp.MustCompile(`^(\d+-)?([^-.]+)(-[^.]+)?((?:\.gotmpl)?\.yaml)?$`)

// step is one numbered step of a case.
type step struct {
	index   int
	name    string
	timeout time.Duration
	deletes []reference
	applies []*unstructured.Unstructured
	asserts []*unstructured.Unstructured
	absents []*unstructured.Unstructured
}

// reference names what a TestStep deletes.
type reference struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Name       string            `json:"name"`
	Namespace  string            `json:"namespace"`
	Labels     map[string]string `json:"labels"`
}

func (r reference) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// testStep is the part of kuttl's TestStep that the runner knows.
type testStep struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	Delete     []reference     `json:"delete"`
}

// testAssert is the part of kuttl's TestAssert that the runner knows. Collectors only collect after a failure.
type testAssert struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	Timeout    int             `json:"timeout"`
	Collectors json.RawMessage `json:"collectors"`
}

// environment is what templates see.
type environment struct {
	Namespace string
	Vars      map[string]any
}

// load reads the steps of a case in order. Like kuttl it ignores files whose names are not numbered; unlike kuttl it
// refuses what it does not know, so that no case passes because half of it was left out.
func load(dir string, env environment) ([]*step, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	steps := map[int]*step{}
	for _, file := range files {
		parts := fileName.FindStringSubmatch(file.Name())
		if parts == nil || parts[1] == "" {
			continue
		}
		if file.IsDir() || parts[4] == "" {
			return nil, fmt.Errorf("%s: this runner reads numbered YAML files only", filepath.Join(dir, file.Name()))
		}
		index, err := strconv.Atoi(strings.TrimSuffix(parts[1], "-"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		s := steps[index]
		if s == nil {
			s = &step{index: index, timeout: defaultTimeout}
			steps[index] = s
		}
		objects, err := read(filepath.Join(dir, file.Name()), parts[4] == ".gotmpl.yaml", env)
		if err == nil {
			err = s.add(strings.ToLower(parts[2]), parts[2]+parts[3], objects)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, file.Name()), err)
		}
	}
	out := make([]*step, 0, len(steps))
	for _, s := range steps {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *step) int { return a.index - b.index })
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: holds no numbered YAML files", dir)
	}
	return out, nil
}

// read reads the objects of a file and expands it first where it is a template.
func read(path string, expand bool, env environment) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if expand {
		parsed, err := template.New(filepath.Base(path)).Parse(string(text))
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, env); err != nil {
			return nil, err
		}
		text = out.Bytes()
	}
	return cluster.Parse(string(text))
}

// add sorts the objects of a file into the step, by the first word of its name.
func (s *step) add(kind, name string, objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if u.GroupVersionKind().Group == testGroup {
			if err := s.configure(u, kind == "assert"); err != nil {
				return err
			}
			continue
		}
		switch kind {
		case "assert":
			s.asserts = append(s.asserts, u)
		case "errors":
			s.absents = append(s.absents, u)
		default:
			s.applies = append(s.applies, u)
		}
	}
	if s.name == "" && kind != "assert" && kind != "errors" {
		s.name = name
	}
	return nil
}

// configure takes the settings of one of kuttl's own kinds.
func (s *step) configure(u *unstructured.Unstructured, inAssert bool) error {
	switch {
	case u.GetKind() == "TestStep" && !inAssert:
		var settings testStep
		if err := strict(u, &settings); err != nil {
			return err
		}
		for _, r := range settings.Delete {
			if r.APIVersion == "" || r.Kind == "" {
				return errors.New("TestStep: an object to delete lacks apiVersion or kind")
			}
		}
		if u.GetName() != "" {
			s.name = u.GetName()
		}
		s.deletes = append(s.deletes, settings.Delete...)
		return nil
	case u.GetKind() == "TestAssert" && inAssert:
		var settings testAssert
		if err := strict(u, &settings); err != nil {
			return err
		}
		if settings.Timeout != 0 {
			s.timeout = time.Duration(settings.Timeout) * time.Second
		}
		return nil
	default:
		return fmt.Errorf("this runner does not know a %s here", u.GetKind())
	}
}

// strict decodes one of kuttl's own kinds and refuses settings that this runner does not know.
func strict(u *unstructured.Unstructured, into any) error {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: this runner does not know the setting: %w", u.GetKind(), err)
	}
	return nil
}
