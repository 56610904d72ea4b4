package acm

import "strings"

// Identifier is a ToscaConceptIdentifier: a name with a version.
type Identifier struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// String prints the identifier as the runtime writes it as a key of a map: the name, one space, the version.
func (i Identifier) String() string {
	if i.Version == "" {
		return i.Name
	}
	return i.Name + " " + i.Version
}

// ParseIdentifier reads what String prints. A name holds no space.
func ParseIdentifier(s string) Identifier {
	name, version, _ := strings.Cut(s, " ")
	return Identifier{Name: name, Version: version}
}
