package config

import (
	"crypto/tls"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// What a topic says about TLS and credentials is taken as a whole or not at all: a key that is not understood, or one that has no
// effect, would have the participant speak in clear although its file asks for something else.

// The keys of Kafka's clients that are read.
const (
	protocolKey  = "security.protocol"
	mechanismKey = "sasl.mechanism"
	jaasKey      = "sasl.jaas.config"
	trustStore   = "ssl.truststore"
	trustPassKey = "ssl.truststore.password"
	trustTextKey = "ssl.truststore.certificates"
	keyStore     = "ssl.keystore"
	keyPassKey   = "ssl.keystore.password"
	keyChainKey  = "ssl.keystore.certificate.chain"
	keyTextKey   = "ssl.keystore.key"
	keySecretKey = "ssl.key.password"
	hostsKey     = "ssl.endpoint.identification.algorithm"
)

// storeKeys are about the certificates that a server's is checked against, and about the certificate that is shown to it.
var storeKeys = []string{
	trustStore + locationSuffix, trustStore + typeSuffix, trustPassKey, trustTextKey,
	keyStore + locationSuffix, keyStore + typeSuffix, keyPassKey, keyChainKey, keyTextKey, keySecretKey,
}

// versionKeys name versions of TLS, of which MLKeeper speaks 1.2 and 1.3.
var versionKeys = []string{"ssl.protocol", "ssl.enabled.protocols"}

// security is what the properties of a topic come to.
type security struct {
	tls *tls.Config
	// mechanism is empty for no credentials.
	mechanism, user, password string
}

// readSecurity reads the properties of a topic.
func readSecurity(properties map[string]string, https bool, readFile func(string) ([]byte, error)) (security, error) {
	out := security{}
	protocol, err := protocolOf(properties, https)
	if err != nil {
		return out, err
	}
	encrypted, authenticated := strings.HasSuffix(protocol, "SSL"), strings.HasPrefix(protocol, "SASL_")
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if err := checkKey(key, properties[key], protocol, properties[protocolKey] != "", encrypted, authenticated); err != nil {
			return out, err
		}
	}
	if authenticated {
		if out, err = credentials(properties, protocol); err != nil {
			return out, err
		}
	}
	if encrypted {
		out.tls, err = stores(properties, readFile)
	}
	return out, err
}

// protocolOf is the protocol of a topic: what the file says, as Kafka's clients read it, else PLAINTEXT, or SSL with useHttps.
func protocolOf(properties map[string]string, https bool) (string, error) {
	given, set := properties[protocolKey]
	protocol := strings.ToUpper(strings.TrimSpace(given))
	switch {
	case !set && https && properties[mechanismKey] != "":
		return "SASL_SSL", nil
	case !set && https:
		return "SSL", nil
	case !set:
		return "PLAINTEXT", nil
	case !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, protocol):
		return "", fmt.Errorf("%s is %q, which is none: set PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", protocolKey, given)
	case https && !strings.HasSuffix(protocol, "SSL"):
		return "", fmt.Errorf("useHttps is true, and %s is %s, which is in clear: set SSL or SASL_SSL, or remove useHttps", protocolKey, protocol)
	}
	return protocol, nil
}

// checkVersions refuses versions of TLS that MLKeeper does not speak.
func checkVersions(key, value string) error {
	for version := range strings.SplitSeq(value, ",") {
		if version = strings.TrimSpace(version); version != "TLSv1.2" && version != "TLSv1.3" && version != "TLS" {
			return fmt.Errorf("%s has %q: MLKeeper speaks TLSv1.2 and TLSv1.3; remove the others", key, version)
		}
	}
	return nil
}

// checkKey refuses a key of TLS or of credentials that has no effect, or that is not understood. explicit says that the file names the
// protocol itself.
func checkKey(key, value, protocol string, explicit, encrypted, authenticated bool) error {
	switch {
	case value == "" && key != hostsKey:
		// A variable of the environment that is not set.
	case key == mechanismKey || key == jaasKey:
		// ONAP's own file names Kafka's default mechanism beside PLAINTEXT, without credentials that would be kept back.
		if named := explicit && key == mechanismKey; !authenticated && !named {
			return fmt.Errorf("%s is set, and %s is %s, which uses no credentials: set SASL_SSL or SASL_PLAINTEXT, or remove it", key, protocolKey, protocol)
		}
	case slices.Contains(storeKeys, key):
		if !encrypted {
			return fmt.Errorf("%s is set, and %s is %s, which is in clear: set SSL or SASL_SSL, or remove it", key, protocolKey, protocol)
		}
	case key == hostsKey:
		if value != "https" {
			return fmt.Errorf("%s is %q: the name of a server is always checked; remove it, and give the server a certificate of its name", key, value)
		}
	case slices.Contains(versionKeys, key):
		return checkVersions(key, value)
	case key != protocolKey && aboutSecurity.MatchString(key):
		return fmt.Errorf("%s is not understood, and would have no effect: remove it", key)
	}
	return nil
}

// aboutSecurity matches the keys of Kafka's clients that are about TLS and credentials.
var aboutSecurity = regexp.MustCompile(`^(ssl|sasl|security)\.`)

// credentials reads those of SASL.
func credentials(properties map[string]string, protocol string) (security, error) {
	out := security{mechanism: properties[mechanismKey]}
	if out.mechanism == "" {
		return out, fmt.Errorf("%s is %s, and there is no %s: set SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN", protocolKey, protocol, mechanismKey)
	}
	if out.user, out.password = login(properties[jaasKey]); out.user == "" || out.password == "" {
		return out, fmt.Errorf(`%s is %s, and %s names no username="…" and password="…"`, protocolKey, protocol, jaasKey)
	}
	return out, nil
}

// option is an option of a JAAS configuration, as Java's parser reads it: quoted, with a backslash before each character that means itself,
// or a bare word.
var option = regexp.MustCompile(`(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))`)

var escaped = regexp.MustCompile(`\\(.)`)

// login reads the user and the password of a JAAS configuration.
func login(jaas string) (user, secret string) {
	for _, found := range option.FindAllStringSubmatch(jaas, -1) {
		value := escaped.ReplaceAllString(found[2]+found[3], "$1") + found[4]
		switch found[1] {
		case "username":
			user = value
		case "password":
			secret = value
		}
	}
	return user, secret
}
