package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const (
	// maxInput and maxDocuments bound what render reads.
	maxInput     = 4 << 20
	maxDocuments = 100
)

// document is one YAML or JSON document of a file.
type document struct {
	// line is the number of its first line, from 1.
	line int
	text string
}

// errNoObject says that text has no object.
var errNoObject = errors.New("there is no object in the input")

// readInput reads a file, or standard input for "-".
func readInput(name string, stdin io.Reader) (string, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if len(raw) > maxInput {
		return "", fmt.Errorf("%s has more than %d MiB: split it", name, maxInput>>20)
	}
	return string(raw), nil
}

// readObjects reads the objects of files and of the files in folders, - being standard input. Their order is that of the arguments, and in a
// folder that of the names.
func readObjects(names []string, stdin io.Reader) ([]*unstructured.Unstructured, error) {
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.IsDir() {
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, entry := range entries {
			if ending := filepath.Ext(entry.Name()); !entry.IsDir() && slices.Contains(manifestEndings, ending) {
				files = append(files, filepath.Join(name, entry.Name()))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("the folder %s has no file that ends with %s", name, strings.Join(manifestEndings, ", "))
		}
	}
	var out []*unstructured.Unstructured
	left := maxInput
	for _, name := range files {
		text, err := readInput(name, stdin)
		if err != nil {
			return nil, err
		}
		if left -= len(text); left < 0 {
			return nil, fmt.Errorf("the files have more than %d MiB: name fewer", maxInput>>20)
		}
		objects, err := decodeDocuments(text)
		if errors.Is(err, errNoObject) {
			// One of several files may have nothing but comments, as for kubectl.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if out = append(out, objects...); len(out) > maxDocuments {
			return nil, fmt.Errorf("more than %d objects: name fewer files", maxDocuments)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(names, ", "), errNoObject)
	}
	return out, nil
}

// manifestEndings are those of the files that are read of a folder, as with kubectl.
var manifestEndings = []string{".yaml", ".yml", ".json"}

// splitDocuments splits a YAML stream at its document marks and leaves out documents without content.
func splitDocuments(text string) ([]document, error) {
	var out []document
	current := document{line: 1}
	var body strings.Builder
	number := 0
	flush := func(next int) {
		if current.text = body.String(); hasContent(current.text) {
			out = append(out, current)
		}
		body.Reset()
		current = document{line: next}
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		switch {
		case marks(line, "---"):
			flush(number)
			// A document may begin on the line of its mark.
			body.WriteString(strings.TrimPrefix(line, "---"))
		case marks(line, "..."):
			flush(number + 1)
		default:
			body.WriteString(line)
		}
	}
	flush(0)
	if len(out) > maxDocuments {
		return nil, fmt.Errorf("%d documents, at most %d are read: split the file", len(out), maxDocuments)
	}
	return out, nil
}

// marks says that a line is a document mark: the mark alone, or followed by whitespace.
func marks(line, mark string) bool {
	rest, found := strings.CutPrefix(line, mark)
	return found && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// hasContent says that a document holds more than comments, directives and blank lines.
func hasContent(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}

// decodeDocuments decodes every object of a stream; a List stands for its items.
func decodeDocuments(text string) ([]*unstructured.Unstructured, error) {
	documents, err := splitDocuments(text)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	var failures []error
	for _, d := range documents {
		objects, err := d.decode()
		if err != nil {
			failures = append(failures, fmt.Errorf("line %d: %w", d.line, err))
		}
		out = append(out, objects...)
		if len(out) > maxDocuments {
			return nil, fmt.Errorf("more than %d objects: split the file", maxDocuments)
		}
	}
	if len(out) == 0 && len(failures) == 0 {
		return nil, errNoObject
	}
	return out, errors.Join(failures...)
}

func (d document) decode() (objects []*unstructured.Unstructured, err error) {
	defer func() {
		// The YAML parser has panicked on hostile text in the past.
		if p := recover(); p != nil {
			objects, err = nil, fmt.Errorf("it cannot be parsed: %v", p)
		}
	}()
	raw, err := yaml.YAMLToJSONStrict([]byte(d.text))
	if err != nil {
		return nil, err
	}
	var content any
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return nil, err
	}
	object, ok := content.(map[string]any)
	if !ok {
		return nil, errors.New("the document is not an object with apiVersion and kind")
	}
	u := &unstructured.Unstructured{Object: object}
	if u.GetAPIVersion() != "v1" || u.GetKind() != "List" {
		return []*unstructured.Unstructured{u}, nil
	}
	items, _ := object["items"].([]any)
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is not an object", i)
		}
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return objects, nil
}
