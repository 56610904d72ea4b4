package config

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"mlkeeper.dev/internal/acm/dmaap"
	"mlkeeper.dev/internal/acm/kafka"
	"mlkeeper.dev/internal/pki"
)

// environment looks up variables in a map.
func environment(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
}

func readTestdata(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestLondon(t *testing.T) {
	got, err := Read(readTestdata(t, "london.yaml"), Options{Env: environment(nil), Installation: "a", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Identity.ParticipantID != DefaultParticipantID || got.Interval != 2*time.Minute || len(got.Identity.Supported) != 2 ||
		got.Identity.Supported[0].TypeName != DefaultType || got.Identity.Supported[0].TypeVersion != "1.0.1" {
		t.Errorf("the participant is %+v", got.Identity)
	}
	want := dmaap.Config{
		Servers: []string{"localhost"}, Topic: "POLICY-ACRUNTIME-PARTICIPANT", PublishTopic: "POLICY-ACRUNTIME-PARTICIPANT",
		Group: DefaultGroup, Instance: got.Identity.ReplicaID, FetchTimeout: 15 * time.Second,
	}
	if got.Kafka != nil || got.DMaaP == nil || got.DMaaP.Servers[0] != want.Servers[0] || got.DMaaP.Topic != want.Topic ||
		got.DMaaP.PublishTopic != want.PublishTopic || got.DMaaP.Group != want.Group || got.DMaaP.FetchTimeout != want.FetchTimeout {
		t.Errorf("DMaaP is %+v", got.DMaaP)
	}
	if got.HTTP != (HTTP{8087, DefaultContextPath, "participantUser", "zb!XztG34"}) {
		t.Errorf("HTTP is %+v", got.HTTP)
	}
}

func TestStrimzi(t *testing.T) {
	jaas := `org.apache.kafka.common.security.scram.ScramLoginModule required username="kserve" password="s=e\"cret";`
	jaas = strings.ReplaceAll(jaas, `\"`, "'")
	got, err := Read(readTestdata(t, "strimzi.yaml"), Options{Env: environment(map[string]string{
		"topicServer": "onap-strimzi-kafka-bootstrap:9092, other:9092", "SASL_JAAS_CONFIG": jaas,
	})})
	if err != nil {
		t.Fatal(err)
	}
	want := kafka.Config{
		OperationTopic: "policy.clamp-runtime-acm", PublishTopic: "policy.clamp-runtime-acm", SyncTopic: "acm-ppnt-sync",
		Group: "policy-clamp-ac-kserve-ppnt", ReplicaID: got.Identity.ReplicaID,
		Mechanism: "SCRAM-SHA-512", User: "kserve", Password: "s=e'cret",
	}
	k := *got.Kafka
	if !slices.Equal(k.Servers, []string{"onap-strimzi-kafka-bootstrap:9092", "other:9092"}) {
		t.Errorf("the servers are %q", k.Servers)
	}
	k.Servers = nil
	if k.TLS != nil || k.OperationTopic != want.OperationTopic || k.SyncTopic != want.SyncTopic || k.Group != want.Group ||
		k.Mechanism != want.Mechanism || k.User != want.User || k.Password != want.Password {
		t.Errorf("Kafka is %+v", k)
	}
}

// shipped is the file of the component.
func shipped(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "components", "participant", "application.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTheShippedFileIsSecured: whoever uses it as it is sends credentials over TLS, and gives the broker's authority and the password by
// variables. Without these the participant starts, and health tells that the broker refuses it. One for a trial has neither.
func TestTheShippedFileIsSecured(t *testing.T) {
	authority, err := pki.NewAuthority(rand.Reader, time.Now(), "cluster-ca")
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]map[string]string{
		"nothing set": nil, "a password": {"kafkaUser": "kserve", "kafkaPassword": "p}"},
		"as Strimzi gives it": {"SASL_JAAS_CONFIG": `ScramLoginModule required username="kserve" password="p";`, "kafkaTrustStore": string(authority.CertPEM)},
	} {
		got, err := Read(shipped(t), Options{Env: environment(values)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if k := got.Kafka; k.TLS == nil || k.Mechanism != "SCRAM-SHA-512" || k.User == "" || k.Password == "" ||
			(k.TLS.RootCAs != nil) != (values["kafkaTrustStore"] != "") || values != nil && k.User != "kserve" {
			t.Errorf("%s: Kafka is %+v", name, k)
		}
	}
	got, err := Read(shipped(t), Options{Env: environment(map[string]string{"kafkaSecurityProtocol": "PLAINTEXT", "SASL_JAAS_CONFIG": ""})})
	if err != nil || got.Kafka.TLS != nil || got.Kafka.Mechanism != "" {
		t.Errorf("for a trial: %+v, %v", got.Kafka, err)
	}
}

// TestTrustStore reads the two forms in which Strimzi gives the authority of a broker.
func TestTrustStore(t *testing.T) {
	authority, err := pki.NewAuthority(rand.Reader, time.Now(), "cluster-ca")
	if err != nil {
		t.Fatal(err)
	}
	store, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{authority.Cert}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"ca.crt": authority.CertPEM, "ca.p12": store} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := x509.NewCertPool()
	want.AddCert(authority.Cert)
	for name, c := range map[string]struct{ file, kind, password, failure string }{
		"PEM":              {file: "ca.crt", kind: "PEM"},
		"PKCS12":           {file: "ca.p12", kind: "pkcs12", password: "secret"},
		"another password": {file: "ca.p12", kind: "PKCS12", password: "other", failure: "ssl.truststore.password"},
		"no PKCS12":        {file: "ca.crt", kind: "PKCS12", failure: "no PKCS12 trust store"},
		"no file":          {file: "none", kind: "PEM", failure: "ssl.truststore.location"},
	} {
		text := fmt.Sprintf(`
participant:
  intermediaryParameters:
    clampAutomationCompositionTopics:
      topicSources:
        - {topic: t, servers: [s], topicCommInfrastructure: kafka, additionalProps: {
            security.protocol: SSL, ssl.truststore.location: %q, ssl.truststore.type: %s, ssl.truststore.password: %q}}
`, filepath.Join(dir, c.file), c.kind, c.password)
		got, err := Read([]byte(text), Options{Env: environment(nil)})
		if c.failure != "" {
			if err == nil || !strings.Contains(err.Error(), c.failure) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: told as %v", name, err)
			}
			continue
		}
		if err != nil || !got.Kafka.TLS.RootCAs.Equal(want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeyStore reads the forms in which a certificate is given that a broker asks for.
func TestKeyStore(t *testing.T) {
	authority, err := pki.NewAuthority(rand.Reader, time.Now(), "clients-ca")
	if err != nil {
		t.Fatal(err)
	}
	user, err := pki.NewLeaf(rand.Reader, time.Now(), authority, []string{"kserve"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := tls.X509KeyPair(user.CertPEM, user.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	store, err := pkcs12.Modern.Encode(key.PrivateKey, user.Cert, []*x509.Certificate{authority.Cert}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"user.pem": slices.Concat(user.KeyPEM, user.CertPEM, authority.CertPEM), "user.crt": user.CertPEM, "user.p12": store,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name, kind string) map[string]string {
		return map[string]string{"ssl.keystore.location": filepath.Join(dir, name), "ssl.keystore.type": kind, "ssl.keystore.password": "secret"}
	}
	with := func(properties map[string]string, key, value string) map[string]string {
		properties[key] = value
		return properties
	}
	for name, c := range map[string]struct {
		properties map[string]string
		failure    string
	}{
		"PEM":    {properties: file("user.pem", "PEM")},
		"PKCS12": {properties: file("user.p12", "pkcs12")},
		"text": {properties: map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.key": string(user.KeyPEM),
			"ssl.keystore.certificate.chain": string(user.CertPEM) + string(authority.CertPEM),
		}},
		"one password twice": {properties: with(file("user.p12", "PKCS12"), "ssl.key.password", "secret")},
		"two passwords":      {properties: with(file("user.p12", "PKCS12"), "ssl.key.password", "other"), failure: "ssl.key.password"},
		"another password":   {properties: with(file("user.p12", "PKCS12"), "ssl.keystore.password", "other"), failure: "ssl.keystore.password"},
		"no key":             {properties: file("user.crt", "PEM"), failure: "no PEM certificate with its key"},
		"no file":            {properties: file("none", "PEM"), failure: "ssl.keystore.location"},
	} {
		c.properties["security.protocol"] = "SSL"
		properties, err := json.Marshal(c.properties)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(fmt.Appendf(nil, "participant: {intermediaryParameters: {clampAutomationCompositionTopics: {topicSources: ["+
			"{topic: t, servers: [s], topicCommInfrastructure: kafka, additionalProps: %s}]}}}", properties), Options{Env: environment(nil)})
		if c.failure != "" {
			if err == nil || !strings.Contains(err.Error(), c.failure) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: told as %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if shown := got.Kafka.TLS.Certificates; len(shown) != 1 || len(shown[0].Certificate) != 2 ||
			!bytes.Equal(shown[0].Certificate[0], user.Cert.Raw) || !bytes.Equal(shown[0].Certificate[1], authority.Cert.Raw) {
			t.Errorf("%s: another chain is shown", name)
		}
	}
}

func TestMaster(t *testing.T) {
	text := `
participant:
  intermediaryParameters:
    topics: {operationTopic: policy-acruntime-participant, syncTopic: acm-ppnt-sync}
kafka:
  bootstrapServers: ${KAFKA_SERVER}
  consumer: {groupId: mine}
`
	got, err := Read([]byte(text), Options{Env: environment(map[string]string{"KAFKA_SERVER": "a:1,b:2"})})
	if err != nil {
		t.Fatal(err)
	}
	if k := got.Kafka; len(k.Servers) != 2 || k.Group != "mine" || k.SyncTopic != "acm-ppnt-sync" || k.OperationTopic != DefaultTopic {
		t.Errorf("Kafka is %+v", k)
	}
}

// TestTopics: the second topic is read wherever there may be one.
func TestTopics(t *testing.T) {
	source := func(topic string) string {
		return "{topic: " + topic + ", servers: [s], topicCommInfrastructure: kafka, additionalProps: {group.id: ours}}"
	}
	list := func(sources ...string) string {
		return "clampAutomationCompositionTopics: {topicSources: [" + strings.Join(sources, ", ") + "]}"
	}
	for name, c := range map[string]struct {
		text, operation, sync string
		optional              bool
	}{
		"the shipped file": {string(shipped(t)), DefaultTopic, DefaultSyncTopic, true},
		"as New Delhi":     {"participant: {intermediaryParameters: {" + list(source("ops")) + "}}", "ops", DefaultSyncTopic, true},
		"two topics":       {"participant: {intermediaryParameters: {" + list(source("ops"), source("syncs")) + "}}", "ops", "syncs", false},
		"as 9.1.0, by reference": {"participant: {intermediaryParameters: {topics: {operationTopic: ops, syncTopic: syncs}, " +
			list(source("'${participant.intermediaryParameters.topics.operationTopic}'"), source("'${participant.intermediaryParameters.topics.syncTopic}'")) +
			"}}", "ops", "syncs", false},
		"as the current master, without names": {"kafka: {bootstrapServers: s}", DefaultTopic, DefaultSyncTopic, true},
		"the newer keys name one":              {"participant: {intermediaryParameters: {topics: {syncTopic: syncs}, " + list(source("ops")) + "}}", "ops", "syncs", false},
		"as the current master, with names": {
			"{kafka: {bootstrapServers: s}, participant: {intermediaryParameters: {topics: {operationTopic: ops, syncTopic: syncs}}}}",
			"ops", "syncs", false,
		},
	} {
		got, err := Read([]byte(c.text), Options{Env: environment(nil)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if k := got.Kafka; k.OperationTopic != c.operation || k.SyncTopic != c.sync || k.SyncOptional != c.optional {
			t.Errorf("%s: the topics are %s and %s, optional %t", name, k.OperationTopic, k.SyncTopic, k.SyncOptional)
		}
	}
}

// TestReplica: a replica keeps its id over restarts, and has another one in another installation.
func TestReplica(t *testing.T) {
	read := func(installation string) string {
		got, err := Read(readTestdata(t, "london.yaml"), Options{Env: environment(nil), Installation: installation})
		if err != nil {
			t.Fatal(err)
		}
		return got.Identity.ReplicaID
	}
	first, again, other := read("a"), read("a"), read("b")
	if first != again || first == other {
		t.Error("the replica id is not that of the installation")
	}
}

func TestErrors(t *testing.T) {
	topics := func(rest string) string {
		return "participant: {intermediaryParameters: {clampAutomationCompositionTopics: {topicSources: [{topic: t, servers: [s], " + rest + "}]}}}"
	}
	for text, want := range map[string]string{
		"a: ${NOT_SET}":                         "NOT_SET",
		"{":                                     "YAML",
		"{}":                                    "topicSources",
		topics("topicCommInfrastructure: NOOP"): "carries nothing",
		"customresourcedefinition: {group: apps}":                    "customresourcedefinition.group",
		"participant: {intermediaryParameters: {participantId: me}}": "no UUID",
		topics("topicCommInfrastructure: kafka, additionalProps: {security.protocol: SASL_SSL, sasl.mechanism: GSSAPI, sasl.jaas.config: 'username=\"u\" password=\"p\"'}"): "GSSAPI",
		topics("topicCommInfrastructure: kafka, additionalProps: {security.protocol: SSL, ssl.truststore.location: /x}"):                                                    "PEM",
		topics("topicCommInfrastructure: kafka, additionalProps: {security.protocol: SSL, ssl.truststore.certificates: none}"):                                              "no PEM certificate",
		topics("topicCommInfrastructure: kafka, additionalProps: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: 'org.apache.PlainLoginModule x;'}"): "username",
		strings.Repeat("#", maxFile+1):                                           "more than",
		"participant: {intermediaryParameters: {reportingTimeIntervalMs: -1}}":   "reportingTimeIntervalMs is -1",
		"participant: {intermediaryParameters: {reportingTimeIntervalMs: 1}}":    "120000",
		"participant: {intermediaryParameters: {reportingTimeIntervalMs: soon}}": "no whole number",
		topics("topicCommInfrastructure: kafka, useHttps: perhaps"):              "neither true nor false",
		"a: ${a}":                 "themselves",
		"a: ${b}\nb: ${a:x}":      "themselves",
		"server: {port: ${PORT}}": "needs quotes",
	} {
		if _, err := Read([]byte(text), Options{Env: environment(nil)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q is told as %v", text, err)
		}
	}
}

// TestSecurityIsTakenAsAWhole: what a file says about TLS and credentials has its effect, or is refused with the key and what to do.
func TestSecurityIsTakenAsAWhole(t *testing.T) {
	const jaas = `sasl.jaas.config: 'x required username="u" password="p";'`
	for _, c := range []struct {
		name, infrastructure, rest string
		tls                        bool
		refused                    []string
	}{
		{"nothing", "kafka", "", false, nil},
		{"in clear", "kafka", "additionalProps: {security.protocol: PLAINTEXT}", false, nil},
		{"a blank behind it", "kafka", `additionalProps: {security.protocol: "SASL_SSL ", sasl.mechanism: PLAIN, ` + jaas + `}`, true, nil},
		{"small letters", "kafka", "additionalProps: {security.protocol: ssl}", true, nil},
		{"useHttps", "kafka", "useHttps: true", true, nil},
		{"useHttps and credentials", "kafka", "useHttps: true, additionalProps: {sasl.mechanism: PLAIN, " + jaas + "}", true, nil},
		{"variables that are not set", "kafka", `additionalProps: {sasl.mechanism: "", ssl.truststore.location: ""}`, false, nil},
		{"versions", "kafka", `additionalProps: {security.protocol: SSL, ssl.enabled.protocols: "TLSv1.2,TLSv1.3", ssl.protocol: TLSv1.3}`, true, nil},
		{"names that are checked", "kafka", "additionalProps: {security.protocol: SSL, ssl.endpoint.identification.algorithm: https}", true, nil},
		{"as ONAP's file has it", "kafka", `additionalProps: {security.protocol: PLAINTEXT, sasl.mechanism: GSSAPI, sasl.jaas.config: ""}`, false, nil},
		{"others of Kafka's", "kafka", `additionalProps: {max.poll.records: "5"}`, false, nil},

		{"another word", "kafka", "additionalProps: {security.protocol: SSLv2}", false, []string{"security.protocol", "SSLv2", "SASL_SSL"}},
		{"no word", "kafka", `additionalProps: {security.protocol: ""}`, false, []string{"security.protocol", "SASL_SSL"}},
		{"a trust store in clear", "kafka", "additionalProps: {ssl.truststore.location: /x}", false, []string{"ssl.truststore.location", "PLAINTEXT", "SASL_SSL"}},
		{"its password in clear", "kafka", "additionalProps: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, ssl.truststore.password: secret, " + jaas + "}", false, []string{"ssl.truststore.password"}},
		{"a mechanism without SASL", "kafka", "additionalProps: {sasl.mechanism: PLAIN, " + jaas + "}", false, []string{"sasl.jaas.config", "SASL_SSL"}},
		{"credentials with TLS alone", "kafka", "additionalProps: {security.protocol: SSL, sasl.mechanism: PLAIN, " + jaas + "}", false, []string{"sasl.jaas.config", "SASL_SSL"}},
		{"a mechanism and no protocol", "kafka", "additionalProps: {sasl.mechanism: PLAIN}", false, []string{"sasl.mechanism", "SASL_SSL"}},
		{"SASL without a mechanism", "kafka", "additionalProps: {security.protocol: SASL_SSL, " + jaas + "}", false, []string{"sasl.mechanism", "SCRAM-SHA-512"}},
		{"SASL without credentials", "kafka", "additionalProps: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN}", false, []string{"sasl.jaas.config"}},
		{"useHttps in clear", "kafka", "useHttps: true, additionalProps: {security.protocol: PLAINTEXT}", false, []string{"useHttps", "security.protocol"}},
		{"a key store in clear", "kafka", "additionalProps: {ssl.keystore.location: /x}", false, []string{"ssl.keystore.location", "PLAINTEXT", "SASL_SSL"}},
		{"Java's key store", "kafka", "additionalProps: {security.protocol: SSL, ssl.keystore.location: /x}", false, []string{"ssl.keystore.type", "JKS", "PKCS12"}},
		{"a key without a certificate", "kafka", "additionalProps: {security.protocol: SSL, ssl.keystore.key: secret}", false, []string{"ssl.keystore.certificate.chain", "set both"}},
		{"no certificate", "kafka", "additionalProps: {security.protocol: SSL, ssl.keystore.key: secret, ssl.keystore.certificate.chain: text}", false, []string{"no PEM certificate"}},
		{"an encrypted key", "kafka", "additionalProps: {security.protocol: SSL, ssl.keystore.key: 'BEGIN ENCRYPTED PRIVATE KEY', ssl.keystore.certificate.chain: text}", false, []string{"encrypted", "PKCS12"}},
		{"names that are not checked", "kafka", `additionalProps: {security.protocol: SSL, ssl.endpoint.identification.algorithm: ""}`, false, []string{"ssl.endpoint.identification.algorithm"}},
		{"an old version", "kafka", "additionalProps: {security.protocol: SSL, ssl.protocol: TLSv1.1}", false, []string{"ssl.protocol", "TLSv1.1"}},
		{"a handler of credentials", "kafka", "additionalProps: {security.protocol: SASL_SSL, sasl.login.callback.handler.class: x, sasl.mechanism: PLAIN, " + jaas + "}", false, []string{"sasl.login.callback.handler.class"}},

		{"DMaaP", "dmaap", "", false, nil},
		{"DMaaP over TLS", "dmaap", "useHttps: true", true, nil},
		{"DMaaP with a trust store in clear", "dmaap", "additionalProps: {ssl.truststore.location: /x}", false, []string{"ssl.truststore.location"}},
		{"DMaaP with SASL", "dmaap", "useHttps: true, additionalProps: {sasl.mechanism: PLAIN, " + jaas + "}", false, []string{"sasl.mechanism", "userName"}},
	} {
		text := "participant: {intermediaryParameters: {clampAutomationCompositionTopics: {topicSources: [{topic: t, servers: [s], topicCommInfrastructure: " +
			c.infrastructure + ", " + c.rest + "}]}}}"
		got, err := Read([]byte(text), Options{Env: environment(nil)})
		if len(c.refused) > 0 {
			for _, word := range c.refused {
				if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: told as %v, without %s", c.name, err, word)
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		secured := got.Kafka != nil && got.Kafka.TLS != nil || got.DMaaP != nil && got.DMaaP.HTTPS && got.DMaaP.TLS != nil
		if secured != c.tls {
			t.Errorf("%s: TLS is %t", c.name, secured)
		}
	}
}

// TestServersInClear: an address in clear beside useHttps is a contradiction, and nothing is sent to it.
func TestServersInClear(t *testing.T) {
	read := func(server string) error {
		_, err := Read([]byte("participant: {intermediaryParameters: {clampAutomationCompositionTopics: {topicSources: [{topic: t, servers: ['"+
			server+"'], topicCommInfrastructure: dmaap, useHttps: true, userName: u, password: p}]}}}"), Options{Env: environment(nil)})
		return err
	}
	if err := read("http://router:3904"); err == nil || !strings.Contains(err.Error(), "useHttps") {
		t.Errorf("told as %v", err)
	}
	for _, server := range []string{"router", "router:3905", "https://router"} {
		if err := read(server); err != nil {
			t.Errorf("%s: %v", server, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"london.yaml", "strimzi.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = Read(text, Options{Env: environment(nil), ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }})
	})
}

// TestWhoMakesTopics: as with the original's clients, the broker is asked to make a topic unless the file says otherwise.
func TestWhoMakesTopics(t *testing.T) {
	for properties, want := range map[string]bool{
		"{}": false, "{allow.auto.create.topics: '${allowAutoCreateTopics:true}'}": false, "{allow.auto.create.topics: '${allowAutoCreateTopics:false}'}": true,
		`{allow.auto.create.topics: "False"}`: true,
	} {
		text := "participant: {intermediaryParameters: {clampAutomationCompositionTopics: {topicSources: [" +
			"{topic: t, servers: [s], topicCommInfrastructure: kafka, additionalProps: " + properties + "}]}}}"
		got, err := Read([]byte(text), Options{Env: environment(nil)})
		if err != nil || got.Kafka.NoTopicCreation != want {
			t.Errorf("%s: %+v, %v", properties, got.Kafka, err)
		}
	}
}

// TestValuesOfVariablesAreText: what a variable contains changes nothing around it, and nothing of it is read as YAML.
func TestValuesOfVariablesAreText(t *testing.T) {
	const text = `
# ${OF_A_COMMENT} is not needed.
participant:
  intermediaryParameters:
    reportingTimeIntervalMs: ${INTERVAL:60000}
    topics: {operationTopic: "${OPERATIONS:${FALLBACK:ops}}", syncTopic: 'syncs'}
    clampAutomationCompositionTopics:
      topicSources:
        - topic: ${participant.intermediaryParameters.topics.operationTopic}
          servers: ${SERVERS:a:1,b:2}
          topicCommInfrastructure: kafka
          useHttps: ${TLS:false}
          additionalProps:
            security.protocol: SASL_PLAINTEXT
            sasl.mechanism: PLAIN
            sasl.jaas.config: ${JAAS:org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="${PASSWORD}";}
spring.security.user: none
server: {port: "${PORT:8087}"}
spring:
  security:
    user: {name: u, password: "${PASSWORD}"}
`
	for _, password := range []string{
		"simple", "with #hash", " # at first", "@at", "*star", "&and", "!bang", "%percent", "0123", "1e3", "true", "null", "~", "a: b", "- a", "{a", "[a", "a}",
		"'", "it's", "multi\nline", "${NOT_SET}", "a\tb", "|", ">", "ümlaut", "trailing ", ",",
	} {
		got, err := Read([]byte(text), Options{Env: environment(map[string]string{"PASSWORD": password})})
		if err != nil {
			t.Errorf("%q: %v", password, err)
			continue
		}
		if got.Kafka.Password != password || got.Kafka.User != "u" || got.HTTP.Password != password {
			t.Errorf("%q is read as %q for Kafka and %q for HTTP", password, got.Kafka.Password, got.HTTP.Password)
		}
		if got.Interval != time.Minute || got.HTTP.Port != 8087 || got.Kafka.OperationTopic != "ops" || len(got.Kafka.Servers) != 2 || got.Kafka.TLS != nil {
			t.Errorf("%q: the rest is %+v, %+v", password, got, got.Kafka)
		}
	}
	got, err := Read([]byte(text), Options{Env: environment(map[string]string{
		"PASSWORD": "p", "INTERVAL": "30000", "FALLBACK": "theirs", "SERVERS": "c:3", "JAAS": `x required username='v' password="a\"b\\c";`,
	})})
	if err != nil {
		t.Fatal(err)
	}
	if k := got.Kafka; got.Interval != 30*time.Second || k.OperationTopic != "theirs" || k.Servers[0] != "c:3" || k.User != "v" || k.Password != `a"b\c` {
		t.Errorf("with variables it is %+v, %+v", got, k)
	}
}

// TestHeartbeatsComeBeforeAnyRuntimeGivesUp: a file for an older runtime may have an interval that newer ones do not wait for.
func TestHeartbeatsComeBeforeAnyRuntimeGivesUp(t *testing.T) {
	for given, want := range map[string]time.Duration{
		"1000": time.Second, "119999": 119999 * time.Millisecond, "180000": 2 * time.Minute, "9223372036854775807": 2 * time.Minute,
	} {
		var n number
		if err := json.Unmarshal([]byte(given), &n); err != nil {
			t.Fatal(err)
		}
		var f file
		f.Participant.Intermediary.Interval = &n
		if got, err := f.interval(); err != nil || got != want {
			t.Errorf("%s ms are %s and not %s: %v", given, got, want, err)
		}
	}
}
