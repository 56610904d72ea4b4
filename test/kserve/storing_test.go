package kserve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/acmruntime"
)

// TestOrderThatAPolicyDenies: the order fails with the policy's words, and those behind it are carried out. An order that an outage keeps
// from being stored would wait instead.
func TestOrderThatAPolicyDenies(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	c := s.primed(map[string]any{})
	denied := s.instance(c, s.model("denied", sklearn(1)))
	name := "friday-" + denied.ID[:8]
	for _, o := range []string{
		fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":["keeper.mlkeeper.dev"],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["compositionelements"]}]},
		"validations":[{"expression":"object.spec.automationCompositionId != '%s'","message":"no models on Friday","reason":"Forbidden"}]}}`, name, denied.ID),
		fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},"spec":{
		"policyName":%q,"validationActions":["Deny"]}}`, name, name),
	} {
		u := &unstructured.Unstructured{}
		s.must(u.UnmarshalJSON([]byte(o)))
		s.must(s.c.Client.Create(context.Background(), u))
		t.Cleanup(func() { s.must(s.c.Client.Delete(context.Background(), u)) })
	}
	s.c.Eventually(t, patience, func() error {
		probe := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: denied.Elements[0].ID}}
		probe.Spec.ParticipantID, probe.Spec.AutomationCompositionID = s.runtime.Participant, denied.ID
		if err := s.c.Client.Create(context.Background(), probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "Friday") {
			return fmt.Errorf("the policy does not hold yet: %w", err)
		}
		return nil
	})
	s.must(s.runtime.Deploy(within(t), denied))
	s.must(s.runtime.AwaitInstance(within(t), denied, "UNDEPLOYED", "FAILED"))
	if got := s.runtime.Element(denied.Elements[0].ID).Message; !strings.Contains(got, "no models on Friday") {
		t.Errorf("said was %q", got)
	}
	s.deployed(c, s.model("behind", sklearn(1)))
}

// TestEditedObjectsEndNothing: the schema allows what no participant writes, and no decoder takes.
func TestEditedObjectsEndNothing(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	for _, spec := range []string{
		`"kind":"PendingOrder","spec":{"participantId":%q,"message":{"startPhase":"zero"}}`,
		`"kind":"CompositionElement","spec":{"participantId":%q,"automationCompositionId":"i","content":{},
			"order":{"type":"Deploy","id":"m","time":"2026-08-21T12:00:00Z","received":"2026-08-21T12:00:00Z"}}`,
	} {
		u := &unstructured.Unstructured{}
		s.must(u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"keeper.mlkeeper.dev/v1alpha1","metadata":{"name":%q},`+spec+`}`,
			uuid.NewString(), s.runtime.Participant)))
		s.must(s.c.Client.Create(context.Background(), u))
	}
	s.start()
	s.deployed(s.primed(map[string]any{}), s.model("served", sklearn(1)))
}
