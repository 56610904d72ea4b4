package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// Mark is a place in a log.
type Mark int64

// Log is the audit log of one API server.
type Log struct{ path string }

// Open returns the log at a path, which need not exist yet.
func Open(path string) *Log { return &Log{path: path} }

// Mark returns the end of the log as it is now.
func (l *Log) Mark() Mark {
	info, err := os.Stat(l.path)
	if err != nil {
		return 0
	}
	return Mark(info.Size())
}

// Since visits the requests that were logged after a mark, of one user or, where user is empty, of all, and returns the
// mark to go on from. A line that is not complete yet is left for the next call.
func (l *Log) Since(mark Mark, user string, visit func(Entry)) (Mark, error) {
	return l.lines(mark, user, func(text []byte) error {
		e, ok, err := Parse(text)
		if ok && (user == "" || e.User == user) {
			visit(e)
		}
		return err
	})
}

// Watching returns the watches of a user that were open at a moment.
func (l *Log) Watching(user string, at time.Time) ([]Entry, error) {
	open := map[string]Entry{}
	_, err := l.lines(0, user, func(text []byte) error {
		e, ok, err := Parse(text)
		if err != nil || ok && e.User != user {
			return err
		}
		if ok && e.Class() == Watch && e.OK() && e.Received.Before(at) {
			open[e.ID] = e
		}
		if id, ended, err := parseEnd(text); err != nil {
			return err
		} else if id != "" && ended.Before(at) {
			delete(open, id)
		}
		return nil
	})
	return slices.Collect(maps.Values(open)), err
}

// lines visits the lines of a user after a mark, and maybe some of others.
func (l *Log) lines(mark Mark, user string, visit func([]byte) error) (Mark, error) {
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return mark, nil
	}
	if err != nil {
		return mark, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(int64(mark), io.SeekStart); err != nil {
		return mark, err
	}
	// Decoding JSON is what costs, and most lines are of others.
	needle := []byte(`"username":"` + user + `"`)
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return mark, nil
		}
		if err != nil {
			return mark, err
		}
		mark += Mark(len(text))
		if user != "" && !bytes.Contains(text, needle) {
			continue
		}
		if err := visit(text); err != nil {
			return mark, err
		}
	}
}

// Entries returns the requests of a user after a mark.
func (l *Log) Entries(mark Mark, user string) ([]Entry, error) {
	var out []Entry
	_, err := l.Since(mark, user, func(e Entry) { out = append(out, e) })
	return out, err
}
