package seldon

import (
	"encoding/json"

	"mlkeeper.dev/internal/manifest/helm"
)

// The values that a chart makes at random follow from the seed and from their names. The Secret says how they are named, and which of them
// have names of before: those of a stack that was made when a value was known by its place among all calls of its chart, for which the
// names of each component are recorded when it is rendered first since.
const (
	entryNaming = "naming"
	namedByFile = "file"
	prefixNames = "names-"
	// maxNames bounds the recorded names of a component, and maxName the bytes of one.
	maxNames = 200
	maxName  = 512
)

// componentCredentials are the credentials as one component has them.
type componentCredentials struct {
	*keys
	component string
	// known are the names of before by those of now. With unknown they are yet to be recorded, and found are those.
	known, found map[string]string
	unknown      bool
}

// of are the credentials as a component has them.
func (k *keys) of(component string) *componentCredentials {
	out := &componentCredentials{keys: k, component: component, found: map[string]string{}}
	raw, recorded := k.data[prefixNames+component]
	if err := json.Unmarshal(raw, &out.known); recorded && err != nil {
		out.known = nil // Somebody damaged it.
	}
	out.unknown = !recorded && string(k.data[entryNaming]) != namedByFile
	return out
}

// named is the name by which a value is made.
func (k *componentCredentials) named(name helm.Name) string {
	if before, ok := k.known[name.Now]; ok {
		return before
	}
	if k.unknown && len(k.found) < maxNames && len(name.Now)+len(name.Before) <= maxName {
		k.found[name.Now] = name.Before
	}
	if before, ok := k.found[name.Now]; ok {
		return before
	}
	return k.component + " " + name.Now
}

// Bytes implements helm.GeneratedCredentials.
func (k *componentCredentials) Bytes(name helm.Name, n int) []byte { return k.bytes(k.named(name), n) }

// Certificate implements helm.GeneratedCredentials.
func (k *componentCredentials) Certificate(c helm.Certificate) (helm.Pair, bool) {
	return k.keys.Certificate(k.certificate(c))
}

// certificate is one by the name by which it is kept.
func (k *componentCredentials) certificate(c helm.Certificate) helm.Certificate {
	if c.Kind == helm.Key {
		c.CommonName = k.named(helm.Name{Now: c.CommonName, Before: c.Before})
	}
	return c
}

// certificates are several.
func (k *componentCredentials) certificates(all []helm.Certificate) []helm.Certificate {
	var out []helm.Certificate
	for _, c := range all {
		out = append(out, k.certificate(c))
	}
	return out
}

// record keeps the names of before of a component that was rendered.
func (k *keys) record(component string, found map[string]string) error {
	if _, recorded := k.data[prefixNames+component]; recorded || len(found) == 0 || string(k.data[entryNaming]) == namedByFile {
		return nil
	}
	raw, err := json.Marshal(found)
	if err == nil {
		k.set(prefixNames+component, raw)
	}
	return err
}
