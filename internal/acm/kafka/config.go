package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"k8s.io/client-go/util/flowcontrol"

	"mlkeeper.dev/internal/acm"
)

// Config says how a broker is reached.
type Config struct {
	// Servers are the bootstrap servers, host:port.
	Servers []string
	// OperationTopic is read and written; PublishTopic is written instead of it, unless it is empty.
	OperationTopic, PublishTopic string
	// SyncTopic is read by every replica (Oslo and later). The runtime makes it, by writing to it; runtimes without one never do.
	// Empty for none.
	SyncTopic string
	// SyncOptional says that nobody has named SyncTopic: the broker may refuse it without harm.
	SyncOptional bool
	// NoTopicCreation says that the broker is not to be asked to make a topic that is missing. ONAP's participants ask for it unless
	// told otherwise, and so does this one; of OperationTopic alone.
	NoTopicCreation bool
	// Group is the consumer group of the participant. The group for SyncTopic is Group, a dash and ReplicaID, which the access
	// rules of ONAP's Helm charts allow by their prefix.
	Group string
	// ReplicaID is the static member of the group; it has to stay the same over restarts.
	ReplicaID string
	// TLS is nil for plain connections.
	TLS *tls.Config
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty for none.
	Mechanism, User, Password string
}

// Validate says what a configuration lacks.
func (c Config) Validate() error {
	switch {
	case len(c.Servers) == 0:
		return errors.New("no Kafka servers are configured: name them in topicSources.servers, or as kafka.bootstrapServers")
	case c.OperationTopic == "":
		return errors.New("no topic is configured: name it in topicSources.topic")
	case c.Group == "" || c.ReplicaID == "":
		return errors.New("bug: a consumer needs a group and a replica id")
	}
	_, err := c.mechanism()
	return err
}

// Broker says where and what the participant reads and writes.
func (c Config) Broker() acm.Broker {
	out := acm.Broker{
		Kind: "Kafka", Servers: c.Servers, PublishTopic: cmp.Or(c.PublishTopic, c.OperationTopic), Topics: []acm.Topic{{Name: c.OperationTopic, Group: c.Group}},
	}
	if c.SyncTopic != "" && c.SyncTopic != c.OperationTopic {
		out.Topics = append(out.Topics, acm.Topic{Name: c.SyncTopic, Group: c.Group + "-" + c.ReplicaID})
	}
	return out
}

const (
	// maxFetch bounds what is fetched at once, in bytes, of which many small records make twenty times as much; one batch that is larger is
	// fetched nevertheless.
	maxFetch = 1 << 20
	// maxRecords is how many records make a batch.
	maxRecords = 500
	// delivery is how long one attempt to publish lasts.
	delivery = 10 * time.Second
	// absences is how often in a row, some seconds apart, a broker may not know a topic before that is told.
	absences = 1
	// linger is how long a record waits for others to go with it.
	linger = 5 * time.Millisecond
	// hold is how long the broker may hold a fetch that has nothing: Kafka's own default for consumers. The client's own, five seconds,
	// is how long a restart would take to read partitions whose position it verifies while a fetch of the others is held.
	hold = 500 * time.Millisecond
	// dials is how many connections the clients of a transport may make at once, and dialsPerSecond how many from then on: what accepts
	// connections and closes them, such as a balancer without a broker behind it, is otherwise tried two dozen times a second.
	dials, dialsPerSecond = 40, 2
	// dialing is how long one connection may take.
	dialing = 10 * time.Second
	// session is how long a member may be silent before its partitions go to another.
	session = 30 * time.Second
)

func (c Config) options() ([]kgo.Opt, error) {
	mechanism, err := c.mechanism()
	if err != nil {
		return nil, err
	}
	out := []kgo.Opt{
		kgo.SeedBrokers(c.Servers...), kgo.ClientID("mlkeeper"), kgo.FetchMaxBytes(maxFetch), kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.RecordDeliveryTimeout(delivery), kgo.UnknownTopicRetries(absences), kgo.ProducerLinger(linger), kgo.Dialer(c.dialer()),
	}
	if mechanism != nil {
		out = append(out, kgo.SASL(mechanism))
	}
	return out, nil
}

// dialer makes connections, as often as is allowed.
func (c Config) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialing}
	dial := plain.DialContext
	if c.TLS != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: c.TLS}).DialContext
	}
	limiter := flowcontrol.NewTokenBucketRateLimiter(dialsPerSecond, dials)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := limiter.Wait(ctx); err != nil {
			return nil, fmt.Errorf("wait to connect again: %w", err)
		}
		return dial(ctx, network, address)
	}
}

func (c Config) mechanism() (sasl.Mechanism, error) {
	auth := scram.Auth{User: c.User, Pass: c.Password}
	switch strings.ToUpper(c.Mechanism) {
	case "":
		return nil, nil
	case "PLAIN":
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl.mechanism %q is none that MLKeeper speaks: use SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN", c.Mechanism)
}

// consumer are the options of a member of a group.
func (c Config) consumer(group, topic string) []kgo.Opt {
	decompressor := newDecompressor()
	out := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.InstanceID(c.ReplicaID), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(session), kgo.FetchMaxWait(hold),
		// What was committed and has been deleted since is gone; what is left of the topic is not skipped too.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.WithDecompressor(decompressor), kgo.WithHooks(decompressor),
	}
	if topic == c.OperationTopic {
		out = append(out, c.creation()...)
	}
	return out
}

// creation has the broker make a topic that is missing, if it does that at all.
func (c Config) creation() []kgo.Opt {
	if c.NoTopicCreation {
		return nil
	}
	return []kgo.Opt{kgo.AllowAutoTopicCreation()}
}
