package kubeflow

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/origin"
)

func TestArchivesInTheCluster(t *testing.T) {
	archive := base64.StdEncoding.EncodeToString([]byte("archive"))
	for name, c := range map[string]struct {
		uri     string
		content map[string]any
		kind    string
		want    string
	}{
		"ConfigMap":              {uri: "configmap:air/gap", kind: "ConfigMap", content: map[string]any{"binaryData": map[string]any{"gap": archive}}},
		"Secret":                 {uri: "secret:air/gap", kind: "Secret", content: map[string]any{"data": map[string]any{"gap": archive}}},
		"text is no archive":     {uri: "configmap:air/gap", kind: "ConfigMap", content: map[string]any{"data": map[string]any{"gap": "text"}}, want: origin.ReasonKeyMissing},
		"another key":            {uri: "secret:air/other", kind: "Secret", content: map[string]any{"data": map[string]any{"gap": archive}}, want: origin.ReasonKeyMissing},
		"no such ConfigMap":      {uri: "configmap:air/gap", want: "ConfigMapNotFound"},
		"no key":                 {uri: "configmap:air", want: "URIInvalid"},
		"no name":                {uri: "secret:/gap", want: "URIInvalid"},
		"an address is no place": {uri: "https://example.test/x.tar.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := controllertest.New(testNow)
			if c.kind != "" {
				u := object("v1", c.kind, "kubeflow", "air")
				for field, value := range c.content {
					u.Object[field] = value
				}
				cluster.Put(u)
			}
			cr := custom("first")
			cr.Spec.Repos[0].URI = c.uri
			got, err := reposOf(t.Context(), cluster, cr, "")
			var problem plan.Problem
			errors.As(err, &problem)
			if problem.Reason != c.want || err != nil && (problem.Field != "spec.repos[0].uri" || problem.Remedy == "") {
				t.Fatalf("%v", err)
			}
			inline := strings.Contains(c.uri, ":air/")
			if err == nil && (string(got[0].Inline) == "archive") != inline {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	cluster := controllertest.New(testNow)
	cr := custom("first")
	cr.Spec.Repos = []kubeflowv1.Repo{{Name: "manifests", URI: "https://example.test/x.tar.gz", SecretName: "access"}}
	_, err := reposOf(t.Context(), cluster, cr, "")
	var problem plan.Problem
	if !errors.As(err, &problem) || problem.Reason != "SecretNotFound" || problem.Field != "spec.repos[0].secretName" || problem.Class != plan.Waiting {
		t.Fatal(err)
	}
	secret := object("v1", "Secret", "kubeflow", "access")
	data := map[string]any{}
	for _, key := range []string{"username", "password", "token", "ca.crt", "proxy", "identity", "known_hosts"} {
		data[key] = base64.StdEncoding.EncodeToString([]byte("the " + key))
	}
	secret.Object["data"] = data
	secret.SetUID("u")
	secret.SetResourceVersion("7")
	cluster.Put(secret)
	got, err := reposOf(t.Context(), cluster, cr, "")
	if err != nil {
		t.Fatal(err)
	}
	auth := got[0].Request.Auth
	for key, value := range map[string]string{
		"username": auth.Username, "password": auth.Password, "token": auth.Token, "proxy": auth.Proxy,
		"ca.crt": string(auth.CA), "identity": string(auth.SSHKey), "known_hosts": string(auth.KnownHosts),
	} {
		if value != "the "+key {
			t.Errorf("%s is %q", key, value)
		}
	}
	if strings.Join(got[0].Versions, " ") != "u/7" {
		t.Errorf("versions %v", got[0].Versions)
	}
}

// TestReposAreReadAsTheServiceAccount: what a KfDef names is read with the rights of its ServiceAccount, and no token of a ServiceAccount is
// sent to a repository.
func TestReposAreReadAsTheServiceAccount(t *testing.T) {
	const user = "system:serviceaccount:kubeflow:mlkeeper"
	for name, repo := range map[string]kubeflowv1.Repo{
		"credentials":           {Name: "manifests", URI: "https://example.test/x.tar.gz", SecretName: "air"},
		"an archive":            {Name: "manifests", URI: "secret:air/gap"},
		"an archive, ConfigMap": {Name: "manifests", URI: "configmap:air/gap"},
	} {
		cluster := controllertest.New(testNow)
		archive := map[string]any{"gap": base64.StdEncoding.EncodeToString([]byte("archive"))}
		secret, configMap := object("v1", "Secret", "kubeflow", "air"), object("v1", "ConfigMap", "kubeflow", "air")
		secret.Object["data"], configMap.Object["binaryData"] = archive, archive
		cluster.Put(secret)
		cluster.Put(configMap)
		cr := custom("first")
		cr.Spec.Repos = []kubeflowv1.Repo{repo}
		if _, err := reposOf(t.Context(), cluster, cr, user); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cluster.Denied = map[string]bool{user: true}
		var problem plan.Problem
		if _, err := reposOf(t.Context(), cluster, cr, user); !errors.As(err, &problem) || problem.Reason != "Forbidden" {
			t.Errorf("%s: a user without rights has it read: %v", name, err)
		}
		cluster.Denied = nil
		secret.Object["type"] = "kubernetes.io/service-account-token"
		_, err := reposOf(t.Context(), cluster, cr, user)
		if refused := errors.As(err, &problem) && problem.Reason == origin.ReasonTokenRefused; refused == strings.HasPrefix(repo.URI, "configmap:") {
			t.Errorf("%s: the token of a ServiceAccount: %v", name, err)
		}
	}
}
