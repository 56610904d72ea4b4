package kubeflow

import (
	"errors"
	"strings"
	"testing"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

func TestWhoseRightsAreUsed(t *testing.T) {
	for name, c := range map[string]struct {
		settings Settings
		named    string
		there    string
		user     string
		reason   string
		remedy   string
	}{
		"nobody is named": {
			reason: controller.ReasonServiceAccountRequired, remedy: "-n kubeflow -o yaml | mlkeeper rbac -f - --service-account mlkeeper ",
		},
		"all are trusted":                    {settings: Settings{Trusted: true}},
		"one is named although all are":      {settings: Settings{Trusted: true}, named: "deployer", there: "deployer", user: "system:serviceaccount:kubeflow:deployer"},
		"the administrator's default":        {settings: Settings{DefaultServiceAccount: "default"}, there: "default", user: "system:serviceaccount:kubeflow:default"},
		"the one that is named before it":    {settings: Settings{DefaultServiceAccount: "default"}, named: "deployer", there: "deployer", user: "system:serviceaccount:kubeflow:deployer"},
		"one that does not exist":            {named: "deployer", reason: controller.ReasonServiceAccountNotFound, remedy: "mlkeeper rbac -f - --service-account deployer "},
		"a default that does not exist here": {settings: Settings{DefaultServiceAccount: "default"}, reason: controller.ReasonServiceAccountNotFound, remedy: "-n kubeflow"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := controllertest.New(testNow)
			if c.there != "" {
				cluster.Put(object("v1", "ServiceAccount", "kubeflow", c.there))
			}
			cr := custom("first")
			cr.Spec.ServiceAccountName = c.named
			user, err := (&system{settings: c.settings}).account(cr).User(t.Context(), cluster, "KfDef", cr)
			var problem plan.Problem
			errors.As(err, &problem)
			if user != c.user || problem.Reason != c.reason || !strings.Contains(problem.Remedy, c.remedy) || (err != nil) != (c.reason != "") {
				t.Errorf("acts as %q: %v", user, err)
			}
		})
	}
}

// TestServiceAccountsOfTheSystemAreRefused: nothing is applied with the rights of the control plane's ServiceAccounts, or of the operator's,
// although they exist.
func TestServiceAccountsOfTheSystemAreRefused(t *testing.T) {
	for namespace, refused := range map[string]bool{"kube-system": true, "kube-public": true, "kube-node-lease": true, "mlkeeper-system": true, "kubeflow": false} {
		for name, settings := range map[string]Settings{"named": {}, "default": {DefaultServiceAccount: "deployer"}} {
			cluster := controllertest.New(testNow)
			cluster.Put(object("v1", "ServiceAccount", namespace, "deployer"))
			cr := custom("first")
			cr.Namespace, cr.Spec.ServiceAccountName = namespace, ""
			if name == "named" {
				cr.Spec.ServiceAccountName = "deployer"
			}
			settings.OperatorNamespace = "mlkeeper-system"
			user, err := (&system{settings: settings}).account(cr).User(t.Context(), cluster, "KfDef", cr)
			var problem plan.Problem
			if got := errors.As(err, &problem) && problem.Reason == controller.ReasonServiceAccountRefused; got != refused || (user == "") != refused {
				t.Errorf("%s in %s acts as %q: %v", name, namespace, user, err)
			}
		}
	}
}

func TestThePlanIsWrittenWithTheRightsThatWereFound(t *testing.T) {
	facts := two()
	facts.ActAs = "system:serviceaccount:kubeflow:deployer"
	if p := New(Settings{}).Render(custom("first", "Second App!"), facts); p.ActAs != facts.ActAs {
		t.Errorf("acts as %q", p.ActAs)
	}
}
