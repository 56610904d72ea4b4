package controller_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestNoCommandHasATextOfATenant: an administrator runs the command that the status has, and the name is whatever the author of the custom
// resource has written.
func TestNoCommandHasATextOfATenant(t *testing.T) {
	cr := &corev1.ConfigMap{}
	cr.Namespace, cr.Name = "ns", "one"
	for name, class := range map[string]plan.Class{"tenant": plan.Waiting, "x; id #": plan.Terminal, "$(id)": plan.Terminal} {
		_, err := controller.Account{Name: name}.User(t.Context(), controllertest.New(time.Time{}), "KfDef", cr)
		var problem plan.Problem
		if !errors.As(err, &problem) || problem.Reason != controller.ReasonServiceAccountNotFound || problem.Class != class ||
			strings.Contains(problem.Remedy, name) != (class == plan.Waiting) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
