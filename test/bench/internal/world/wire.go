package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Wire sends requests as they are and decodes nothing, so that a baseline costs the client as little as can be. Its
// transport is that of client-go: authentication, HTTP/2 and one connection are as an operator has them.
type Wire struct {
	base   string
	client *http.Client
}

// NewWire returns a Wire for a configuration.
func NewWire(config *rest.Config) (*Wire, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Wire{base: strings.TrimSuffix(config.Host, "/"), client: client}, nil
}

// StatusError is an answer other than success.
type StatusError struct {
	Code int
	What string
}

// Error says what was refused.
func (e *StatusError) Error() string { return fmt.Sprintf("%s: HTTP %d", e.What, e.Code) }

// Do sends one request and returns the body of the answer.
func (w *Wire) Do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	resp, err := w.send(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode < 200 || resp.StatusCode > 299) {
		err = &StatusError{Code: resp.StatusCode, What: fmt.Sprintf("%s %s: %s", method, path, clip(out))}
	}
	return out, err
}

// Open sends one request and returns the body of the answer as a stream.
func (w *Wire) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := w.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, &StatusError{Code: resp.StatusCode, What: "GET " + path}
	}
	return resp.Body, nil
}

func (w *Wire) send(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return w.client.Do(req)
}

func clip(text []byte) string {
	const limit = 400
	if len(text) > limit {
		text = text[:limit]
	}
	return string(text)
}

// Metadata lists the metadata of a resource, as a metadata client of client-go asks for it, but in JSON.
func (w *Wire) Metadata(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &StatusError{Code: resp.StatusCode, What: "GET " + path}
	}
	return data, err
}
