//go:build kafka || realacm

package kserve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
)

// realKafka is an Apache Kafka broker in KRaft mode, with listeners as Strimzi's: one asks for SCRAM-SHA-512, one for a certificate, and one
// for nothing.
type realKafka struct {
	t                      *testing.T
	dir                    string
	address, mutual, plain string
	server, user, ca       certificate
	process                *exec.Cmd
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
	ports, err := freePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	k.address, k.mutual, k.plain = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[2]), fmt.Sprintf("127.0.0.1:%d", ports[3])
	k.ca = newCertificate(t, "ca", nil)
	k.server, k.user = newCertificate(t, "kafka", &k.ca), newCertificate(t, kafkaUser, &k.ca)
	for name, pem := range map[string][]byte{
		"ca.pem": k.ca.chain, "server.pem": slices.Concat(k.server.private, k.server.chain), "user.pem": slices.Concat(k.user.private, k.user.chain),
	} {
		if err := os.WriteFile(filepath.Join(k.dir, name), pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	properties := fmt.Sprintf(`
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=SASL_PLAINTEXT://127.0.0.1:%[1]d,SSL://127.0.0.1:%[3]d,PLAINTEXT://127.0.0.1:%[9]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=SASL_PLAINTEXT://127.0.0.1:%[1]d,SSL://127.0.0.1:%[3]d,PLAINTEXT://127.0.0.1:%[9]d
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,PLAINTEXT:PLAINTEXT
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location=%[8]s/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=%[8]s/ca.pem
inter.broker.listener.name=SASL_PLAINTEXT
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=%[4]s
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[6]s="%[7]s";
log.dirs=%[5]s
num.partitions=10
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`, ports[0], ports[1], ports[2], jaas(), filepath.Join(k.dir, "log"), kafkaUser, kafkaPassword, k.dir, ports[3])
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
	log := filepath.Join(k.dir, "broker.log")
	launch(k.t, k.process, log)
	cluster.Eventually(k.t, patience, func() error {
		conn, err := net.Dial("tcp", k.address)
		if err != nil {
			text, _ := os.ReadFile(log)
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

// launch starts a process that writes into a log, after what is there.
func launch(t *testing.T, process *exec.Cmd, log string) {
	t.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	process.Stdout, process.Stderr = file, file
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
}

// certificate is one for 127.0.0.1, for a server and for a client, with its key.
type certificate struct {
	chain, private []byte
	parsed         *x509.Certificate
	key            *ecdsa.PrivateKey
}

// newCertificate makes a certificate that another has signed, or an authority.
func newCertificate(t *testing.T, name string, by *certificate) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.parsed, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate{
		chain: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), parsed: parsed, key: key,
		private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}
