package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mlkeeper.dev/devcluster/internal/enclosure"
)

// downTimeout is longer than the politest shutdown of all components.
const downTimeout = 2 * time.Minute

// Client speaks to the supervisor of the cluster in a directory.
type Client struct {
	dir  string
	http *http.Client
}

// NewClient returns a client; nothing has to run yet.
func NewClient(dir string) *Client {
	socket := socketPath(dir)
	return &Client{dir: dir, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// call sends one request. A supervisor that does not answer is reported as a
// cluster that does not run.
func (c *Client) call(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	return c.send(ctx, method, path, query, nil)
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, content io.Reader) ([]byte, error) {
	target := url.URL{Scheme: "http", Host: "devcluster", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), content)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if _, stateErr := ReadState(c.dir); stateErr != nil {
			return nil, stateErr
		}
		return nil, fmt.Errorf("the devcluster in %s does not run; boot it again with `devcluster up --dir %s`: %w", c.dir, c.dir, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Status asks for the state of a running cluster.
func (c *Client) Status(ctx context.Context) (State, error) {
	var st State
	body, err := c.call(ctx, http.MethodGet, "/status", nil)
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(body, &st)
}

// Stop ends a component: with SIGTERM, or at once if kill is set.
func (c *Client) Stop(ctx context.Context, name string, kill bool) error {
	_, err := c.call(ctx, http.MethodPost, "/stop/"+name, url.Values{"kill": {fmt.Sprint(kill)}})
	return err
}

// Start starts a component and, if wait is set, returns when it is healthy.
func (c *Client) Start(ctx context.Context, name string, wait bool) error {
	_, err := c.call(ctx, http.MethodPost, "/start/"+name, url.Values{"wait": {fmt.Sprint(wait)}})
	return err
}

// Down ends the cluster and removes its files, unless keep is set. It also
// cleans up after a supervisor that was killed.
func (c *Client) Down(ctx context.Context, keep bool) error {
	st, err := ReadState(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		// Damaged; what the layout names can still be removed.
		st = State{Socket: socketPath(c.dir)}
	}
	// The directory may have been moved since it was written.
	st.Dir = c.dir
	query := url.Values{"keep": {fmt.Sprint(keep)}}
	// An error means that nobody is there to ask; the lock below decides.
	_, _ = c.call(ctx, http.MethodPost, "/down", query)

	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	for {
		lock, err := takeLock(c.dir)
		if err == nil {
			defer func() { _ = lock.Close() }()
			break
		}
		if running := new(RunningError); !errors.As(err, &running) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the devcluster in %s does not end; kill its supervisor, process %d, and run down again", c.dir, st.PID)
		case <-time.After(pollEvery):
		}
	}
	if st.Spec.RealNode {
		// Whoever ran outside has done this, unless it was killed.
		if err := enclosure.RemoveGroup(enclosure.Group(c.dir)); err != nil {
			return err
		}
	}
	if keep {
		return nil
	}
	return removeFiles(st)
}

// LoadImage puts the images of an archive into the containerd of a real node,
// and returns what was loaded.
func (c *Client) LoadImage(ctx context.Context, archive io.Reader) (string, error) {
	body, err := c.send(ctx, http.MethodPost, "/images", nil, archive)
	return string(body), err
}
