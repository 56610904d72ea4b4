package acmruntime

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // The router's clients sign with it.
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Router is a DMaaP Message Router for tests: long polling with a position for each group, which moves when a record is answered; error
// answers with the router's codes; HTTP Basic and signed requests. It is legacy, since ONAP has retired the router after Montreal, and the
// one stand-in here that has no original to be held against: it is written after the documented HTTP API alone.
type Router struct {
	// User and Password, or APIKey and APISecret, are asked for where they are set.
	User, Password    string
	APIKey, APISecret string
	// Refuse answers a request with a status and a code of the router, in place of what it asks for; nil for never.
	Refuse func(*http.Request) (status, code int)

	mu     sync.Mutex
	topics map[string]*log
}

// log is a topic.
type log struct {
	records   []string
	positions map[string]int
	// asking are how many requests of a group are under way.
	asking map[string]int
	grown  chan struct{}
}

// ServeHTTP implements http.Handler.
func (r *Router) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.Refuse != nil {
		if status, code := r.Refuse(q); status != 0 {
			fail(w, status, code, "refused by the test")
			return
		}
	}
	if !r.allows(q) {
		fail(w, http.StatusUnauthorized, 4002, "no valid credentials")
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events/{topic}", r.publish)
	mux.HandleFunc("GET /events/{topic}/{group}/{id}", r.subscribe)
	mux.ServeHTTP(w, q)
}

func (r *Router) allows(q *http.Request) bool {
	switch {
	case r.APIKey != "":
		mac := hmac.New(sha1.New, []byte(r.APISecret))
		mac.Write([]byte(q.Header.Get("X-CambriaDate")))
		want := r.APIKey + ":" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		_, err := time.Parse(time.RFC1123, q.Header.Get("X-CambriaDate"))
		return err == nil && q.Header.Get("X-CambriaAuth") == want
	case r.User != "":
		user, password, _ := q.BasicAuth()
		return user == r.User && password == r.Password
	}
	return true
}

func (r *Router) topic(name string) *log {
	if r.topics == nil {
		r.topics = map[string]*log{}
	}
	if r.topics[name] == nil {
		r.topics[name] = &log{positions: map[string]int{}, asking: map[string]int{}, grown: make(chan struct{})}
	}
	return r.topics[name]
}

func (r *Router) publish(w http.ResponseWriter, q *http.Request) {
	if q.Header.Get("Content-Type") != "application/json" || q.ContentLength < 0 {
		fail(w, http.StatusBadRequest, 5008, "JSON with a length is asked for")
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil || !json.Valid(body) {
		fail(w, http.StatusBadRequest, 5009, "no JSON")
		return
	}
	r.add(q.PathValue("topic"), body)
	fmt.Fprint(w, "{\n  \"count\": 1,\n  \"serverTimeMs\": 1\n}")
}

func (r *Router) add(topic string, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topic(topic)
	t.records = append(t.records, string(body))
	close(t.grown)
	t.grown = make(chan struct{})
}

func (r *Router) subscribe(w http.ResponseWriter, q *http.Request) {
	wait, _ := strconv.Atoi(q.URL.Query().Get("timeout"))
	limit, _ := strconv.Atoi(q.URL.Query().Get("limit"))
	ctx, cancel := context.WithTimeout(q.Context(), time.Duration(wait)*time.Millisecond)
	defer cancel()
	topic, group := q.PathValue("topic"), q.PathValue("group")
	r.count(topic, group, 1)
	defer r.count(topic, group, -1)
	records := r.read(ctx, topic, group, limit)
	if q.Context().Err() != nil {
		return
	}
	_ = json.NewEncoder(w).Encode(records)
}

// Rests says that a group has asked for the records of a topic, and that no request of its is under way, which would take the next ones.
func (r *Router) Rests(topic, group string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topic(topic)
	_, known := t.positions[group]
	return known && t.asking[group] == 0
}

// count counts the requests of a group that are under way.
func (r *Router) count(topic, group string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topic(topic).asking[group] += n
}

// read waits for records that a group has not been answered with; none when the time is up.
func (r *Router) read(ctx context.Context, topic, group string, limit int) []string {
	for {
		r.mu.Lock()
		t := r.topic(topic)
		at, known := t.positions[group]
		if !known {
			at = len(t.records)
			t.positions[group] = at
		}
		end := len(t.records)
		if limit > 0 {
			end = min(end, at+limit)
		}
		grown := t.grown
		if end > at {
			t.positions[group] = end
			defer r.mu.Unlock()
			return t.records[at:end]
		}
		r.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return []string{}
		}
	}
}

// Side is the runtime's side of the router, which needs no HTTP.
func (r *Router) Side() Bus { return routerBus{r} }

type routerBus struct{ router *Router }

// Send implements Bus.
func (b routerBus) Send(_ context.Context, topic string, _, value []byte) error {
	b.router.add(topic, value)
	return nil
}

// Receive implements Bus.
func (b routerBus) Receive(ctx context.Context) ([]Record, error) {
	var out []Record
	for _, text := range b.router.read(ctx, Topic, "acm-runtime", 0) {
		out = append(out, Record{Value: []byte(text)})
	}
	return out, ctx.Err()
}

// Close implements Bus.
func (routerBus) Close() {}

func fail(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{
		"mrstatus": code, "helpURL": "http://onap.readthedocs.io", "message": message, "status": status,
	})
}
