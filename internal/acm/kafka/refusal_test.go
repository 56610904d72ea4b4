package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/acmtest"
	"mlkeeper.dev/internal/acm/kafka"
)

const group = "policy-clamp-ac-kserve-ppnt"

// unhealthy waits until the health says something, with what is published meanwhile, as heartbeats are.
func unhealthy(t *testing.T, transport *kafka.Transport, says ...string) {
	t.Helper()
	ctx := within(t)
	for {
		attempt, end := context.WithTimeout(ctx, 15*time.Second)
		_ = transport.Publish(attempt, acm.Outgoing{Key: "k", Body: []byte("{}")})
		end()
		err, missing := transport.Healthy(), ""
		for _, one := range says {
			if err == nil || !strings.Contains(err.Error(), one) {
				missing = one
			}
		}
		if missing == "" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the health is %v, without %q", err, missing)
		}
	}
}

// healthy waits until a message is published, and what is sent arrives.
func healthy(t *testing.T, c *kfake.Cluster, transport *kafka.Transport) {
	t.Helper()
	joined(t, c, transport)
	if err := transport.Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := transport.Healthy(); err != nil {
		t.Errorf("the health is %v", err)
	}
}

// TestTopicThatIsMissing: where nothing may make a topic, health says which is missing and what to do; once it is there the topic is read
// and written without a restart.
func TestTopicThatIsMissing(t *testing.T) {
	c, err := kfake.NewCluster(kfake.SeedTopics(10, syncs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	transport := open(t, config(c))
	unhealthy(t, transport, operations, "kafka-topics.sh --create --topic "+operations)
	make10(t, c, operations)
	healthy(t, c, transport)
}

func make10(t *testing.T, c *kfake.Cluster, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(within(t), 10, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// TestWhoMakesTopics: a broker that makes topics on demand makes that of operations, as for ONAP's participants, unless the file says
// allow.auto.create.topics: false.
func TestWhoMakesTopics(t *testing.T) {
	for _, asked := range []bool{true, false} {
		c, err := kfake.NewCluster(kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(10))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		with := config(c)
		with.NoTopicCreation = !asked
		transport := open(t, with)
		if asked {
			healthy(t, c, transport)
			continue
		}
		unhealthy(t, transport, operations)
		if topic := c.TopicInfo(operations); topic != nil {
			t.Errorf("the topic was made: %v", topic)
		}
	}
}

// TestSeveralBrokers: records of all partitions arrive, whichever broker leads them, and go on when the leaders change.
func TestSeveralBrokers(t *testing.T) {
	c := broker(t, kfake.NumBrokers(3))
	transport := open(t, config(c))
	joined(t, c, transport)
	for round := range 3 {
		missing := map[string]bool{}
		for n := range 30 {
			order := fmt.Sprintf("order %d of round %d", n, round)
			send(t, c, operations, fmt.Sprint(n), order)
			missing[order] = true
		}
		// What was committed with a coordinator that has moved since may come again.
		for len(missing) > 0 {
			for _, got := range receive(t, transport, 1, true) {
				delete(missing, got)
			}
		}
		c.ShufflePartitionLeaders()
		c.RehashCoordinators()
	}
	if err := transport.Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("{}")}); err != nil {
		t.Error(err)
	}
}

// TestTLS: a broker whose certificate is not signed by the authority is not spoken to, and health says why.
func TestTLS(t *testing.T) {
	certificate, trusted := authority(t)
	_, another := authority(t)
	c := broker(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	with := config(c)
	with.TLS = &tls.Config{RootCAs: another, MinVersion: tls.VersionTLS12}
	unhealthy(t, open(t, with), "certificate")
	with.TLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	if err := open(t, with).Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("{}")}); err != nil {
		t.Error(err)
	}
	// Who speaks in clear to it is refused, and does not wait for ever.
	with.TLS = nil
	attempt, end := context.WithTimeout(within(t), 30*time.Second)
	defer end()
	if err := open(t, with).Publish(attempt, acm.Outgoing{Body: []byte("{}")}); err == nil || attempt.Err() != nil {
		t.Errorf("in clear it is published with %v, %v", err, attempt.Err())
	}
}

// TestMutualTLS: a broker that asks for a certificate is shown one; without one it is not spoken to, and health says why.
func TestMutualTLS(t *testing.T) {
	certificate, trusted := authority(t)
	user, clients := authority(t)
	c := broker(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}))
	with := config(c)
	with.TLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	unhealthy(t, open(t, with), "certificate")
	// Another configuration, since the client before may still read its own.
	with.TLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{user}}
	if err := open(t, with).Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("{}")}); err != nil {
		t.Error(err)
	}
}

// authority makes a certificate that signs itself, for a broker on this machine.
func authority(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestWrongPassword: nothing is published, and nothing waits for ever. This broker ends the connection without a word, as those before
// Kafka 1.0 did; later ones say SASL_AUTHENTICATION_FAILED, which is told.
func TestWrongPassword(t *testing.T) {
	for _, mechanism := range []string{"SCRAM-SHA-512", "PLAIN"} {
		c := broker(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "strimzi", "secret"))
		with := config(c)
		with.Mechanism, with.User, with.Password = mechanism, "strimzi", "wrong"
		unhealthy(t, open(t, with), "publish on topic "+operations)
	}
}

// TestAccessRules: what the broker's rules forbid is named in the health; the rules that the page asks for are enough.
func TestAccessRules(t *testing.T) {
	rule := func(kind kmsg.ACLResourceType, name string, operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: operation, Allow: true}
	}
	needed := map[string]kfake.ACL{
		"read operations":  rule(kmsg.ACLResourceTypeTopic, operations, kmsg.ACLOperationRead),
		"write operations": rule(kmsg.ACLResourceTypeTopic, operations, kmsg.ACLOperationWrite),
		"read syncs":       rule(kmsg.ACLResourceTypeTopic, syncs, kmsg.ACLOperationRead),
		"read group":       rule(kmsg.ACLResourceTypeGroup, group, kmsg.ACLOperationRead),
	}
	for lacks, says := range map[string][]string{
		"nothing":          nil,
		"read operations":  {operations, "TOPIC_AUTHORIZATION_FAILED"},
		"write operations": {operations, "AUTHORIZATION_FAILED", "Write"},
		"read syncs":       {syncs, "TOPIC_AUTHORIZATION_FAILED"},
		"read group":       {"GROUP_AUTHORIZATION_FAILED"},
	} {
		t.Run("without "+lacks, func(t *testing.T) {
			var rules []kfake.ACL
			for name, one := range needed {
				if name != lacks {
					rules = append(rules, one)
				}
			}
			c := broker(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "kserve", "secret", rules...))
			with := config(c)
			with.Mechanism, with.User, with.Password = "PLAIN", "kserve", "secret"
			transport, err := kafka.New(with, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(transport.Close)
			if lacks != "nothing" {
				unhealthy(t, transport, says...)
				return
			}
			// What it has said itself comes back, so that it reads as well.
			for ctx := within(t); ; {
				if err := transport.Publish(ctx, acm.Outgoing{Key: "k", Body: []byte("{}")}); err != nil {
					t.Fatal(err)
				}
				soon, end := context.WithTimeout(ctx, time.Second)
				_, err := transport.Receive(soon)
				end()
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					t.Fatal("it reads nothing")
				}
			}
			if err := transport.Healthy(); err != nil {
				t.Errorf("the health is %v", err)
			}
		})
	}
}

// atFirst has the broker answer the first requests of a kind otherwise. It counts them all.
func atFirst[T kmsg.Request](c *kfake.Cluster, kind kmsg.Key, requests int32, answer func(T) kmsg.Response) (asked *atomic.Int32) {
	asked = &atomic.Int32{}
	c.ControlKey(int16(kind), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		in, ok := request.(T)
		if !ok || asked.Add(1) > requests {
			return nil, nil, false
		}
		return answer(in), nil, true
	})
	return asked
}

// ends has the broker answer requests for the end of a topic with an error at first.
func ends(c *kfake.Cluster, failing int32) (asked *atomic.Int32) {
	return atFirst(c, kmsg.ListOffsets, failing, func(in *kmsg.ListOffsetsRequest) kmsg.Response {
		out := in.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range in.Topics {
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewListOffsetsResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.OffsetNotAvailable.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			out.Topics = append(out.Topics, topic)
		}
		return out
	})
}

// TestAnElectionReplaysNothing: the leaders of the partitions are elected when the participant comes up for the first time. The orders of
// long ago stay where they are, and new ones arrive.
func TestAnElectionReplaysNothing(t *testing.T) {
	c := broker(t)
	for n := range 20 {
		send(t, c, operations, fmt.Sprint(n), "an old order")
	}
	asked := ends(c, 4)
	transport := open(t, config(c))
	for n := 0; ; n++ {
		send(t, c, operations, fmt.Sprint(n), "a new order")
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		batch, err := transport.Receive(ctx)
		end()
		if err != nil && n < 60 {
			continue
		}
		if err != nil || asked.Load() <= 4 {
			t.Fatalf("after %d questions: %v", asked.Load(), err)
		}
		for _, record := range batch.Records {
			if string(record) != "a new order" {
				t.Fatalf("received is %q", record)
			}
		}
		return
	}
}

// TestFirstPositionsAreStored: the broker does not take the first positions at once. What is sent while no participant runs is not skipped,
// and one line for each topic tells that it might be.
func TestFirstPositionsAreStored(t *testing.T) {
	c := broker(t)
	refused := atFirst(c, kmsg.OffsetCommit, 4, func(in *kmsg.OffsetCommitRequest) kmsg.Response {
		out := in.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range in.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewOffsetCommitResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.InvalidCommitOffsetSize.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			out.Topics = append(out.Topics, topic)
		}
		return out
	})
	said := &acmtest.Lines{}
	first, err := kafka.New(config(c), said.Logger())
	if err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; time.Sleep(100 * time.Millisecond) {
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := kadm.NewClient(client).FetchOffsets(ctx, group)
		client.Close()
		if err == nil && len(stored[operations]) == 10 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("after %d attempts is stored %v, %v", refused.Load(), stored, err)
		}
	}
	first.Close()
	if got := said.With("is not stored yet"); len(got) == 0 || len(got) > 2 {
		t.Errorf("logged of four refusals: %q", got)
	}
	for n := range 20 {
		send(t, c, operations, fmt.Sprint(n), "an order")
	}
	if got := receive(t, open(t, config(c)), 20, true); len(got) != 20 {
		t.Errorf("%d orders came", len(got))
	}
}

// TestTheClientsFailuresAreLogged: nobody answers at the address. That is logged, once for each client and not with each attempt.
func TestTheClientsFailuresAreLogged(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	said := &acmtest.Lines{}
	transport, err := kafka.New(kafka.Config{Servers: []string{nowhere}, OperationTopic: operations, SyncTopic: syncs, Group: group, ReplicaID: replica}, said.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	_ = transport.Publish(within(t), acm.Outgoing{Body: []byte("{}")})
	if got := said.With("connection refused"); len(got) == 0 || len(said.With("unable to open connection")) > 3 {
		t.Errorf("logged is %q", said.With())
	}
}

// TestTopics: how far behind a topic is read is known before anything is done with its records, and after.
func TestTopics(t *testing.T) {
	c := broker(t)
	transport := open(t, config(c))
	joined(t, c, transport)
	for n := range 5 {
		send(t, c, operations, fmt.Sprint(n), "an order")
	}
	lags := func() map[string]int64 {
		out := map[string]int64{}
		for _, topic := range transport.Topics(within(t)) {
			if !topic.Connected {
				t.Errorf("%s is not connected", topic.Name)
			}
			out[topic.Name] = topic.Lag
		}
		return out
	}
	if got := lags(); got[operations] != 5 || got[syncs] != 0 {
		t.Errorf("behind are %v", got)
	}
	receive(t, transport, 5, true)
	if got := lags(); got[operations] != 0 {
		t.Errorf("behind are %v in the end", got)
	}
}

// TestABrokerThatHangs: what a broker may have taken is not given up by the client, and health does not wait for that.
func TestABrokerThatHangs(t *testing.T) {
	c, over := broker(t), make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-over })
		return nil, nil, false
	})
	transport := open(t, config(c))
	published := make(chan error, 1)
	start := time.Now()
	go func() { published <- transport.Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("{}")}) }()
	for ; transport.Healthy() == nil; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > 15*time.Second {
			t.Fatal("health says nothing")
		}
	}
	if err := transport.Healthy(); !strings.Contains(err.Error(), "has not answered") {
		t.Errorf("health is %v", err)
	}
	close(over)
	if err := <-published; err != nil {
		t.Error(err)
	}
	if err := transport.Healthy(); err != nil {
		t.Errorf("in the end health is %v", err)
	}
}

// TestATopicThatIsMadeAgain: a topic that was deleted, and made again, is read again. Meanwhile health tells that it is missing.
func TestATopicThatIsMadeAgain(t *testing.T) {
	c := broker(t)
	transport := open(t, config(c))
	healthy(t, c, transport)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := kadm.NewClient(client).DeleteTopic(within(t), operations); err != nil {
		t.Fatal(err)
	}
	unhealthy(t, transport, operations)
	make10(t, c, operations)
	joined(t, c, transport)
	for ctx := within(t); ; time.Sleep(100 * time.Millisecond) {
		err := transport.Publish(ctx, acm.Outgoing{Key: "k", Body: []byte("{}")})
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
