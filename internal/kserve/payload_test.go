package kserve

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestTheServicesAreThoseOfTheSecret: the custom resource refers to what was ordered. Without it nothing is changed, but for what is to be
// removed; and what is marked as another element's is not read.
func TestTheServicesAreThoseOfTheSecret(t *testing.T) {
	e := ordered(acm.OrderDeploy, list(declared("sklearn-iris", "kserve-test", iris)))
	ref := keeper.PayloadReference{Namespace: "operator", Name: "payload"}
	cr, secrets := &keeper.CompositionElement{}, map[string]*unstructured.Unstructured{}
	cr.Spec = record.ElementSpec(e, func(payload []byte) *keeper.PayloadReference {
		for of, id := range map[string]string{"its own": e.ID, "another's": "another"} {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(record.PayloadSecret(ref, record.PayloadOf("CompositionElement", id), "p", payload))
			if err != nil {
				t.Fatal(err)
			}
			secrets[of] = &unstructured.Unstructured{Object: object}
			secrets[of].SetAPIVersion("v1")
			secrets[of].SetKind("Secret")
		}
		return &ref
	})
	cr.Name = e.ID
	damaged := secrets["its own"].DeepCopy()
	damaged.Object["data"] = map[string]any{"payload.json.gz": base64.StdEncoding.EncodeToString([]byte(iris))}
	secrets["a damaged one"] = damaged
	for of, problem := range map[string]string{"its own": "", "another's": "does not have the payload", "a damaged one": "cannot be used", "none": "there is no Secret"} {
		cluster := open(controllertest.New(noon.Add(time.Second)))
		if secrets[of] != nil {
			cluster.Put(secrets[of])
		}
		facts, err := system{}.Gather(t.Context(), cluster, cr)
		var found plan.Problem
		switch errors.As(err, &found); {
		case problem == "" && (err != nil || len(facts.Services) != 1):
			t.Errorf("%s: the services are %v, %v", of, facts.Services, err)
		case problem != "" && (found.Class != plan.Waiting || found.Reason != reasonPayloadNotFound || !strings.Contains(found.Message, problem)):
			t.Errorf("%s: %v", of, err)
		case strings.Contains(found.Error(), "sklearn"):
			t.Errorf("%s: the error quotes what was ordered: %v", of, err)
		}
		leaving := cr.DeepCopy()
		leaving.Spec.Exists, leaving.Spec.Order.Type = false, string(acm.OrderUndeploy)
		if facts, err := (system{}).Gather(t.Context(), cluster, leaving); err != nil || len(facts.Services) > 0 {
			t.Errorf("%s: of what is removed the services are %v, %v", of, facts.Services, err)
		}
	}
}

// TestAnAbsentPayloadIsConfirmed: the participant creates the Secret right before the element that refers to it, and the watches are not in order.
// The absence of the Secret is confirmed, so that no element says PayloadNotFound for a moment.
func TestAnAbsentPayloadIsConfirmed(t *testing.T) {
	if !slices.Contains(Definition().ConfirmAbsence, gvkSecret) {
		t.Errorf("only the absence of %v is confirmed", Definition().ConfirmAbsence)
	}
}
