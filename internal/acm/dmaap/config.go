package dmaap

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"mlkeeper.dev/internal/acm"
)

// Config says how the Message Router is reached.
type Config struct {
	// Servers are tried one after the other. A server without a port has 3904, or 3905 with HTTPS.
	Servers []string
	HTTPS   bool
	TLS     *tls.Config
	// Topic is read and written; PublishTopic is written instead of it, unless it is empty.
	Topic, PublishTopic string
	// Group and Instance name the consumer.
	Group, Instance string
	// FetchTimeout is how long the router waits for a record before it answers that there is none; zero means
	// DefaultFetchTimeout.
	FetchTimeout time.Duration
	// User and Password are for HTTP Basic, APIKey and APISecret for signed requests. At most one pair is used.
	User, Password    string
	APIKey, APISecret string
}

// DefaultFetchTimeout is that of the original's configuration (fetchTimeout, 15000 ms).
const DefaultFetchTimeout = 15 * time.Second

// Validate says what a configuration lacks.
func (c Config) Validate() error {
	switch {
	case len(c.Servers) == 0:
		return errors.New("no DMaaP servers are configured: name them in topicSources.servers")
	case c.Topic == "":
		return errors.New("no topic is configured: name it in topicSources.topic")
	case c.Group == "" || c.Instance == "":
		return errors.New("bug: a consumer needs a group and an instance")
	}
	for _, server := range c.Servers {
		if _, err := c.base(server); err != nil {
			return err
		}
	}
	return nil
}

// Broker says where and what the participant reads and writes.
func (c Config) Broker() acm.Broker {
	return acm.Broker{
		Kind: "DMaaP (legacy)", Servers: c.Servers, PublishTopic: cmp.Or(c.PublishTopic, c.Topic), Topics: []acm.Topic{{Name: c.Topic, Group: c.Group}},
	}
}

// base is the address of a server.
func (c Config) base(server string) (*url.URL, error) {
	if strings.Contains(server, "@") {
		// The log names the servers.
		return nil, errors.New("topicSources.servers has a server with credentials: set userName and password instead")
	}
	scheme, port := "http", "3904"
	if c.HTTPS {
		scheme, port = "https", "3905"
	}
	if !strings.Contains(server, "://") {
		server = scheme + "://" + server
	}
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is no address of a server: give host, or host:port", server)
	case c.HTTPS && u.Scheme == "http":
		return nil, fmt.Errorf("topicSources.servers has %s, which is in clear, and useHttps is true: give host, or host:port", server)
	}
	if u.Port() == "" {
		u.Host = u.Hostname() + ":" + port
	}
	return u, nil
}
