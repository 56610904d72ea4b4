package trustyai

import (
	"context"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
)

// Certificates that cert-manager, service-ca or the user puts into a Secret count for pods that run once they have stood for a while, as the
// operator's own do: where one is issued in a loop, or two clients fight over the Secret, each of them would restart the pods. Until then the
// pods keep the digest that they have, so that what else changes in their template does not wait.

// dataField finds the data of a Secret in an entry of managedFields; who applies stringData has that in his entry.
var dataField = regexp.MustCompile(`"f:(data|stringData)":`)

// writtenAt is when the data of one of the Secrets was written last. The time of an entry of managedFields changes with the value of a field of it
// (k8s.io/apimachinery pkg/util/managedfields/internal/managedfieldsupdater.go). It is in the Secret, so that a restart of the operator does not
// lose it.
func writtenAt(secrets ...*unstructured.Unstructured) (last time.Time) {
	for _, secret := range secrets {
		if secret == nil {
			continue
		}
		times := []time.Time{secret.GetCreationTimestamp().Time}
		for _, e := range secret.GetManagedFields() {
			if e.Time != nil && e.FieldsV1 != nil && dataField.Match(e.FieldsV1.GetRawBytes()) {
				times = append(times, e.Time.Time)
			}
		}
		for _, at := range times {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// awaitStanding leaves pods that run with the digest of the certificates that they have, until others have stood for a while.
func (s *system) awaitStanding(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, facts *Facts) error {
	certs, at := &facts.Certs, facts.Certs.WrittenAt.Add(standsFor)
	if certs.Digest == "" || facts.Deployment == nil || s.settings.DryRun || !read.Now().Before(at) {
		return nil
	}
	running, err := runningCertificates(ctx, read, cr, facts.Deployment)
	if running != "" && running != certs.Digest {
		certs.Digest, certs.StandsAt = running, at
	}
	return err
}

// runningCertificates is the digest of the certificates that the pods were started with; empty where they have none, as before the service was
// Secured, and where the spec names another Secret now, for which they are restarted anyway.
func runningCertificates(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, d *Deployment) (string, error) {
	if d.AdoptedPods != nil {
		return d.AdoptedPods.Certs, nil
	}
	live, err := read.Referenced(ctx, gvkDeployment, cr.Namespace, ServiceName(cr))
	if err != nil || live == nil {
		return "", err
	}
	volumes, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "volumes")
	mounts := func(volume any) bool {
		content, _ := volume.(map[string]any)
		name, _, _ := unstructured.NestedString(content, "secret", "secretName")
		return name == namesOf(cr).tlsSecret
	}
	if !slices.ContainsFunc(volumes, mounts) {
		return "", nil
	}
	running, _, _ := unstructured.NestedString(live.Object, "spec", "template", "metadata", "annotations", certificatesAnnotation)
	return running, nil
}
