package seldon

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/pki"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var webhook = helm.Certificate{Kind: helm.Leaf, CommonName: "server", DNS: []string{"server.ns", "server.ns.svc"}}

func made(t *testing.T, before *keys, now time.Time, wanted ...helm.Certificate) *keys {
	t.Helper()
	var data map[string][]byte
	if before != nil {
		data = before.data
	}
	k, err := keysOf(before, data, before != nil, wanted, rand.Reader, now, "ns/name")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeysAreMadeOnce(t *testing.T) {
	first := made(t, nil, testNow, webhook, helm.Certificate{Kind: helm.Key, Type: "rsa"}, helm.Certificate{Kind: helm.SelfSigned, CommonName: "own", DNS: []string{"own"}, IPs: []string{"192.0.2.1"}})
	if first.stored || first.there {
		t.Error("new keys count as stored")
	}
	again := made(t, first, testNow.Add(time.Hour), webhook)
	if !again.stored || !again.Since().Equal(testNow) {
		t.Error("keys that are there are made anew")
	}
	for _, purpose := range []string{"a", "b"} {
		if !bytes.Equal(first.bytes(purpose, 9000), again.bytes(purpose, 9000)) {
			t.Errorf("%s differs", purpose)
		}
	}
	if bytes.Equal(first.bytes("a", 16), first.bytes("b", 16)) || len(first.bytes("a", 9000)) != 9000 || first.password("x") == first.password("y") {
		t.Error("two purposes give the same")
	}
	pair, ok := again.Certificate(webhook)
	if !ok || again.digestOf(webhook.Name()) != again.digest(webhook.Name(), webhook) {
		t.Error("there is no certificate")
	}
	if _, err := tls.X509KeyPair([]byte(pair.Cert), []byte(pair.Key)); err != nil {
		t.Error(err)
	}
	if _, ok := again.Certificate(helm.Certificate{Kind: helm.Leaf, CommonName: "other"}); ok {
		t.Error("a certificate that nobody asked for")
	}
	if other := made(t, nil, testNow); bytes.Equal(other.data[entrySeed], first.data[entrySeed]) {
		t.Error("two seeds are the same")
	}
}

// TestNoClientIsEverRefused turns the authority and renews the certificate under an injected clock. At every moment a client
// that has the caBundle of any time since the last but one hour, and meets a server that has the certificate of any time since
// then, connects: API servers and pods learn of a change late.
func TestNoClientIsEverRefused(t *testing.T) {
	type state struct {
		at     time.Time
		bundle string
		pair   helm.Pair
	}
	var states []state
	var authorities, leaves int
	k := made(t, nil, testNow, webhook)
	lag := propagation - time.Minute
	for now := testNow; now.Before(testNow.Add(pki.AuthorityLife + pki.LeafLife)); {
		k = made(t, k, now, webhook)
		bundle, _ := k.Certificate(helm.Certificate{Kind: helm.Authority})
		pair, _ := k.Certificate(webhook)
		if n := len(states); n == 0 || states[n-1].bundle != bundle.Cert || states[n-1].pair != pair {
			if n > 0 && states[n-1].bundle != bundle.Cert {
				authorities++
			}
			if n > 0 && states[n-1].pair != pair {
				leaves++
			}
			states = append(states, state{now, bundle.Cert, pair})
		}
		// What an API server has, and what a server has, may each be what it was a while ago.
		for _, b := range recent(states, func(i int) bool { return now.Sub(states[i].at) < lag }) {
			for _, p := range recent(states, func(i int) bool { return now.Sub(states[i].at) < lag }) {
				if err := trusted(states[b].bundle, states[p].pair.Cert, now); err != nil {
					t.Fatalf("%s after the start, with the authorities of %s and the certificate of %s: %v",
						now.Sub(testNow), states[b].at.Sub(testNow), states[p].at.Sub(testNow), err)
				}
			}
		}
		next := k.wakeAt
		if next.IsZero() || !next.After(now) {
			t.Fatalf("nothing is due after %s: %s", now, next)
		}
		// Between two deadlines nothing changes; just before and after one it matters.
		if before := next.Add(-time.Second); before.After(now) {
			now = before
		} else {
			now = next.Add(time.Second)
		}
	}
	if authorities != 3 || leaves < 14 {
		t.Errorf("the authorities changed %d times, the certificate %d times", authorities, leaves)
	}
}

// recent are the last state and those that were replaced a short time ago.
func recent[T any](states []T, young func(int) bool) []int {
	out := []int{len(states) - 1}
	for i := len(states) - 1; i > 0 && young(i); i-- {
		out = append(out, i-1)
	}
	return out
}

func trusted(bundle, cert string, now time.Time) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(bundle)) {
		return fmt.Errorf("the bundle holds nothing")
	}
	block, err := parse(cert)
	if err != nil {
		return err
	}
	_, err = block.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: "server.ns.svc"})
	return err
}

// TestCertificatesAreParsedWhenTheyChange counts allocations: parsing takes hundreds.
func TestCertificatesAreParsedWhenTheyChange(t *testing.T) {
	stored := made(t, made(t, nil, testNow, webhook), testNow, webhook)
	parsing := testing.AllocsPerRun(10, func() { _ = made(t, &keys{data: stored.data}, testNow, webhook) })
	if same := testing.AllocsPerRun(10, func() { _ = made(t, stored, testNow, webhook) }); same > parsing/4 {
		t.Errorf("%v allocations for what has not changed, %v for what has to be parsed", same, parsing)
	}
	if again := made(t, stored, testNow, webhook); !again.stored || !again.seeded || !again.wakeAt.Equal(stored.wakeAt) {
		t.Errorf("%+v, and then %+v", stored, again)
	}
	if renewed := made(t, stored, stored.wakeAt, webhook); renewed.stored {
		t.Error("what is due is not renewed")
	}
	other := helm.Certificate{Kind: helm.Leaf, CommonName: "other"}
	if _, ok := made(t, stored, testNow, webhook, other).Certificate(other); !ok {
		t.Error("a certificate that is wanted is not made")
	}
	if _, ok := stored.Certificate(other); ok {
		t.Error("the last keys are changed")
	}
}

func TestDamagedKeysAreMadeAnew(t *testing.T) {
	k := made(t, nil, testNow, webhook)
	k.data[entryAuthority+suffixCert] = []byte("damaged")
	k = made(t, k, testNow, webhook)
	if k.stored || !k.remade {
		t.Error("a damaged authority counts as stored")
	}
	bundle, _ := k.Certificate(helm.Certificate{Kind: helm.Authority})
	pair, _ := k.Certificate(webhook)
	if err := trusted(bundle.Cert, pair.Cert, testNow); err != nil {
		t.Error(err)
	}
	k.data[entryOf(webhook)+suffixKey] = []byte("damaged")
	k = made(t, k, testNow, webhook)
	pair, ok := k.Certificate(webhook)
	if !ok || trusted(bundle.Cert, pair.Cert, testNow) != nil || !k.remade {
		t.Error("a damaged certificate is not made anew")
	}
	if other := made(t, k, testNow, webhook, helm.Certificate{Kind: helm.Leaf, CommonName: "other"}); other.stored || other.remade {
		t.Error("a certificate that is asked for later counts as one that was lost")
	}
}

// TestWhatCannotSignIsNoAuthority: whoever may write the Secret can put there what looks like one. With that, each pass would sign every
// certificate anew, and write the Secret for ever.
func TestWhatCannotSignIsNoAuthority(t *testing.T) {
	k := made(t, nil, testNow, webhook)
	pair, _ := k.Certificate(webhook)
	for _, entry := range []string{entryAuthority, entryNext} {
		k.data[entry+suffixCert], k.data[entry+suffixKey] = []byte(pair.Cert), []byte(pair.Key)
		now := testNow
		k = made(t, &keys{data: k.data}, now, webhook)
		for range 2 {
			now = now.Add(propagation)
			k = made(t, k, now, webhook)
		}
		if !k.stored {
			t.Errorf("%s: the certificates are made anew in each pass", entry)
		}
		bundle, _ := k.Certificate(helm.Certificate{Kind: helm.Authority})
		if served, _ := k.Certificate(webhook); trusted(bundle.Cert, served.Cert, now) != nil {
			t.Errorf("%s: nobody trusts the certificate", entry)
		}
	}
}

func parse(cert string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(cert))
	if block == nil {
		return nil, fmt.Errorf("no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// TestTheDigestOfValuesNeedsTheSeed: values may hold passwords, and their digest is in the status. Who reads that knows the UID of the
// SeldonOperator, and can try values against everything but a key that is secret.
func TestTheDigestOfValuesNeedsTheSeed(t *testing.T) {
	given := values{"password": "weak"}
	one, other := made(t, nil, testNow), made(t, nil, testNow)
	if one.digestValues(given) == other.digestValues(given) {
		t.Error("another seed gives the same digest")
	}
	if one.digestValues(given) != made(t, one, testNow).digestValues(given) || one.digestValues(given) == one.digestValues(values{}) {
		t.Error("it is no digest of the values")
	}
}

// TestACertificateThatCannotBeMadeIsInTheWayOfNoOther: the names are those of a chart and its values.
func TestACertificateThatCannotBeMadeIsInTheWayOfNoOther(t *testing.T) {
	bad := helm.Certificate{Kind: helm.Leaf, CommonName: "server", DNS: []string{"bücher.example"}}
	first := made(t, nil, testNow, bad, webhook)
	for name, k := range map[string]*keys{"at first": first, "then": made(t, first, testNow.Add(time.Minute), bad, webhook)} {
		if _, ok := k.Certificate(webhook); !ok || !k.lacks([]helm.Certificate{webhook, bad}) || k.lacks([]helm.Certificate{webhook}) {
			t.Errorf("%s: cannot be made are %v", name, k.unmade)
		}
	}
}

// TestACertificateThatCannotBeMadeIsToldOfItsComponent: what runs stays, the name is not quoted, and other values are rendered.
func TestACertificateThatCannotBeMadeIsToldOfItsComponent(t *testing.T) {
	l := deployed(t)
	l.from.put(t, upgradable+`---
{apiVersion: v1, kind: Secret, metadata: {name: certificate}, data: {key: {{ (genSelfSignedCert .Values.value nil nil 1).Key | b64enc }}}}
`)
	l.values(strings.Repeat("hush", 16)[1:] + "ü")
	l.want("ready", "first, 1 Deployed 0")
	if got := recordedOf(l.cr, core); l.reason() != "ChartFailed spec.core.values" || got.Phase != phaseFailed || strings.Contains(got.Message, "hush") {
		t.Errorf("%s, %+v", l.reason(), got)
	}
	l.values("second")
	l.pass("") // The certificate is made.
	l.want("", "second, 2 Pending 0, 1 Superseded 0, again")
	if got := l.reason(); got != "" || !l.plan.Has(plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: "certificate"}) {
		t.Errorf("then %s", got)
	}
}
