package convert

// binding rewrites the subjects of a binding. In v1alpha1 they named their API by version instead of by group, and the
// user * stood for everybody who is logged in, which is a group since.
func binding(o *object, old string) error {
	const group = "rbac.authorization.k8s.io"
	for _, subject := range mapsAt(o.content, "subjects") {
		delete(subject, "apiVersion")
		if subject["kind"] != "ServiceAccount" {
			fill(subject, "apiGroup", group)
		}
		if old == "v1alpha1" && subject["kind"] == "User" && subject["name"] == "*" {
			subject["kind"], subject["name"] = "Group", "system:authenticated"
		}
	}
	if ref := mapAt(o.content, "roleRef"); ref != nil {
		fill(ref, "apiGroup", group)
	}
	return nil
}
