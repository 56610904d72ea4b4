package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// role is a Role or a ClusterRole of config.
type role struct {
	Kind     string
	Metadata struct {
		Name string
	}
	Rules []struct {
		APIGroups, Resources, ResourceNames, NonResourceURLs, Verbs []string
	}
}

// rightsOf are the files with the rights of the operator, in the order of the page, with what each is for.
var rightsOf = []struct{ title, file, about string }{
	{"Every installation", "rbac/engine/role.yaml", "What the engine needs, whatever controllers are on."},
	{"Every installation, in the operator's namespace", "rbac/engine/leader_election_role.yaml", "For the leases of leader election and of the shards."},
	{"The key of the digests, in the operator's namespace", "rbac/engine/digest_key_role.yaml", "[Security](../operations.md#security) says what the key is for."},
	{"TrustyAIService", "rbac/trustyai/role.yaml", "The controller `trustyai`."},
	{"Tfserv", "rbac/tfserving/role.yaml", "The controller `tfserving`."},
	{"KfDef", "rbac/kubeflow/role.yaml", "The controller `kubeflow`; [an administrator grants](../operations.md#rights-for-kfdefs-and-seldonoperators) " +
		"what applications contain."},
	{"SeldonOperator", "rbac/seldon/role.yaml", "The controller `seldon`; [an administrator grants](../operations.md#rights-for-kfdefs-and-seldonoperators) " +
		"what charts contain."},
	{"KServe participant", "rbac/kserve/role.yaml", "The component `participant`."},
	{"KServe participant, in the operator's namespace", "rbac/kserve/payload_role.yaml", "For the Secrets with [what was ordered](../kserve-participant.md#what-is-stored)."},
	{"Component manifests", "components/manifests/role.yaml", "Added to the roles of KfDef and SeldonOperator. Off by default."},
	{"Component every-namespace", "components/every-namespace/role.yaml", "Off by default: acting as every ServiceAccount is as much as cluster-admin."},
}

// rightsPage is the page of the operator's rights.
func rightsPage(root string) ([]byte, error) {
	out := bytes.NewBufferString(generated + "# The operator's rights\n\n" +
		"What the operator's ServiceAccount may do, from the roles of `config`. A controller that is off has none of its rights. " +
		"Without a remark a right is for the whole cluster. [Security](../security.md) says what follows from them, and which admission " +
		"policies limit them further; `mlkeeper rbac` prints the roles.\n\n" +
		"The component `trusted` binds `cluster-admin`, and is off by default.\n")
	for _, part := range rightsOf {
		raw, err := os.ReadFile(filepath.Join(root, "config", part.file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n| API group | resources | verbs | for |\n|---|---|---|---|\n", part.title, part.about)
		found := 0
		for document := range strings.SplitSeq(string(raw), "\n---\n") {
			var r role
			if err := yaml.Unmarshal([]byte(document), &r); err != nil {
				return nil, fmt.Errorf("%s: %w", part.file, err)
			}
			comments := reasons(document)
			for i, rule := range r.Rules {
				found++
				reason := ""
				if i < len(comments) {
					reason = comments[i]
				}
				what := strings.Join(append(rule.Resources, rule.NonResourceURLs...), ", ")
				if len(rule.ResourceNames) > 0 {
					what += " named " + strings.Join(rule.ResourceNames, ", ")
				}
				fmt.Fprintf(out, "| %s | %s | %s | %s |\n", groups(rule.APIGroups), cell(what), strings.Join(rule.Verbs, ", "), cell(oneLine(reason)))
			}
		}
		if found == 0 {
			return nil, fmt.Errorf("%s has no rules", part.file)
		}
	}
	return out.Bytes(), nil
}

func groups(names []string) string {
	var out []string
	for _, name := range names {
		if name == "" {
			name = "core"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

// reasons are the comments above the rules of a role. Rules without a comment have the one of the rule before.
func reasons(document string) []string {
	_, rules, found := strings.Cut(document, "\nrules:\n")
	if !found {
		return nil
	}
	var out []string
	var comment []string
	fresh := true
	for line := range strings.Lines(rules) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			if fresh {
				comment = nil
			}
			fresh = false
			comment = append(comment, strings.TrimSpace(strings.TrimPrefix(line, "#")))
		case strings.HasPrefix(line, "- "):
			fresh = true
			out = append(out, strings.Join(comment, " "))
		}
	}
	return out
}
