package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/yaml"
)

// account is where a pod finds its own ServiceAccount.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// gate stands in for kube-rbac-proxy: it lets a request through if the API
// server knows its token and allows what the configuration asks for. It does so
// with the rights of the pod, so that it fails where these are too few.
type gate struct {
	// attributes are those of the configuration. Its verb is that of every request for Open Data Hub's kube-rbac-proxy since
	// April 2026 (commit 74987511, pkg/proxy/proxy.go), while upstream's up to v0.18.0 reads none and takes that of the method.
	// The gate lets in whom both do.
	attributes authorizationv1.ResourceAttributes
	// review posts a review to the API server and reads the answer into it.
	review func(ctx context.Context, path string, object any) error
	next   http.Handler
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	who.APIVersion, who.Kind = "authentication.k8s.io/v1", "TokenReview"
	if err := g.review(r.Context(), "/apis/authentication.k8s.io/v1/tokenreviews", who); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !who.Status.Authenticated {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	verbs := []string{verbOf(r.Method)}
	if configured := g.attributes.Verb; configured != "" && configured != verbs[0] {
		verbs = append(verbs, configured)
	}
	for _, verb := range verbs {
		attributes := g.attributes
		attributes.Verb = verb
		may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Status.User.Username, Groups: who.Status.User.Groups, UID: who.Status.User.UID,
			ResourceAttributes: &attributes,
		}}
		may.APIVersion, may.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		if err := g.review(r.Context(), "/apis/authorization.k8s.io/v1/subjectaccessreviews", may); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if !may.Status.Allowed {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s)", who.Status.User.Username, verb), http.StatusForbidden)
			return
		}
	}
	g.next.ServeHTTP(w, r)
}

// verbOf is what a method asks for (kube-rbac-proxy v0.18.0 pkg/proxy/proxy.go, GetRequestAttributes).
func verbOf(method string) string {
	if verb, known := map[string]string{
		http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]; known {
		return verb
	}
	return "*"
}

// reviewer posts to the API server as the pod's ServiceAccount.
func reviewer() (func(ctx context.Context, path string, object any) error, error) {
	client, err := clientOf(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	server := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return func(ctx context.Context, path string, object any) error {
		body, err := json.Marshal(object)
		if err != nil {
			return err
		}
		// The kubelet renews the token.
		token, err := os.ReadFile(account + "token")
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+string(token))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusCreated {
			return fmt.Errorf("%s: %s: %s", path, resp.Status, answer)
		}
		return json.Unmarshal(answer, object)
	}, nil
}

// proxyConfig is the file that the operator renders for kube-rbac-proxy, as far
// as the stand-in reads it.
type proxyConfig struct {
	Authorization struct {
		ResourceAttributes struct {
			APIGroup    string `json:"apiGroup"`
			APIVersion  string `json:"apiVersion"`
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Namespace   string `json:"namespace"`
			Name        string `json:"name"`
			Verb        string `json:"verb"`
		} `json:"resourceAttributes"`
	} `json:"authorization"`
}

// attributesOf reads what a request must be allowed to do.
func attributesOf(text []byte) (authorizationv1.ResourceAttributes, error) {
	var config proxyConfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return authorizationv1.ResourceAttributes{}, err
	}
	a := config.Authorization.ResourceAttributes
	if a.Resource == "" {
		return authorizationv1.ResourceAttributes{}, fmt.Errorf("the configuration names no resource: %s", text)
	}
	return authorizationv1.ResourceAttributes{
		Group: a.APIGroup, Version: a.APIVersion, Resource: a.Resource, Subresource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name, Verb: a.Verb,
	}, nil
}

// proxy is kube-rbac-proxy until ctx ends. It takes that program's flags and
// ignores those that are not about the way of a request.
func proxy(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	listen := flags.String("secure-listen-address", "", "address of the proxy")
	upstream := flags.String("upstream", "", "URL that requests are passed on to")
	file := flags.String("config-file", "", "what a request must be allowed to do")
	cert := flags.String("tls-cert-file", "", "certificate")
	key := flags.String("tls-private-key-file", "", "its key")
	endpoints := flags.Int("proxy-endpoints-port", 0, "port of the proxy's own health")
	for _, ignored := range []string{"tls-min-version", "tls-cipher-suites", "v"} {
		flags.String(ignored, "", "ignored by the stand-in")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	attributes, err := attributesOf(text)
	if err != nil {
		return err
	}
	target, err := url.Parse(*upstream)
	if err != nil {
		return err
	}
	review, err := reviewer()
	if err != nil {
		return err
	}
	checks := http.NewServeMux()
	checks.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	failed := make(chan error, 2)
	for addr, handler := range map[string]http.Handler{
		*listen:                        &gate{attributes: attributes, review: review, next: httputil.NewSingleHostReverseProxy(target)},
		fmt.Sprintf(":%d", *endpoints): checks,
	} {
		server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		go func() { failed <- server.ListenAndServeTLS(*cert, *key) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}
