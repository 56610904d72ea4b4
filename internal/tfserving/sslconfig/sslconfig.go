// Package sslconfig reads the TLS of TensorFlow Serving's gRPC API, the text proto SSLConfig (tensorflow_serving/config/ssl_config.proto), and
// says what the server would refuse before it is started with it. It is pure, and no error quotes anything of the text, which holds a private key.
package sslconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"mlkeeper.dev/internal/tfserving/protos"
)

// Config is what counts of a SSLConfig that TensorFlow Serving accepts.
type Config struct {
	// Verifies says that clients need a certificate, Authority that there is one by which certificates of clients are verified.
	Verifies, Authority bool
}

var (
	sslConfig = protos.Message("SSLConfig")
	position  = regexp.MustCompile(`\(line [0-9]+:[0-9]+\)`)
)

// Parse reads a SSLConfig and refuses what would end TensorFlow Serving at its start: a text that is no SSLConfig (ParseSSLConfig in
// model_servers/server.cc), and a key or certificate with which gRPC makes no credentials. A newer server may know further fields.
func Parse(text []byte, newer bool) (Config, error) {
	m := dynamicpb.NewMessage(sslConfig)
	if err := (prototext.UnmarshalOptions{DiscardUnknown: newer}).Unmarshal(text, m); err != nil {
		// The error may quote what it does not understand, which may be a part of the key.
		return Config{}, fmt.Errorf("%s: it is no text proto with server_key, server_cert, custom_ca and client_verify, in which each line break of a PEM "+
			`is written as \n within the quotes`, position.FindString(err.Error()))
	}
	field := func(name protoreflect.Name) protoreflect.Value { return m.Get(sslConfig.Fields().ByName(name)) }
	if err := Pair([]byte(field("server_key").String()), []byte(field("server_cert").String())); err != nil {
		return Config{}, fmt.Errorf("server_key and server_cert: %w", err)
	}
	authority := field("custom_ca").String()
	if authority != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(authority)) {
		return Config{}, errors.New("custom_ca: it has no certificate in PEM")
	}
	return Config{Verifies: field("client_verify").Bool(), Authority: authority != ""}, nil
}

// Pair refuses a private key and a certificate that cannot be read, or are not of each other.
func Pair(key, cert []byte) error {
	switch {
	case len(key) == 0:
		return errors.New("the private key is empty")
	case len(cert) == 0:
		return errors.New("the certificate is empty")
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return errors.New("the two are no private key and certificate in PEM of each other")
	}
	return nil
}
