package source

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// indexName is the file that remembers what came from which source.
	indexName = "sources.json"
	// maxSources bounds the sources that are remembered: URIs are free, and one tree may have any number.
	maxSources = 4096
	// maxETag bounds an ETag, in bytes; longer ones are not kept.
	maxETag = 512
)

// meta is what a source gave the last time.
type meta struct {
	ID       string    `json:"id"`
	Digest   string    `json:"digest"`
	Revision string    `json:"revision"`
	ETag     string    `json:"etag,omitempty"`
	Used     time.Time `json:"used"`
}

// sourceKey names a source: where it is, with which credentials, and whose signature it needs. Credentials are part of it, so that nobody
// is given a private archive because somebody else was, and signatures, so that what was fetched without one is not taken for signed. It
// is a keyed digest, since URIs and credentials are secrets (invariant 16).
func (s *Store) sourceKey(u URI, auth Auth, verify *Verify) string {
	return s.keyed(struct {
		Kind              Kind
		Address, Ref, Dir string
		Auth              Auth
		Verify            *Verify `json:",omitempty"`
	}{u.Kind, u.address.String(), u.Ref, u.Dir, auth, verify})
}

// keyed is a keyed digest of strings and bytes.
func (s *Store) keyed(of any) string {
	content, err := json.Marshal(of)
	if err != nil {
		// Strings and bytes always marshal.
		panic(err)
	}
	mac := hmac.New(sha256.New, s.key)
	_, _ = mac.Write(content)
	return hex.EncodeToString(mac.Sum(nil))
}

// known returns what a source gave the last time, with its tree pinned; a nil entry if it gave nothing or the tree is
// gone.
func (s *Store) known(key string) (meta, *entryState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.sources[key]
	if !ok {
		return meta{}, nil
	}
	return m, s.pinLocked(m.ID)
}

// gave says, each time that it is asked, whether a source gave something that fits, which is still there.
func (s *Store) gave(key string, fits func(meta) bool) func() bool {
	return func() bool {
		m, e := s.known(key)
		if e == nil {
			return false
		}
		s.unpin(e)
		return fits(m)
	}
}

// remember records what a source gave.
func (s *Store) remember(key string, m meta) {
	if len(m.ETag) > maxETag || strings.ContainsFunc(m.ETag, func(r rune) bool { return r < ' ' || r > '~' }) {
		m.ETag = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.sources[key]
	m.Used = s.options.Clock.Now()
	s.sources[key] = m
	s.forgetSources()
	old.Used = m.Used
	if !ok || old != m {
		// Without the index a source is fetched once more, which is all that a failure costs.
		_ = s.saveSources()
	}
}

// forgetSources forgets sources whose tree is gone, and those used longest ago beyond the bound. The caller holds the
// lock.
func (s *Store) forgetSources() {
	if len(s.sources) <= maxSources {
		return
	}
	oldest := ""
	for key, m := range s.sources {
		if s.entries[m.ID] == nil {
			delete(s.sources, key)
		} else if oldest == "" || m.Used.Before(s.sources[oldest].Used) {
			oldest = key
		}
	}
	if len(s.sources) > maxSources {
		delete(s.sources, oldest)
	}
}

func (s *Store) saveSources() error {
	content, err := json.Marshal(s.sources)
	if err != nil {
		return err
	}
	temp := s.path(temporary + indexName)
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, s.path(indexName))
}

// loadSources takes over the index of an earlier process. One that cannot be read is dropped.
func (s *Store) loadSources() {
	content, err := os.ReadFile(filepath.Join(s.options.Dir, indexName))
	if err != nil {
		return
	}
	if err := json.Unmarshal(content, &s.sources); err != nil || s.sources == nil {
		s.sources = map[string]meta{}
		_ = os.Remove(s.path(indexName))
		return
	}
	now := s.options.Clock.Now()
	for key, m := range s.sources {
		if s.entries[m.ID] == nil {
			delete(s.sources, key)
		} else if m.Used.After(now) {
			m.Used = now
			s.sources[key] = m
		}
	}
}
