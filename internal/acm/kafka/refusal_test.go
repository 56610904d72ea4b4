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
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"mlkeeper.dev/internal/acm"
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
