package act

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// TestANameThatIsTakenCountsBeforeAQuota: the object of another may be what fills the quota. Pods that would use it are not created, and the
// status names the object and not the quota, which more room would not help.
func TestANameThatIsTakenCountsBeforeAQuota(t *testing.T) {
	full := errors.New("exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1")
	for want, c := range map[string]struct {
		there     *unstructured.Unstructured
		unread    bool
		verbs     string
		workloads int
	}{
		ReasonConflict:                          {there: configMap("cm", nil), verbs: "POST GET"},
		ReasonQuota:                             {verbs: "POST GET POST", workloads: 1},
		ReasonQuota + ", and it cannot be read": {there: configMap("cm", nil), unread: true, verbs: "POST GET POST", workloads: 1},
	} {
		cast := newCast(t)
		if c.there != nil {
			cast.server.put(path, "kubectl", c.there)
		}
		resource := schema.GroupResource{Resource: "configmaps"}
		cast.server.answer = func(verb, at string) *apierrors.StatusError {
			switch {
			case verb == http.MethodPost && strings.HasSuffix(at, "/configmaps"):
				return apierrors.NewForbidden(resource, "cm", full)
			case verb == http.MethodGet && c.unread:
				return apierrors.NewForbidden(resource, "cm", errors.New("no"))
			}
			return nil
		}
		actions := []decide.Action{creates(mounting(t, "mounts", "cm")), creates(declared(t, nil))}
		results := cast.Do(t.Context(), Request{Stack: stack, Owners: []plan.Owner{self}, Actions: actions})
		reason, _, _ := strings.Cut(want, ",")
		if results[0].Err != nil || results[0].Problem == nil || results[0].Problem.Reason != reason {
			t.Errorf("%s: the ConfigMap has %+v", want, results[0])
		}
		if len(results) != 1+c.workloads || cast.verbs() != c.verbs {
			t.Errorf("%s: %d results, asked %s", want, len(results), cast.verbs())
		}
	}
}
