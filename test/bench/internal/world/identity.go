package world

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Identity is a service account that an operator runs as, so that the audit log tells its requests from those of all
// others.
type Identity struct {
	// User is its name in the audit log.
	User       string
	Kubeconfig string
	Config     *rest.Config

	token string
	admin *rest.Config
	dir   string
}

// Identity returns the identity of a service account that exists.
func (c *Cluster) Identity(ctx context.Context, namespace, name string) (*Identity, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	day := int64(24 * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	if err := c.retried(ctx, func() error { return c.Client.SubResource("token").Create(ctx, account, request) }); err != nil {
		return nil, fmt.Errorf("get a token of %s/%s: %w", namespace, name, err)
	}
	id := &Identity{
		User: "system:serviceaccount:" + namespace + ":" + name, token: request.Status.Token, admin: c.Admin, dir: c.Dir,
		Config: rest.AnonymousClientConfig(c.Admin),
	}
	id.Config.BearerToken, id.Config.QPS = id.token, -1
	var err error
	id.Kubeconfig, err = id.WriteKubeconfig(name+".kubeconfig", "")
	return id, err
}

// WriteKubeconfig writes a kubeconfig of the identity and returns its path. With a server, that one is addressed by
// plain HTTP in place of the API server: a proxy of the bench.
func (id *Identity) WriteKubeconfig(file, server string) (string, error) {
	const name = "bench"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: id.admin.Host, CertificateAuthorityData: id.admin.CAData}
	if server != "" {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: id.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	path := filepath.Join(id.dir, file)
	return path, clientcmd.WriteToFile(*config, path)
}

// Administrator makes a service account with every right, for an operator whose own roles are not known.
func (c *Cluster) Administrator(ctx context.Context, namespace, name string) (*Identity, error) {
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		},
	} {
		if err := c.Client.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return nil, err
		}
	}
	return c.Identity(ctx, namespace, name)
}
