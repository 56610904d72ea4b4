// Package acmtest has what the tests of the packages of ACM share.
package acmtest

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Lines are what is logged at level 0.
type Lines struct {
	mu   sync.Mutex
	said []string
}

// Logger is a log whose lines are kept.
func (l *Lines) Logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said = append(l.said, args)
	}, funcr.Options{})
}

// With are the lines that have all of some texts.
func (l *Lines) With(texts ...string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.said {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(one, text) }) {
			out = append(out, one)
		}
	}
	return out
}
