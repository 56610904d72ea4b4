package engine

import (
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// maxUsers bounds the clients that are kept; one that was dropped is made again when it is needed.
const maxUsers = 256

// impersonator gives the clients of users whose rights are used in place of the operator's. Of a ServiceAccount it names
// no groups: the API server adds its own, and the operator needs no right to any other.
type impersonator struct {
	config *rest.Config

	mu      sync.Mutex
	clients map[string]dynamic.Interface
}

func newImpersonator(config *rest.Config) *impersonator {
	return &impersonator{config: config, clients: map[string]dynamic.Interface{}}
}

// client acts as a user, such as system:serviceaccount:NAMESPACE:NAME.
func (i *impersonator) client(user string) (dynamic.Interface, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if client, ok := i.clients[user]; ok {
		return client, nil
	}
	config := rest.CopyConfig(i.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if len(i.clients) >= maxUsers {
		clear(i.clients)
	}
	i.clients[user] = client
	return client, nil
}
