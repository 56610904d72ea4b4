package tfserv

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/tfserver"
)

// TestASecretOfTheTypeTLS serves the gRPC API, and one whose key is of another certificate reaches no pod.
func TestASecretOfTheTypeTLS(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, serving(t, &tfserver.Memory{}, 1))
	pair := func(name string) *pki.Pair {
		made, err := pki.NewAuthority(rand.Reader, time.Now(), name)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	own, other := pair("own"), pair("other")
	secret := func(key, cert []byte) {
		c.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: tls}\ntype: kubernetes.io/tls\ndata: {tls.key: %s, tls.crt: %s}\n",
			base64.StdEncoding.EncodeToString(key), base64.StdEncoding.EncodeToString(cert)), ns)
	}
	secret(own.KeyPEM, own.CertPEM)
	c.Apply(t, "apiVersion: servapi.dev-state.com/v1alpha1\nkind: Tfserv\nmetadata: {name: "+sample+"}\nspec:\n"+
		"  models: [{name: m, basePath: /models/m}]\n  server: {tls: {secretName: tls}}\n", ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	before := field(t, c.Get(t, deployment, ns, sample), "spec", "template")
	if text := fmt.Sprint(before); !strings.Contains(text, "--ssl_config_file=/var/tfserving-tls-made/ssl.conf") || !strings.Contains(text, "initContainers") {
		t.Errorf("the pods are %s", text)
	}
	secret(own.KeyPEM, other.CertPEM)
	condition(t, c, ns, sample, "Stalled", metav1.ConditionTrue, "ConfigInvalid")
	condition(t, c, ns, sample, "ConfigValid", metav1.ConditionFalse, "ConfigInvalid")
	if after := field(t, c.Get(t, deployment, ns, sample), "spec", "template"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the pods are replaced: %v", after)
	}
	secret(own.KeyPEM, own.CertPEM)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
}
