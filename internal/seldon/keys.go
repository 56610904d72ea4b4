package seldon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/pki"
)

// The entries of the Secret that keeps the generated credentials.
const (
	entrySeed  = "seed"
	entrySince = "since"
	// The authority that signs, the one that is to follow it, and the one before it.
	entryAuthority = "authority"
	entryNext      = "next"
	entryOld       = "old"
	// certificates of servers, and keys: leaf-NAME.crt and leaf-NAME.key.
	prefixLeaf = "leaf-"
	prefixSelf = "self-"
	prefixKey  = "key-"
)

const (
	suffixCert  = ".crt"
	suffixKey   = ".key"
	suffixSince = ".since"
)

const (
	// propagation is how long a new authority is trusted before it signs: until then every API server has the new caBundle.
	propagation = 10 * time.Minute
	// reload is how long the authority before is trusted after that: until then every server has its new certificate, which
	// the kubelet brings within two minutes and the server reads again.
	reload = time.Hour
)

// keys are the generated credentials. A value is immutable; a change makes new ones.
type keys struct {
	data map[string][]byte
	// stored says that the Secret holds exactly this.
	stored bool
	// there says that our Secret is there, with this or with something before it, absent that none is, not even one of
	// somebody else; seeded that the seed is read from it.
	there, absent, seeded bool
	// remade says that something that is kept for good was not there, or was damaged, and was made anew.
	remade bool
	// unmade are the certificates that were wanted and cannot be made, by their names.
	unmade map[string]bool
	// wakeAt is when something is due.
	wakeAt time.Time
}

// keysOf takes the keys from the data of their Secret, or makes them, and turns and renews what is due. Where the Secret has what the
// last keys have and nothing is due, no certificate is parsed. wanted are certificates that templates have asked for and not got.
func keysOf(
	last *keys, data map[string][]byte, there bool, wanted []helm.Certificate, random io.Reader, now time.Time, name string,
) (*keys, error) {
	k := &keys{data: map[string][]byte{}, stored: there, there: there}
	for entry, value := range data {
		if ours(entry) {
			k.data[entry] = value
		}
	}
	if last != nil && last.stored && there && now.Before(last.wakeAt) && maps.EqualFunc(k.data, last.data, bytes.Equal) {
		k.seeded, k.wakeAt = last.seeded, last.wakeAt
		k.makeAll(random, now, wanted)
		return k, nil
	}
	k.seeded = len(k.data[entrySeed]) >= sha256.Size && !k.since().IsZero()
	if k.remade = !k.seeded; k.remade {
		seed := make([]byte, sha256.Size)
		if _, err := io.ReadFull(random, seed); err != nil {
			return nil, fmt.Errorf("make a seed: %w", err)
		}
		k.set(entrySeed, seed)
		k.set(entrySince, []byte(now.UTC().Format(time.RFC3339)))
		k.set(entryNaming, []byte(namedByFile))
	}
	if err := k.rotateAuthority(random, now, name); err != nil {
		return nil, err
	}
	if err := k.renew(random, now); err != nil {
		return nil, err
	}
	k.makeAll(random, now, wanted)
	return k, nil
}

// ours says that an entry is of those that are kept here; what others add to the Secret is theirs.
func ours(entry string) bool {
	of := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(entry, suffixCert), suffixKey), suffixSince)
	return slices.Contains([]string{entrySeed, entrySince, entryNaming, entryAuthority, entryNext, entryOld}, of) ||
		slices.ContainsFunc([]string{prefixLeaf, prefixSelf, prefixKey, prefixNames}, func(prefix string) bool { return strings.HasPrefix(of, prefix) })
}

// makeAll makes the certificates that there are not. What cannot be made, such as for a name with characters that a certificate cannot have,
// is in the way of its component alone. The errors may quote the name, which may be of a Secret.
func (k *keys) makeAll(random io.Reader, now time.Time, wanted []helm.Certificate) {
	for _, c := range wanted {
		if _, ok := k.Certificate(c); ok || c.Kind == helm.Authority {
			continue
		}
		if k.make(random, now, c) != nil {
			if k.unmade == nil {
				k.unmade = map[string]bool{}
			}
			k.unmade[c.Name()] = true
		}
	}
}

// lacks says that one of these certificates cannot be made.
func (k *keys) lacks(wanted []helm.Certificate) bool {
	return slices.ContainsFunc(wanted, func(c helm.Certificate) bool { return k.unmade[c.Name()] })
}

func (k *keys) set(entry string, value []byte) {
	k.data[entry], k.stored = value, false
}

func (k *keys) drop(prefix string) {
	for _, suffix := range []string{suffixCert, suffixKey, suffixSince} {
		if _, ok := k.data[prefix+suffix]; ok {
			delete(k.data, prefix+suffix)
			k.stored = false
		}
	}
}

func (k *keys) scheduleRenewal(at time.Time) {
	if k.wakeAt.IsZero() || at.Before(k.wakeAt) {
		k.wakeAt = at
	}
}

func (k *keys) pair(entry string) *pki.Pair {
	p, err := pki.Decode(k.data[entry+suffixCert], k.data[entry+suffixKey])
	if err != nil {
		return nil
	}
	return p
}

// authority is a pair that signs; whoever may write the Secret can put another certificate there.
func (k *keys) authority(entry string) *pki.Pair {
	if p := k.pair(entry); p != nil && p.Signs() {
		return p
	}
	return nil
}

func (k *keys) put(entry string, p *pki.Pair, since time.Time) {
	k.set(entry+suffixCert, p.CertPEM)
	k.set(entry+suffixKey, p.KeyPEM)
	if !since.IsZero() {
		k.set(entry+suffixSince, []byte(since.UTC().Format(time.RFC3339)))
	}
}

func (k *keys) moment(entry string) time.Time {
	at, err := time.Parse(time.RFC3339, string(k.data[entry]))
	if err != nil {
		return time.Time{}
	}
	return at
}

func (k *keys) since() time.Time { return k.moment(entrySince) }

// rotateAuthority makes an authority, and replaces it before it expires, without a moment in which a certificate is not trusted: the next
// one is trusted beside it first, then it signs, and last the one before is trusted no more.
func (k *keys) rotateAuthority(random io.Reader, now time.Time, name string) error {
	active, next := k.authority(entryAuthority), k.authority(entryNext)
	if active == nil {
		k.remade = true
		made, err := pki.NewAuthority(random, now, pki.CommonName(name))
		if err != nil {
			return err
		}
		k.put(entryAuthority, made, time.Time{})
		k.drop(entryNext)
		k.drop(entryOld)
		k.scheduleRenewal(made.RenewAt())
		return nil
	}
	switch {
	case next == nil && !active.Fresh(now):
		made, err := pki.NewAuthority(random, now, pki.CommonName(name))
		if err != nil {
			return err
		}
		k.put(entryNext, made, now)
		k.scheduleRenewal(now.Add(propagation))
	case next != nil:
		signs := k.moment(entryNext + suffixSince).Add(propagation)
		if now.Before(signs) {
			k.scheduleRenewal(signs)
			return nil
		}
		k.put(entryOld, active, now)
		k.put(entryAuthority, next, time.Time{})
		k.drop(entryNext)
		k.scheduleRenewal(now.Add(reload))
		return nil
	default:
		k.scheduleRenewal(active.RenewAt())
	}
	if _, ok := k.data[entryOld+suffixCert]; ok {
		gone := k.moment(entryOld + suffixSince).Add(reload)
		if now.Before(gone) {
			k.scheduleRenewal(gone)
			return nil
		}
		k.drop(entryOld)
	}
	return nil
}

// bundle is what is trusted: the authority that signs first.
func (k *keys) bundle() []byte {
	return slices.Concat(k.data[entryAuthority+suffixCert], k.data[entryNext+suffixCert], k.data[entryOld+suffixCert])
}

// entryOf is where a certificate is kept.
func entryOf(c helm.Certificate) string {
	switch c.Kind {
	case helm.SelfSigned:
		return prefixSelf + c.Name()
	case helm.Key:
		return prefixKey + c.Name()
	}
	return prefixLeaf + c.Name()
}

// make makes what a template asked for.
func (k *keys) make(random io.Reader, now time.Time, c helm.Certificate) error {
	entry := entryOf(c)
	if c.Kind == helm.Key {
		key, err := newKey(random, c.Type)
		if err != nil {
			return err
		}
		k.set(entry+suffixKey, key)
		return nil
	}
	made, err := k.serve(random, now, c.Kind == helm.SelfSigned, c.CommonName, c.DNS, c.IPs)
	if err != nil {
		return err
	}
	k.put(entry, made, time.Time{})
	k.scheduleRenewal(made.RenewAt())
	return nil
}

func (k *keys) serve(random io.Reader, now time.Time, self bool, name string, dns, ips []string) (*pki.Pair, error) {
	var authority *pki.Pair
	if !self {
		if authority = k.authority(entryAuthority); authority == nil {
			return nil, errors.New("bug: there is no authority")
		}
	}
	var addresses []net.IP
	for _, text := range ips {
		if ip := net.ParseIP(text); ip != nil {
			addresses = append(addresses, ip)
		}
	}
	return pki.NewServer(random, now, authority, name, dns, addresses)
}

// renew signs anew what is about to expire, or was signed by an authority that signs no more.
func (k *keys) renew(random io.Reader, now time.Time) error {
	authority := k.authority(entryAuthority)
	for _, name := range slices.Sorted(maps.Keys(k.data)) {
		entry, isCert := strings.CutSuffix(name, suffixCert)
		self := strings.HasPrefix(entry, prefixSelf)
		if !isCert || !self && !strings.HasPrefix(entry, prefixLeaf) {
			continue
		}
		have := k.pair(entry)
		if have == nil {
			// Somebody damaged it: it is asked for again.
			k.remade = true
			k.drop(entry)
			continue
		}
		if have.Fresh(now) && (self || have.Cert.CheckSignatureFrom(authority.Cert) == nil) {
			k.scheduleRenewal(have.RenewAt())
			continue
		}
		var ips []string
		for _, ip := range have.Cert.IPAddresses {
			ips = append(ips, ip.String())
		}
		made, err := k.serve(random, now, self, have.Cert.Subject.CommonName, have.Cert.DNSNames, ips)
		if err != nil {
			return err
		}
		k.put(entry, made, time.Time{})
		k.scheduleRenewal(made.RenewAt())
	}
	return nil
}

// newKey makes a private key in the form in which Helm gives it.
func newKey(random io.Reader, kind string) ([]byte, error) {
	switch kind {
	case "ecdsa":
		key, err := ecdsa.GenerateKey(elliptic.P256(), random)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
	case "ed25519":
		_, key, err := ed25519.GenerateKey(random)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
	}
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// bytes are n that nobody can guess, the same for the same purpose.
func (k *keys) bytes(purpose string, n int) []byte {
	// HKDF gives at most 255 hashes at a time.
	const most = 255 * sha256.Size
	var out bytes.Buffer
	for block := 0; out.Len() < n; block++ {
		part, err := hkdf.Key(sha256.New, k.data[entrySeed], nil, fmt.Sprintf("%s/%d", purpose, block), min(most, n-out.Len()))
		if err != nil {
			panic(fmt.Sprintf("bug: HKDF refuses: %v", err))
		}
		out.Write(part)
	}
	return out.Bytes()
}

// Since implements helm.GeneratedCredentials.
func (k *keys) Since() time.Time { return k.since() }

// Certificate is one that is there, by the name by which it is kept.
func (k *keys) Certificate(c helm.Certificate) (helm.Pair, bool) {
	if c.Kind == helm.Authority {
		// The authority's own key is nobody's but the operator's; what is signed is asked for by itself.
		return helm.Pair{Cert: string(k.bundle()), Key: ""}, true
	}
	entry := entryOf(c)
	key, ok := k.data[entry+suffixKey]
	return helm.Pair{Cert: string(k.data[entry+suffixCert]), Key: string(key)}, ok
}

// password is one that nobody can guess, the same for the same purpose.
func (k *keys) password(purpose string) string {
	const length = 24
	const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	return helm.Pick(k.bytes("password "+purpose, 2*length), alphabet)
}

// knownCertificates are the certificates that the charts are known to ask for, so that they need not be rendered to find out: that of
// the webhooks of Seldon Core.
func knownCertificates(cr *v1alpha1.SeldonOperator) []helm.Certificate {
	const service = "seldon-webhook-service"
	return []helm.Certificate{{
		Kind: helm.Leaf, CommonName: service,
		DNS: []string{service + "." + cr.Namespace, service + "." + cr.Namespace + ".svc"},
	}}
}
