package trustyai

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/wiring"
)

const openURL, closedURL = "http://n.ns.svc.cluster.local", "https://n.ns.svc.cluster.local"

// exposed is the service n of a shape that the original operator knows.
func exposed(exposure v1.Exposure) *v1.TrustyAIService {
	cr := service("n", false, 0)
	cr.Spec.Exposure = exposure
	return cr
}

// adoptedAt is an InferenceService with a logger of the original operator at an address.
func adoptedAt(t *testing.T, url string) *simulation {
	t.Helper()
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", `,"logger":{"mode":"all","url":"`+url+`"}`))
	return s
}

// TestAnAdoptedLoggerFollowsTheExposure: a logger without TLS that was adopted for a Plain service gets TLS when that becomes Secured, as one that
// MLKeeper set does, since nothing is let in without it any more. One that was adopted for a Secured service stays as it is.
func TestAnAdoptedLoggerFollowsTheExposure(t *testing.T) {
	plain, secured := exposed(v1.ExposurePlain), exposed(v1.ExposureSecured)
	for name, c := range map[string]struct {
		found string
		under []*v1.TrustyAIService
		want  string
	}{
		"Plain, then Secured":             {openURL, []*v1.TrustyAIService{plain, secured}, closedURL},
		"Plain and back":                  {openURL, []*v1.TrustyAIService{plain, secured, plain}, openURL},
		"Secured without TLS":             {openURL, []*v1.TrustyAIService{secured, secured}, openURL},
		"Secured without TLS, then Plain": {openURL, []*v1.TrustyAIService{secured, plain}, openURL},
		"Secured, Plain, Secured":         {openURL, []*v1.TrustyAIService{secured, plain, secured}, closedURL},
		"Secured, then Plain":             {closedURL, []*v1.TrustyAIService{secured, plain}, openURL},
	} {
		t.Run(name, func(t *testing.T) {
			s := adoptedAt(t, c.found)
			before := loggerOf(s.target())
			for i, cr := range c.under {
				s.settle(cr)
				if i == 0 && (loggerOf(s.target()) != before || len(s.target().GetAnnotations()) != 1 || len(wiring.Claims(s.target())) != 1) {
					t.Errorf("the adoption changes what reaches the pods: %v", s.target().Object)
				}
			}
			if got := loggerOf(s.target()); !strings.Contains(got, "url:"+c.want+"]") {
				t.Errorf("the logger is %s, not at %s", got, c.want)
			}
			s.settle()
			if u := s.target(); loggerOf(u) != "" || len(wiring.Claims(u)) > 0 {
				t.Errorf("it stays after the service: %v", u.Object)
			}
		})
	}
}

// TestAClaimThatDoesNotSayWhatItIsForCounts: an earlier build had one name for all claims. It is the one for whose logger the address of today
// speaks, is not written again, and goes with the service.
func TestAClaimThatDoesNotSayWhatItIsForCounts(t *testing.T) {
	for name, cr := range map[string]*v1.TrustyAIService{"Plain": exposed(v1.ExposurePlain), "Secured": exposed(v1.ExposureSecured)} {
		s := adoptedAt(t, openURL)
		s.user(func(u *unstructured.Unstructured) {
			u.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
				"manager": wiring.ClaimManager, "operation": string(metav1.ManagedFieldsOperationUpdate), "apiVersion": u.GetAPIVersion(),
				"fieldsType": "FieldsV1", "fieldsV1": loggerFields,
			}}
		})
		before := s.target().GetResourceVersion()
		s.settle(cr)
		if got := s.target(); got.GetResourceVersion() != before {
			t.Errorf("%s: it was written again: %v", name, got.Object)
		}
		s.settle()
		if got := loggerOf(s.target()); got != "" {
			t.Errorf("%s: the logger stays after the service: %s", name, got)
		}
	}
}
