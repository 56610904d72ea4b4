//go:build kafka

package kserve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/kafka"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
)

// site makes a site on the broker.
func (k *realKafka) site(release acmruntime.Release) *site {
	return k.siteOn(release, k.address, map[string]string{
		"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas(),
	}, kgo.SASL(scram.Auth{User: kafkaUser, Pass: kafkaPassword}.AsSha512Mechanism()))
}

func (k *realKafka) siteOn(release acmruntime.Release, address string, properties map[string]string, options ...kgo.Opt) *site {
	k.t.Helper()
	side, err := acmruntime.OnKafka([]string{address}, options...)
	if err != nil {
		k.t.Fatal(err)
	}
	return newSite(k.t, release, side, "kafka", []string{address}, properties)
}

// tls is how a program of Go speaks to the listener that asks for a certificate.
func (k *realKafka) tls() *tls.Config {
	k.t.Helper()
	pair, err := tls.X509KeyPair(k.user.chain, k.user.private)
	if err != nil {
		k.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(k.ca.chain)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// readBy checks that an independent client reads what the participant has published, a message a line: who says it, what it answers, and
// how the order ended.
func (k *realKafka) readBy(client string, read *exec.Cmd, participant string, i *acmruntime.Instance) {
	k.t.Helper()
	var complaint bytes.Buffer
	read.Stderr = &complaint
	out, err := read.Output()
	// Kafka's own ends with an error when its time is up, and says so.
	if err != nil && !strings.Contains(complaint.String(), "TimeoutException") {
		k.t.Errorf("%s: %v: %s", client, err, complaint.String())
	}
	type message struct {
		MessageType   string         `json:"messageType"`
		ParticipantID string         `json:"participantId"`
		CompositionID string         `json:"compositionId"`
		InstanceID    string         `json:"automationCompositionId"`
		ResponseTo    string         `json:"responseTo"`
		Result        string         `json:"stateChangeResult"`
		Message       string         `json:"message"`
		Results       map[string]any `json:"automationCompositionResultMap"`
		Supported     []any          `json:"participantSupportedElementType"`
	}
	var said []message
	for line := range bytes.Lines(out) {
		m := message{}
		if err := json.Unmarshal(line, &m); err != nil {
			k.t.Errorf("%s reads %q: %v", client, line, err)
		}
		said = append(said, m)
	}
	for what, is := range map[string]func(message) bool{
		"a registration": func(m message) bool { return m.MessageType == "PARTICIPANT_REGISTER" && len(m.Supported) == 1 },
		"a heartbeat":    func(m message) bool { return m.MessageType == "PARTICIPANT_STATUS" && len(m.Supported) == 1 },
		"that it is primed": func(m message) bool {
			return m.MessageType == "PARTICIPANT_PRIME_ACK" && m.CompositionID == i.Composition.ID
		},
		"that it is deployed": func(m message) bool {
			return m.MessageType == "AUTOMATION_COMPOSITION_STATECHANGE_ACK" && m.InstanceID == i.ID && m.Results[i.Elements[0].ID] != nil &&
				m.Message == "Deployed" && m.ResponseTo != ""
		},
	} {
		if !slices.ContainsFunc(said, func(m message) bool {
			return is(m) && m.ParticipantID == participant && (m.Result == "" || m.Result == "NO_ERROR")
		}) {
			k.t.Errorf("%s does not read %s: %+v; it says %s", client, what, said, complaint.String())
		}
	}
}

// TestRealKafka is the seed's workflow on Apache Kafka, with a restart of the broker in its midst, and with independent clients,
// Kafka's own console consumer and kcat, reading what was published.
func TestRealKafka(t *testing.T) {
	k := newKafka(t)
	s := k.site(acmruntime.V910)
	s.start()
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("sklearn-iris", sklearn(1)))

	k.readBy("Kafka's own consumer", k.java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", k.address, "--topic", topic,
		"--from-beginning", "--timeout-ms", "10000", "--consumer-property", "security.protocol=SASL_PLAINTEXT",
		"--consumer-property", "sasl.mechanism=SCRAM-SHA-512", "--consumer-property", "sasl.jaas.config="+jaas()), s.runtime.Participant, i)
	if kcat, err := exec.LookPath("kcat"); err == nil {
		// Not by SCRAM: librdkafka before 2.6.1 repeats the client's nonce, which Kafka refuses since CVE-2024-56128.
		k.readBy("kcat", exec.Command(kcat, "-b", k.address, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-X", "security.protocol=SASL_PLAINTEXT",
			"-X", "sasl.mechanism=PLAIN", "-X", "sasl.username="+kafkaUser, "-X", "sasl.password="+kafkaPassword), s.runtime.Participant, i)
	} else {
		t.Log("kcat is not there to read it too")
	}

	k.stop()
	k.start()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	s.must(s.runtime.Undeploy(ctx, i))
	s.must(s.runtime.AwaitInstance(ctx, i, "UNDEPLOYED", "NO_ERROR"))
	s.must(s.runtime.Delete(ctx, i))
	s.must(s.runtime.AwaitInstance(ctx, i, "DELETED", "NO_ERROR"))
}

// TestRealKafkaMutualTLS is the seed's workflow over the listener that asks for a certificate, which refuses who has none.
func TestRealKafkaMutualTLS(t *testing.T) {
	k := newKafka(t)
	properties := map[string]string{
		"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": filepath.Join(k.dir, "ca.pem"),
		"ssl.keystore.type": "PEM", "ssl.keystore.location": filepath.Join(k.dir, "user.pem"),
	}
	s := k.siteOn(acmruntime.V910, k.mutual, properties, kgo.DialTLSConfig(k.tls()))
	s.start()
	i := s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))

	anonymous := k.tls()
	anonymous.Certificates = nil
	transport := k.member("anonymous", anonymous)
	attempt, end := context.WithTimeout(within(t), 10*time.Second)
	defer end()
	if err := transport.Publish(attempt, acm.Outgoing{Key: "k", Body: []byte("{}")}); err == nil {
		t.Error("the broker takes a message without a certificate")
	}
}

// member is one of a group of participants.
func (k *realKafka) member(replica string, with *tls.Config) *kafka.Transport {
	k.t.Helper()
	transport, err := kafka.New(kafka.Config{
		Servers: []string{k.mutual}, OperationTopic: topic, SyncTopic: acmruntime.SyncTopic, Group: "replicas", ReplicaID: replica, TLS: with,
	}, logr.Discard())
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(transport.Close)
	return transport
}

// TestRealKafkaRebalances: while members of a group come and go, each order reaches one of them, and none gets lost.
func TestRealKafkaRebalances(t *testing.T) {
	k := newKafka(t)
	side, err := acmruntime.OnKafka([]string{k.mutual}, kgo.DialTLSConfig(k.tls()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(side.Close)
	var mu sync.Mutex
	by := map[string]string{}
	join := func(replica string) (leave func()) {
		transport := k.member(replica, k.tls())
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				batch, err := transport.Receive(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				for _, record := range batch.Records {
					by[string(record)] = replica
				}
				mu.Unlock()
				if err := batch.Done(ctx); err != nil {
					return
				}
			}
		}()
		return func() {
			stop()
			<-done
			transport.Close()
		}
	}
	sent := 0
	// until sends orders until a member has got one of them.
	until := func(replica string) {
		t.Helper()
		first := sent
		cluster.Eventually(t, patience, func() error {
			order := fmt.Sprintf("order %d", sent)
			if err := side.Send(within(t), topic, []byte(order), []byte(order)); err != nil {
				return err
			}
			sent++
			mu.Lock()
			defer mu.Unlock()
			for n := first; n < sent; n++ {
				if by[fmt.Sprintf("order %d", n)] == replica {
					return nil
				}
			}
			return fmt.Errorf("of the orders %d to %d none has reached %s: %v", first, sent, replica, by)
		})
	}
	leaveA := join("a")
	until("a")
	// The group has a position now, and from here on nothing may get lost.
	kept := sent
	leaveB := join("b")
	until("b")
	until("a")
	leaveA()
	until("b")
	leaveB()
	for range 20 {
		order := fmt.Sprintf("order %d", sent)
		if err := side.Send(within(t), topic, []byte(order), []byte(order)); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	join("c")
	cluster.Eventually(t, patience, func() error {
		mu.Lock()
		defer mu.Unlock()
		for n := kept; n < sent; n++ {
			if by[fmt.Sprintf("order %d", n)] == "" {
				return fmt.Errorf("order %d of %d has reached nobody", n, sent)
			}
		}
		return nil
	})
}

// TestRealKafkaRestart: a member that comes back, in good order or after a crash, is given at once what was sent while it was away, and
// nothing that it has done with.
func TestRealKafkaRestart(t *testing.T) {
	k := newKafka(t)
	side, err := acmruntime.OnKafka([]string{k.mutual}, kgo.DialTLSConfig(k.tls()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(side.Close)
	next := func(transport *kafka.Transport) string {
		t.Helper()
		batch, err := transport.Receive(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := batch.Done(within(t)); err != nil || len(batch.Records) != 1 {
			t.Fatalf("received is %q, %v", batch.Records, err)
		}
		return string(batch.Records[0])
	}
	send := func(order string) {
		t.Helper()
		if err := side.Send(within(t), topic, []byte("key"), []byte(order)); err != nil {
			t.Fatal(err)
		}
	}
	transport := k.member("a", k.tls())
	cluster.Eventually(t, patience, func() error {
		send("probe")
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		batch, err := transport.Receive(ctx)
		if err != nil {
			return err
		}
		return batch.Done(within(t))
	})
	for n, crashes := range []bool{false, true, false} {
		if !crashes {
			transport.Close()
		}
		order := fmt.Sprintf("order %d", n)
		send(order)
		start := time.Now()
		transport = k.member("a", k.tls())
		got := next(transport)
		for got == "probe" {
			got = next(transport)
		}
		if took := time.Since(start); got != order || took > 3*time.Second {
			t.Errorf("after a restart, with a crash: %t, %q was received in place of %q, after %s", crashes, got, order, took)
		} else {
			t.Logf("after a restart, with a crash: %t, the order was received after %s", crashes, took)
		}
	}
}
