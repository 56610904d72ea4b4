//go:build kafka

package kserve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
)

// realKafka is an Apache Kafka broker in KRaft mode, which asks for SCRAM-SHA-512 as Strimzi's do.
type realKafka struct {
	t       *testing.T
	dir     string
	address string
	process *exec.Cmd
}

const kafkaUser, kafkaPassword = "kserve", "kserve-secret"

// java runs a class of Kafka.
func (k *realKafka) java(class string, args ...string) *exec.Cmd {
	lib := os.Getenv("KAFKA_LIB")
	if lib == "" {
		k.t.Fatal("KAFKA_LIB is not set: run make test-kafka")
	}
	cmd := exec.Command("java", append([]string{"-Xmx512m", "-cp", filepath.Join(lib, "*"), class}, args...)...)
	cmd.Dir = k.dir
	return cmd
}

// newKafka formats the storage of a broker and starts it.
func newKafka(t *testing.T) *realKafka {
	t.Helper()
	k := &realKafka{t: t, dir: t.TempDir()}
	var ports []any
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
		defer listener.Close()
	}
	k.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	properties := fmt.Sprintf(`
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=SASL_PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=SASL_PLAINTEXT://127.0.0.1:%[1]d
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
inter.broker.listener.name=SASL_PLAINTEXT
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=%[3]s
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[5]s="%[6]s";
log.dirs=%[4]s
num.partitions=10
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`, ports[0], ports[1], jaas(), filepath.Join(k.dir, "log"), kafkaUser, kafkaPassword)
	if err := os.WriteFile(filepath.Join(k.dir, "server.properties"), []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	format := k.java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", "server.properties",
		"--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", kafkaUser, kafkaPassword))
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	k.start()
	t.Cleanup(k.stop)
	return k
}

func jaas() string {
	return fmt.Sprintf(`org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s";`, kafkaUser, kafkaPassword)
}

func (k *realKafka) start() {
	k.t.Helper()
	k.process = k.java("kafka.Kafka", "server.properties")
	log, err := os.OpenFile(filepath.Join(k.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	defer log.Close()
	k.process.Stdout, k.process.Stderr = log, log
	if err := k.process.Start(); err != nil {
		k.t.Fatal(err)
	}
	cluster.Eventually(k.t, patience, func() error {
		conn, err := net.Dial("tcp", k.address)
		if err != nil {
			text, _ := os.ReadFile(filepath.Join(k.dir, "broker.log"))
			return fmt.Errorf("the broker does not answer: %w\n%s", err, text)
		}
		return conn.Close()
	})
}

func (k *realKafka) stop() {
	if k.process != nil {
		_ = k.process.Process.Kill()
		_ = k.process.Wait()
		k.process = nil
	}
}

// site makes a site on the broker.
func (k *realKafka) site(release acmruntime.Release) *site {
	k.t.Helper()
	side, err := acmruntime.OnKafka([]string{k.address}, kgo.SASL(scram.Auth{User: kafkaUser, Pass: kafkaPassword}.AsSha512Mechanism()))
	if err != nil {
		k.t.Fatal(err)
	}
	return newSite(k.t, release, side, "kafka", []string{k.address}, map[string]string{
		"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas(),
	})
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
