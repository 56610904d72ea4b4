package dmaap

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // The router signs with it.
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/acm"
)

const (
	// maxAnswer bounds an answer of the router, in bytes.
	maxAnswer = 16 << 20
	// grace is how much longer than the router waits for a record we wait for the router.
	grace = 30 * time.Second
	// posting is how long one attempt to publish lasts.
	posting = 10 * time.Second
)

// Transport is an acm.Transport over the DMaaP Message Router.
type Transport struct {
	config Config
	client *http.Client
	clock  clock.PassiveClock
	// next is the server to ask; another after each failure.
	next atomic.Int64
	// busy holds a value while a batch is not done: the router counts records as delivered when it has answered.
	busy chan struct{}
	// unread and unpublished are why the last request of a kind has failed; nil where it has not.
	unread, unpublished atomic.Pointer[error]
}

// New makes a transport. It connects when it is used.
func New(config Config) (*Transport, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.FetchTimeout <= 0 {
		config.FetchTimeout = DefaultFetchTimeout
	}
	if config.PublishTopic == "" {
		config.PublishTopic = config.Topic
	}
	dialer := http.DefaultTransport.(*http.Transport).Clone()
	dialer.TLSClientConfig = config.TLS
	client := &http.Client{
		Transport: dialer,
		// The router does not redirect; who answers in its place may not have our credentials.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Transport{config: config, client: client, clock: clock.RealClock{}, busy: make(chan struct{}, 1)}, nil
}

// Receive implements acm.Transport. It asks again when the router has nothing.
func (t *Transport) Receive(ctx context.Context) (acm.Batch, error) {
	select {
	case <-ctx.Done():
		return acm.Batch{}, ctx.Err()
	case t.busy <- struct{}{}:
	}
	for {
		records, err := t.poll(ctx)
		if ctx.Err() == nil {
			keep(&t.unread, err)
		}
		switch {
		case err != nil || ctx.Err() != nil:
			<-t.busy
			return acm.Batch{}, cmp.Or(err, ctx.Err())
		case len(records) > 0:
			return acm.Batch{Records: records, Done: func(context.Context) error {
				<-t.busy
				return nil
			}}, nil
		}
	}
}

// poll asks the router once; no records are none yet.
func (t *Transport) poll(ctx context.Context) ([][]byte, error) {
	query := url.Values{"timeout": {strconv.FormatInt(t.config.FetchTimeout.Milliseconds(), 10)}, "limit": {"1"}}
	raw, err := t.do(ctx, http.MethodGet, t.config.FetchTimeout+grace,
		[]string{"events", t.config.Topic, t.config.Group, t.config.Instance}, query, nil)
	if err != nil {
		return nil, err
	}
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return nil, fmt.Errorf("the Message Router has answered something else than a list of records: %w", err)
	}
	var out [][]byte
	for _, text := range texts {
		out = append(out, []byte(text))
	}
	return out, nil
}

func keep(to *atomic.Pointer[error], err error) {
	if err == nil {
		to.Store(nil)
		return
	}
	to.Store(&err)
}

// Healthy implements acm.Transport.
func (t *Transport) Healthy() error {
	for what, failure := range map[string]*error{"read": t.unread.Load(), "written": t.unpublished.Load()} {
		if failure != nil {
			return fmt.Errorf("topic %s cannot be %s: %w", t.config.Topic, what, *failure)
		}
	}
	return nil
}

// Topics implements acm.Transport. The router does not say what is left to be read.
func (t *Transport) Topics(context.Context) []acm.TopicState {
	return []acm.TopicState{{Name: t.config.Topic, Connected: t.Healthy() == nil, Lag: -1}}
}

// Publish implements acm.Transport.
func (t *Transport) Publish(ctx context.Context, messages ...acm.Outgoing) error {
	for _, m := range messages {
		if _, err := t.do(ctx, http.MethodPost, posting,
			[]string{"events", t.config.PublishTopic}, url.Values{"partitionKey": {m.Key}}, m.Body); err != nil {
			keep(&t.unpublished, err)
			return fmt.Errorf("publish on topic %s: %w", t.config.PublishTopic, err)
		}
	}
	keep(&t.unpublished, nil)
	return nil
}

// Close implements acm.Transport.
func (t *Transport) Close() { t.client.CloseIdleConnections() }

// do sends one request to the server whose turn it is.
func (t *Transport) do(
	ctx context.Context, method string, timeout time.Duration, path []string, query url.Values, body []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	base, err := t.config.base(t.config.Servers[int(t.next.Load())%len(t.config.Servers)])
	if err != nil {
		return nil, err
	}
	target := base.JoinPath(path...)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	t.sign(request)
	answer, err := t.client.Do(request)
	if err != nil {
		t.next.Add(1)
		return nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of the Message Router: %w", err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the Message Router has answered more than %d bytes", maxAnswer)
	case answer.StatusCode != http.StatusOK:
		t.next.Add(1)
		return nil, refusal(answer.StatusCode, raw)
	}
	return raw, nil
}

// sign adds credentials. The signature is that of the Message Router's own clients: the date, signed with the secret.
func (t *Transport) sign(request *http.Request) {
	c := t.config
	switch {
	case c.APIKey != "":
		date := t.clock.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
		mac := hmac.New(sha1.New, []byte(c.APISecret))
		mac.Write([]byte(date))
		request.Header.Set("X-CambriaAuth", c.APIKey+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		request.Header.Set("X-CambriaDate", date)
	case c.User != "":
		request.SetBasicAuth(c.User, c.Password)
	}
}

// remedies say what to do about the router's own error codes (DMaaP Message Router API, response codes).
var remedies = map[int]string{
	3001: "make the topic, or correct its name in topicSources.topic",
	3002: "the router is overloaded; it is asked again",
	4002: "correct the credentials (userName and password, or apiKey and apiSecret)",
	5012: "another consumer reads with the same group and instance, or too often; it is asked again",
}

// refusal is the error of an answer that is none.
func refusal(status int, raw []byte) error {
	var told struct {
		Code    int    `json:"mrstatus"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &told) != nil || told.Code == 0 {
		return fmt.Errorf("the Message Router has answered HTTP %d", status)
	}
	text := fmt.Sprintf("the Message Router has answered HTTP %d, code %d: %.200s", status, told.Code, told.Message)
	if remedy := remedies[told.Code]; remedy != "" {
		text += "; " + remedy
	}
	return errors.New(text)
}
