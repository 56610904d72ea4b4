package egress

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/devcluster/internal/selfsigned"
)

func TestEveryCallOfTheAPIServerIsFound(t *testing.T) {
	bundle := base64.StdEncoding.EncodeToString([]byte("pem"))
	for _, c := range []struct {
		what, object string
		want         call
	}{
		{
			"a webhook", `{"kind":"MutatingWebhookConfiguration","webhooks":[
			{"clientConfig":{"url":"https://127.0.0.1"}},
			{"clientConfig":{"service":{"namespace":"n","name":"s","path":"/p","port":8443},"caBundle":"` + bundle + `"}}]}`,
			call{pointer: "/webhooks/1/clientConfig", namespace: "n", name: "s", port: 8443, path: "/p", bundle: []byte("pem")},
		},
		{
			"a conversion", `{"kind":"CustomResourceDefinition","spec":{"conversion":{"webhook":{"clientConfig":
			{"service":{"namespace":"n","name":"s"}}}}}}`,
			call{pointer: "/spec/conversion/webhook/clientConfig", namespace: "n", name: "s", port: 443},
		},
		{
			"an aggregated API", `{"kind":"APIService","spec":{"service":{"namespace":"n","name":"s","port":443}}}`,
			call{pointer: "/spec", namespace: "n", name: "s", port: 443},
		},
		{"an aggregated API that nobody verifies", `{"kind":"APIService","spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"n","name":"s"}}}`, call{}},
		{"a Service's own spec", `{"kind":"Service","spec":{"service":{"namespace":"n","name":"s"}}}`, call{}},
	} {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"v1",`+c.object[1:]), &u.Object); err != nil {
			t.Fatal(err)
		}
		got := callsOf(intPorts(u))
		if c.want.pointer == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", c.what, got)
			}
			continue
		}
		if len(got) != 1 || got[0].pointer != c.want.pointer || got[0].namespace != c.want.namespace || got[0].name != c.want.name ||
			got[0].port != c.want.port || got[0].path != c.want.path || string(got[0].bundle) != string(c.want.bundle) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// intPorts reads an object as a client does: numbers are integers.
func intPorts(u *unstructured.Unstructured) *unstructured.Unstructured {
	raw, err := u.MarshalJSON()
	if err != nil {
		return u
	}
	out := &unstructured.Unstructured{}
	if out.UnmarshalJSON(raw) != nil {
		return u
	}
	return out
}

func TestOnlyACertificateForTheNameIsServed(t *testing.T) {
	_, certificate, err := selfsigned.Server([]string{"s.n.svc"})
	if err != nil {
		t.Fatal(err)
	}
	if got := pairIn(map[string][]byte{"tls.crt": certificate, "tls.key": []byte("no key")}, "s.n.svc"); got != nil {
		t.Error("a certificate without its key is served")
	}
	if got := pairIn(map[string][]byte{"password": []byte("p")}, "s.n.svc"); got != nil {
		t.Error("a Secret without a certificate is served")
	}
	p := &pods{made: map[string]*serving{}}
	own, err := p.own("n", "s")
	if err != nil {
		t.Fatal(err)
	}
	if !own.verifies(own.authority, "s.n.svc") || own.verifies(own.authority, "other.n.svc") || own.verifies(certificate, "s.n.svc") || own.verifies(nil, "s.n.svc") {
		t.Error("a bundle is taken for what it is not")
	}
	if again, _ := p.own("n", "s"); again != own {
		t.Error("a server has another certificate at each call")
	}
}

func TestAMutatingWebhookAddsAFieldAndNothingElse(t *testing.T) {
	object := func(annotations map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
		if annotations != nil {
			u.Object["metadata"] = map[string]any{"annotations": annotations}
		}
		return u
	}
	for _, c := range []struct {
		what     string
		request  request
		mutating bool
		want     string
	}{
		{
			"no annotations",
			request{Operation: "CREATE", Object: object(nil)},
			true,
			`[{"op":"add","path":"/metadata/annotations","value":{"devcluster.mlkeeper.dev/mutated-by":"n/s"}}]`,
		},
		{
			"some",
			request{Operation: "UPDATE", Object: object(map[string]any{"a": "b"})},
			true,
			`[{"op":"add","path":"/metadata/annotations/devcluster.mlkeeper.dev~1mutated-by","value":"n/s"}]`,
		},
		{"mutated before", request{Operation: "UPDATE", Object: object(map[string]any{Mutated: "n/s"})}, true, ""},
		{"validating", request{Operation: "CREATE", Object: object(nil)}, false, ""},
		{"a status", request{Operation: "UPDATE", SubResource: "status", Object: object(nil)}, true, ""},
		{"a deletion", request{Operation: "DELETE"}, true, ""},
	} {
		out := c.request.admitted(c.mutating, "n/s")
		patch, _ := out["patch"].([]byte)
		if out["allowed"] != true || string(patch) != c.want {
			t.Errorf("%s: %v, patch %s", c.what, out, patch)
		}
	}
}

func TestVolumesNameSecrets(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}},
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "b"}}}, {},
		}}}},
		{},
	}}}
	if got := secretsOf(pod); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Error(got)
	}
}
