package source

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"mlkeeper.dev/internal/limit"
)

const (
	// maxIndexes bounds the indexes of repositories that are remembered, and maxAnswers what was found in one of them. With maxURI for an
	// address, both bound the memory: a few megabytes.
	maxIndexes, maxAnswers = 128, 16
)

// place is where a chart is, as the index of its repository says.
type place struct{ link, digest string }

// validators are what a server calls the content that it sent, and when that changed last; both empty where it says neither.
type validators struct{ etag, modified string }

// validatorsOf are those of an answer. What is too long or no text is not sent back. What was changed in the second in which it was sent may
// be changed once more in it, so that its time tells nothing (RFC 9110, 8.8.2.2).
func validatorsOf(header http.Header) validators {
	out := validators{header.Get("ETag"), header.Get("Last-Modified")}
	modified, err := http.ParseTime(out.modified)
	if sent, unknown := http.ParseTime(header.Get("Date")); err != nil || unknown != nil || sent.Sub(modified) < time.Second {
		out.modified = ""
	}
	for _, text := range []*string{&out.etag, &out.modified} {
		if len(*text) > maxETag || strings.ContainsFunc(*text, func(r rune) bool { return r < ' ' || r > '~' }) {
			*text = ""
		}
	}
	return out
}

// chartIndexes remember where charts are, so that an index that has not changed is neither sent nor read again. They are in memory only: a
// restart costs one reading of each.
type chartIndexes struct {
	mu    sync.Mutex
	known map[string]*chartIndex
}

// chartIndex is one index as its server sent it last.
type chartIndex struct {
	validators
	used    time.Time
	answers map[string]place
}

// find returns where a chart was, and what the server called that index; nothing where it is not known.
func (c *chartIndexes) find(key, chart string, now time.Time) (place, validators) {
	c.mu.Lock()
	defer c.mu.Unlock()
	index := c.known[key]
	if index == nil {
		return place{}, validators{}
	}
	index.used = now
	at, found := index.answers[chart]
	if !found {
		return place{}, validators{}
	}
	return at, index.validators
}

// put remembers where a chart is. Another index than before takes the place of that with all that was found in it.
func (c *chartIndexes) put(key, chart string, at place, of validators, now time.Time) {
	if of == (validators{}) || len(at.link) > maxURI {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	index := c.known[key]
	if index == nil || index.validators != of || len(index.answers) == maxAnswers {
		index = &chartIndex{validators: of, answers: map[string]place{}}
	}
	index.used, index.answers[chart] = now, at
	if c.known == nil {
		c.known = map[string]*chartIndex{}
	}
	c.known[key] = index
	if len(c.known) <= maxIndexes {
		return
	}
	oldest := key
	for other, index := range c.known {
		if index.used.Before(c.known[oldest].used) {
			oldest = other
		}
	}
	delete(c.known, oldest)
}

// lookUp finds a chart in the index of its repository, which is asked whether it is still the same.
func (s *Store) lookUp(ctx context.Context, u URI, r ChartRequest) (link, digest string, err error) {
	// Credentials are part of the key, as they are of that of a source.
	key := s.keyed(struct {
		Index string
		Auth  Auth
	}{u.address.String(), r.Auth})
	namespace := limit.NamespaceOf(ctx)
	if !s.indexes.Acquire(ctx, namespace, s.options.Limits.Index) {
		return "", "", transient(ReasonStoreFull, "", "the indexes of other repositories leave no memory: it waits for them")
	}
	defer s.indexes.Release(namespace, s.options.Limits.Index)
	chart := r.Name + " " + r.Version
	before, of := s.charts.find(key, chart, s.options.Clock.Now())
	raw, of, err := s.fetchFile(ctx, u, r.Auth, s.options.Limits.Index, of)
	if err != nil {
		return "", "", err
	}
	if raw == nil {
		return before.link, before.digest, nil
	}
	link, digest, err = s.find(ctx, raw, r)
	if err == nil {
		s.charts.put(key, chart, place{link, digest}, of, s.options.Clock.Now())
	}
	return link, digest, err
}

// fetchFile reads one file over HTTP that is small enough for the memory. Where the server says that it is the one that the validators are
// of, there is no content.
func (s *Store) fetchFile(ctx context.Context, u URI, auth Auth, limit int64, before validators) (raw []byte, of validators, err error) {
	if err := s.begin(); err != nil {
		return nil, of, err
	}
	defer s.running.Done()
	ctx, cancel := context.WithTimeout(ctx, s.options.Limits.Total)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	client, err := s.newSession(ctx, &u.address, auth)
	if err != nil {
		return nil, of, err
	}
	defer client.close()
	client.gate.authorization, client.gate.body = authorization(auth), limit
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.address.String(), http.NoBody)
	if err != nil {
		return nil, of, uriError("check the address of the repository", "the repository cannot be asked")
	}
	if before.etag != "" {
		request.Header.Set("If-None-Match", before.etag)
	}
	if before.modified != "" {
		request.Header.Set("If-Modified-Since", before.modified)
	}
	res, err := client.Do(request)
	if err != nil {
		return nil, of, client.failure(err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotModified && before != (validators{}):
		return nil, before, nil
	case res.StatusCode != http.StatusOK:
		return nil, of, status(res.StatusCode, res.Header)
	}
	if raw, err = io.ReadAll(res.Body); err != nil {
		return nil, of, client.failure(err)
	}
	return raw, validatorsOf(res.Header), nil
}
