// Package impersonation gives the clients of users whose rights are used in place of the operator's. It never decides who acts.
package impersonation

import (
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// maxClients bounds the clients that are kept; one that was dropped is made again when it is needed.
const maxClients = 256

// Clients are the clients by user. Of a ServiceAccount they name no groups: the API server adds its own, and the operator
// needs no right to any other.
type Clients struct {
	config *rest.Config

	mu     sync.Mutex
	byUser map[string]dynamic.Interface
}

// New makes clients that connect as a configuration says.
func New(config *rest.Config) *Clients {
	return &Clients{config: config, byUser: map[string]dynamic.Interface{}}
}

// For returns the client that acts as a user, such as system:serviceaccount:NAMESPACE:NAME.
func (c *Clients) For(user string) (dynamic.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.byUser[user]; ok {
		return client, nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if len(c.byUser) >= maxClients {
		clear(c.byUser)
	}
	c.byUser[user] = client
	return client, nil
}
