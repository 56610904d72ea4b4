package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// version is what Semantic Versioning 2.0.0 allows, with the v of Go and git before it.
	versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	headings = regexp.MustCompile(`(?m)^## \[([^\]]+)\].*$`)
)

// notes are the section of a version in CHANGELOG.md (Keep a Changelog 1.1.0). A release candidate is described by the first section that says
// something: what is not released, or what its release says already.
func notes(changelog, version string) (string, error) {
	m := versions.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("VERSION %q is not like v0.1.0 or v0.1.0-rc.1", version)
	}
	wanted, candidate := strings.TrimPrefix(version, "v"), m[4] != ""
	found := headings.FindAllStringSubmatchIndex(changelog, -1)
	for i, at := range found {
		if !candidate && changelog[at[2]:at[3]] != wanted {
			continue
		}
		end := len(changelog)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if text := strings.TrimSpace(changelog[at[1]:end]); text != "" {
			return text + "\n", nil
		}
		if !candidate {
			return "", fmt.Errorf("the section [%s] of CHANGELOG.md is empty: say what users notice", wanted)
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section [%s]: rename [Unreleased] to it, with the date", wanted)
}
