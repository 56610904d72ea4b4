package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"mlkeeper.dev/internal/pki"
)

// What an operator needs that runs as a process beside the cluster, and not in a pod.

// ServiceAccount returns a configuration that reaches the cluster as a ServiceAccount that is there.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := c.token(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token
	return config, nil
}

// WriteKubeconfig writes a kubeconfig with the token of a configuration.
func WriteKubeconfig(config *rest.Config, path string) error {
	const name = "operator"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}

// ServingCertificate writes a certificate for 127.0.0.1 to where a manager with the temporary folder takes that of its webhooks from
// (controller-runtime pkg/webhook/server.go, DefaultCertDir), and returns the authority of the certificate.
func ServingCertificate(folder, name string) ([]byte, error) {
	pair, err := pki.NewServer(rand.Reader, time.Now(), nil, name, nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	certificates := filepath.Join(folder, "k8s-webhook-server", "serving-certs")
	return pair.CertPEM, errors.Join(
		os.MkdirAll(certificates, 0o700),
		os.WriteFile(filepath.Join(certificates, "tls.crt"), pair.CertPEM, 0o600),
		os.WriteFile(filepath.Join(certificates, "tls.key"), pair.KeyPEM, 0o600),
	)
}
