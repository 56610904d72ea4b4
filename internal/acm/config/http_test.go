package config

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestContextPath: what Spring takes for a path is the same one, and nothing comes out that http.ServeMux panics at.
func TestContextPath(t *testing.T) {
	for given, want := range map[string]string{
		`{}`: DefaultContextPath, `{context-path: ""}`: "", `{context-path: }`: "", `{context-path: /}`: "", `{context-path: /kserve}`: "/kserve",
		`{context-path: /kserve/}`: "/kserve", `{context-path: /onap/acm-1.0}`: "/onap/acm-1.0",
	} {
		got, err := Read(fmt.Appendf(nil, "server: {port: 1, servlet: %s}\nkafka: {bootstrapServers: s}", given), Options{})
		if err != nil || got.HTTP.ContextPath != want {
			t.Errorf("%q is read as %q, %v", given, got.HTTP.ContextPath, err)
		}
		http.NewServeMux().Handle("GET "+got.HTTP.ContextPath+"/health", http.NotFoundHandler())
	}
	for _, given := range []string{"kserve", "//", "/a//b", "/a/../b", "/.", "/{a", "/{a}", "/{a...}", "/a b", "/a/{$}"} {
		_, err := Read(fmt.Appendf(nil, "server: {port: 1, servlet: {context-path: %q}}\nkafka: {bootstrapServers: s}", given), Options{})
		if err == nil || !strings.Contains(err.Error(), "server.servlet.context-path") {
			t.Errorf("%q is told as %v", given, err)
		}
	}
}

// TestHTTPUser: what the endpoints ask for is what Spring asks for, and never an empty password.
func TestHTTPUser(t *testing.T) {
	for given, want := range map[string]HTTP{
		"{}":                       {1, DefaultContextPath, "", ""},
		"{name: a, password: b}":   {1, DefaultContextPath, "a", "b"},
		"{password: b}":            {1, DefaultContextPath, "user", "b"},
		"{name: '', password: ''}": {1, DefaultContextPath, "", ""},
	} {
		got, err := Read(fmt.Appendf(nil, "spring: {security: {user: %s}}\nserver: {port: 1}\nkafka: {bootstrapServers: s}", given), Options{})
		if err != nil || got.HTTP != want {
			t.Errorf("%s is read as %+v, %v", given, got.HTTP, err)
		}
	}
	for port, refused := range map[string]bool{"server: {port: 1}\n": true, "": false} {
		_, err := Read([]byte(port+"spring: {security: {user: {name: a, password: '${NONE:}'}}}\nkafka: {bootstrapServers: s}"), Options{})
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "spring.security.user.password") {
			t.Errorf("a user without a password with %q is told as %v", port, err)
		}
	}
}
