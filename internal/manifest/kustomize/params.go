package kustomize

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// paramsFile is the file whose lines an application's parameters replace.
const paramsFile = "params.env"

// params are the parameters of one application, with what kfctl filled in by itself.
type params struct {
	values  map[string]string
	special map[string]string
	// suffix makes the value of generateName unique. kfctl drew it anew at every rendering, so that each reconcile made
	// another object; here it stays the same as long as the KfDef lives.
	suffix string
	// used are the names that some params.env had a line for.
	used map[string]bool
}

func newParams(in Input, a Application) *params {
	p := &params{
		values:  map[string]string{},
		special: map[string]string{"appName": in.Name, "namespace": in.Namespace, "project": in.Project},
		used:    map[string]bool{},
	}
	for _, parameter := range a.Parameters {
		p.values[parameter.Name] = parameter.Value
	}
	owner := in.UID
	if owner == "" {
		owner = in.Namespace + "/" + in.Name
	}
	sum := sha256.Sum256([]byte(owner + "\x00" + a.Name))
	p.suffix = hex.EncodeToString(sum[:4])
	return p
}

// apply rewrites the lines of a params.env whose name is known. Lines are never added, and an empty value leaves the
// line as it is but for the three special names. Everything behind the first equals sign is the value.
func (p *params) apply(content []byte) []byte {
	text := strings.TrimSuffix(string(content), "\n")
	if text == "" {
		return content
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line
		name, old, _ := strings.Cut(line, "=")
		value, special := p.special[name]
		if given := p.values[name]; given != "" {
			value, special = given, true
			if name == "generateName" && old == "" {
				value += p.suffix
			}
		}
		if _, ok := p.values[name]; ok {
			p.used[name] = true
		}
		if special {
			lines[i] = name + "=" + value
		}
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}
