package cli

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// grant is what the ServiceAccount of a manager has by one role of this release.
type grant struct {
	// subject is the kind and the name of the role.
	subject string
	// namespace is the one in which a Role grants it; empty for a ClusterRole.
	namespace string
	rules     []rule
}

// grants are what the ServiceAccount of a manager has by the roles of the engine and of the controllers that it runs.
func (c *checker) grants(m managerState, known []string) ([]grant, error) {
	all, err := rolesFor(c.controllers, known, true)
	if err != nil {
		return nil, err
	}
	var out []grant
	for _, r := range all {
		out = append(out, grant{subject: "ClusterRole " + r.name, rules: r.rules})
	}
	roles, err := shippedRoles(c.manifests, append([]string{engineFolder}, m.controllers...))
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		out = append(out, grant{subject: "Role " + m.account.namespace + "/" + r.Name, namespace: m.account.namespace, rules: rulesOf(r.Rules)})
	}
	return out, nil
}

// shippedRoles are the Roles in the folders of config/rbac. They are written by hand, and grant in the operator's own namespace.
func shippedRoles(manifests fs.FS, folders []string) ([]rbacv1.Role, error) {
	names, err := fs.Glob(manifests, "rbac/*/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	var out []rbacv1.Role
	for _, name := range names {
		if !slices.Contains(folders, path.Base(path.Dir(name))) {
			continue
		}
		raw, err := fs.ReadFile(manifests, name)
		if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		for text := range strings.SplitSeq(string(raw), "\n---\n") {
			var one rbacv1.Role
			if err := yaml.Unmarshal([]byte(text), &one); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			if one.Kind == "Role" {
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// rulesOf are the rules of a role with one group each.
func rulesOf(rules []rbacv1.PolicyRule) []rule {
	var out []rule
	for _, r := range rules {
		for _, group := range r.APIGroups {
			out = append(out, rule{group: group, resources: r.Resources, names: r.ResourceNames, verbs: r.Verbs})
		}
	}
	return out
}
