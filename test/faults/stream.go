package faults

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// stream is the body of a watch whose events can be held back, dropped or ended.
type stream struct {
	from     io.ReadCloser
	resource string
	closed   func(*stream)

	mu     sync.Mutex
	data   bytes.Buffer
	err    error
	until  time.Time
	wakeup chan struct{}
}

func newStream(from io.ReadCloser, resource string, closed func(*stream)) *stream {
	s := &stream{from: from, resource: resource, closed: closed, wakeup: make(chan struct{}, 1)}
	go s.pump()
	return s
}

// pump takes in what the API server sends, so that a held watch does not hold up the connection, which others share.
func (s *stream) pump() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.from.Read(buffer)
		s.mu.Lock()
		if s.err == nil {
			s.data.Write(buffer[:n])
			s.err = err
		}
		s.mu.Unlock()
		s.wake()
		if err != nil {
			return
		}
	}
}

func (s *stream) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// hold holds back everything until a time.
func (s *stream) hold(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.until) {
		s.until = until
	}
}

// release lets go what is held.
func (s *stream) release() {
	s.mu.Lock()
	s.until = time.Time{}
	s.mu.Unlock()
	s.wake()
}

// cut ends the stream and drops what is held.
func (s *stream) cut(err error) {
	s.mu.Lock()
	s.data.Reset()
	if s.err == nil {
		s.err = err
	}
	s.until = time.Time{}
	s.mu.Unlock()
	s.wake()
}

// Read returns what is due. An end is never held back: the client closes a watch to stop it.
func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		wait := time.Until(s.until)
		if wait <= 0 {
			if s.data.Len() > 0 {
				n, err := s.data.Read(p)
				s.mu.Unlock()
				return n, err
			}
			if s.err != nil {
				err := s.err
				s.mu.Unlock()
				return 0, err
			}
			wait = time.Hour
		}
		s.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-s.wakeup:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Close ends the watch.
func (s *stream) Close() error {
	s.cut(io.EOF)
	s.closed(s)
	return s.from.Close()
}
