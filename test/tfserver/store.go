package tfserver

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Store is where the folders of models are. Its errors are those of TensorFlow's file systems.
type Store interface {
	// Exists says that there is something at a path.
	Exists(path string) error
	// Children are the names in a folder.
	Children(path string) ([]string, error)
	// Load loads the model in the folder of a version; it may take any time.
	Load(folder string) (Model, error)
}

// Model is the toy model y = 2x + Bias.
type Model struct{ Bias float32 }

// Disk is the file system of the machine. Of other schemes the real program has gs:// only (model_servers/BUILD).
type Disk struct {
	// Warmup says that the warm-up file of a model is read when it loads.
	Warmup bool
}

// uri is what begins a path with a scheme (tensorflow/core/platform/path.cc: ParseURI).
var uri = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9.]*)://`)

func scheme(path string) string {
	if found := uri.FindStringSubmatch(path); found != nil {
		return found[1]
	}
	return ""
}

func (Disk) reach(path string) error {
	switch s := scheme(path); s {
	case "":
		return nil
	case "gs":
		return status.Errorf(codes.Unavailable, "Error executing an HTTP request: no network (file: '%s')", path)
	default:
		return status.Errorf(codes.Unimplemented, "File system scheme '%s' not implemented (file: '%s')", s, path)
	}
}

func fileError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return notFound("%s; No such file or directory", path)
	case errors.Is(err, os.ErrPermission):
		return status.Errorf(codes.PermissionDenied, "%s; Permission denied", path)
	}
	return status.Errorf(codes.Unknown, "%s; %v", path, err)
}

// Exists implements Store.
func (d Disk) Exists(path string) error {
	if err := d.reach(path); err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		// TensorFlow's FileExists tells of nothing else.
		return notFound("%s not found", path)
	}
	return nil
}

// Children implements Store.
func (d Disk) Children(path string) ([]string, error) {
	if err := d.reach(path); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, fileError(path, err)
}

// Load implements Store.
func (d Disk) Load(folder string) (Model, error) {
	raw, err := os.ReadFile(filepath.Join(folder, savedModelFile))
	if errors.Is(err, os.ErrNotExist) {
		return Model{}, notFound("Could not find SavedModel .pb or .pbtxt at supplied export directory path: %s. Check that the directory exists and "+
			"that you have the right permissions for accessing it.", folder)
	}
	if err != nil {
		return Model{}, fileError(folder, err)
	}
	m, err := readSavedModel(raw)
	if err != nil {
		return Model{}, status.Errorf(codes.DataLoss, "Can't parse %s as binary proto", filepath.Join(folder, savedModelFile))
	}
	if d.Warmup {
		return m, warmup(folder)
	}
	return m, nil
}

// Memory is a store that a test changes while the server runs. Its paths have any scheme.
type Memory struct {
	mu    sync.Mutex
	bases map[string]map[string]*stored
}

// stored is the folder of a version.
type stored struct {
	model Model
	err   error
	// held is closed when a load may go on; nil where none waits.
	held chan struct{}
}

func (m *Memory) put(base, name string, s *stored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bases == nil {
		m.bases = map[string]map[string]*stored{}
	}
	if m.bases[base] == nil {
		m.bases[base] = map[string]*stored{}
	}
	if s != nil {
		m.bases[base][name] = s
	}
}

// Base makes a base path without versions.
func (m *Memory) Base(base string) { m.put(base, "", nil) }

// Put puts a version there that loads at once.
func (m *Memory) Put(base string, version int64) {
	m.PutModel(base, version, Model{Bias: float32(version)})
}

// PutModel puts a version there that is another model than Put makes of its number.
func (m *Memory) PutModel(base string, version int64, model Model) {
	m.put(base, strconv.FormatInt(version, 10), &stored{model: model})
}

// Fail puts a version there whose load fails.
func (m *Memory) Fail(base string, version int64, err error) {
	m.put(base, strconv.FormatInt(version, 10), &stored{err: err})
}

// Hold puts a version there that loads until release is called.
func (m *Memory) Hold(base string, version int64) (release func()) {
	s := &stored{model: Model{Bias: float32(version)}, held: make(chan struct{})}
	m.put(base, strconv.FormatInt(version, 10), s)
	return sync.OnceFunc(func() { close(s.held) })
}

// Remove takes a version away.
func (m *Memory) Remove(base string, version int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bases[base], strconv.FormatInt(version, 10))
}

// Vanish takes a base path away.
func (m *Memory) Vanish(base string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bases, base)
}

func (m *Memory) version(path string) *stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := strings.LastIndexByte(path, '/')
	return m.bases[path[:max(at, 0)]][path[at+1:]]
}

// Exists implements Store.
func (m *Memory) Exists(path string) error {
	m.mu.Lock()
	_, isBase := m.bases[path]
	m.mu.Unlock()
	if isBase || m.version(path) != nil {
		return nil
	}
	return notFound("%s not found", path)
}

// Children implements Store.
func (m *Memory) Children(path string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.bases[path])), nil
}

// Load implements Store.
func (m *Memory) Load(folder string) (Model, error) {
	s := m.version(folder)
	if s == nil {
		return Model{}, notFound("Could not find SavedModel .pb or .pbtxt at supplied export directory path: %s", folder)
	}
	if s.held != nil {
		<-s.held
	}
	return s.model, s.err
}
