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

// notes are the section of a version in CHANGELOG.md (Keep a Changelog 1.1.0). A release candidate is described by what is not released.
func notes(changelog, version string) (string, error) {
	m := versions.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("VERSION %q is not like v0.1.0 or v0.1.0-rc.1", version)
	}
	wanted := strings.TrimPrefix(version, "v")
	if m[4] != "" {
		wanted = "Unreleased"
	}
	found := headings.FindAllStringSubmatchIndex(changelog, -1)
	for i, at := range found {
		if changelog[at[2]:at[3]] != wanted {
			continue
		}
		end := len(changelog)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		text := strings.TrimSpace(changelog[at[1]:end])
		if text == "" {
			return "", fmt.Errorf("the section [%s] of CHANGELOG.md is empty: say what users notice", wanted)
		}
		return text + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section [%s]: rename [Unreleased] to it, with the date", wanted)
}
