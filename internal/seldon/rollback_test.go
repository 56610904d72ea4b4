package seldon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/objectmeta"
	"mlkeeper.dev/internal/source"
)

// revisions is the Secret that keeps them.
var revisions = plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: "stack-revisions"}

// life is a SeldonOperator that goes through passes as the engine makes them.
type life struct {
	t    *testing.T
	s    *system
	c    *controllertest.Cluster
	cr   *v1alpha1.SeldonOperator
	from *fakeStore
	plan plan.Plan
}

// upgradable is a chart with a hook.
const upgradable = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: "of-{{ .Release.Name }}"}, data: {value: {{ .Values.value | default "none" | quote }}, port: "1"}, n: 7}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: "hook-{{ .Release.Name }}", annotations: {helm.sh/hook: "post-install,post-upgrade"}}}
`

func newLife(t *testing.T) *life {
	t.Helper()
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l := &life{t: t, from: &fakeStore{store: store}, c: controllertest.New(testNow), cr: &v1alpha1.SeldonOperator{}}
	l.from.put(t, upgradable)
	l.cr.Name, l.cr.Namespace, l.cr.UID = "stack", "ns", "uid"
	l.cr.Spec.Core.Upgrade.OnFailure = v1alpha1.FailureRollback
	l.restart()
	l.values("first")
	l.pass("")
	return l
}

// restart is another process with the same cluster.
func (l *life) restart() {
	l.s = New(Settings{Trusted: true, Sources: l.from}).(*system)
	l.c.Answers = map[string]any{}
}

func (l *life) values(value string) {
	l.cr.Spec.Core.Values = &apiruntime.RawExtension{Raw: fmt.Appendf(nil, `{"value":%q}`, value)}
}

// reasons are those of objects in passes in which they fail.
var reasons = map[string]string{"failed hook-seldon-core": "HookFailed", "refused of-seldon-core": "Invalid"}

// pass is one reconcile: everything is ready, or nothing, or an object of core has failed. It returns what is declared of core, the history,
// and whether another reconcile follows.
func (l *life) pass(what string) string {
	l.t.Helper()
	var facts Facts
	for pending := true; pending; {
		asked := len(l.c.Asked)
		var err error
		if facts, err = l.s.Gather(l.t.Context(), l.c, l.cr); err != nil {
			l.t.Fatal(err)
		}
		pending = false
		for _, one := range l.c.Asked[asked:] {
			if l.c.Answers[one.Name] == nil {
				l.c.Answers[one.Name], pending = one.Job(l.t.Context(), nil), true
			}
		}
	}
	l.plan = l.s.Render(l.cr, facts)
	l.c.Written(l.plan, stackOf(l.cr).ID())
	seen := controller.ObservedState{Now: l.c.Time, Objects: map[plan.Key]controller.State{}, Problems: l.plan.Problems}
	declared := "nothing"
	for _, stage := range l.plan.Stages {
		for _, o := range stage.Objects {
			seen.Objects[o.Key()] = controller.State{Current: what == "ready"}
			if o.Desired.GetName() == "of-seldon-core" {
				declared, _, _ = unstructured.NestedString(o.Desired.Object, "data", "value")
			}
			if reason := reasons[what+" "+o.Desired.GetName()]; reason != "" {
				seen.Problems = append(seen.Problems, plan.Problem{Class: plan.Terminal, Reason: reason, Message: "so", Object: o.Key()})
			}
		}
	}
	verdict := l.s.Project(l.cr, facts, seen)
	out := []string{declared}
	for _, r := range recordedOf(l.cr, core).History {
		out = append(out, fmt.Sprintf("%d %s %d", r.Revision, r.Outcome, r.RollbackTo))
	}
	if verdict.Again {
		out = append(out, "again")
	}
	return strings.Join(out, ", ")
}

func (l *life) want(what, want string) {
	l.t.Helper()
	if got := l.pass(what); got != want {
		l.t.Errorf("%q, not %q", got, want)
	}
}

func (l *life) reason() string {
	for _, p := range l.plan.Problems {
		if p.Class == plan.Terminal {
			return p.Reason + " " + p.Field
		}
	}
	return ""
}

// deployed is a life in which the first revision is ready.
func deployed(t *testing.T) *life {
	t.Helper()
	l := newLife(t)
	l.want("", "first, 1 Pending 0, again")
	l.want("ready", "first, 1 Deployed 0, again")
	l.want("ready", "first, 1 Deployed 0")
	return l
}

// failed is a life in which the second revision has failed and the first is applied again.
func failed(t *testing.T) *life {
	t.Helper()
	l := deployed(t)
	l.values("second")
	l.want("", "second, 2 Pending 0, 1 Superseded 0, again")
	l.want("failed", "second, 2 Failed 0, 1 Superseded 0, again")
	l.want("", "first, 3 Pending 1, 2 Failed 0, 1 Superseded 0, again")
	l.want("ready", "first, 3 Deployed 1, 2 Failed 0, 1 Superseded 0, again")
	if t.Failed() {
		t.FailNow()
	}
	return l
}

const afterwards = "first, 3 Deployed 1, 2 Failed 0, 1 Superseded 0"

// TestWhatFailsIsRolledBackOnce: what is declared has failed and is not tried again, whatever goes on, until somebody asks for it.
func TestWhatFailsIsRolledBackOnce(t *testing.T) {
	l := failed(t)
	asked := l.from.asked
	for range 3 {
		l.want("ready", afterwards)
	}
	if got := l.reason(); got != "RolledBack spec.core" || l.from.asked > asked+1 {
		t.Errorf("the problem is %s, and the repository was asked %d times", got, l.from.asked-asked)
	}
	if got := recordedOf(l.cr, core); got.Phase != phaseFailed || !strings.Contains(got.Message, "revision 2 has failed, and revision 1 is applied again: HookFailed: so") {
		t.Errorf("%s: %s", got.Phase, got.Message)
	}
	hooks := 0
	for _, key := range l.plan.Keep {
		if key.Name == "hook-seldon-core" {
			hooks++
		}
	}
	if hooks != 1 {
		t.Errorf("kept are %v", l.plan.Keep)
	}
	// After a restart, with and without a repository.
	l.from.down = errors.New("no route")
	l.restart()
	l.want("ready", afterwards)
	l.from.down = nil
	l.restart()
	l.want("ready", afterwards)
	// Somebody asks for it.
	l.cr.Annotations = map[string]string{keeper.ReconcileAtAnnotation: "now"}
	l.want("", "second, 4 Pending 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0, again")
	l.want("failed", "second, 4 Failed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0, again")
	l.want("ready", "first, 5 Deployed 1, 4 Failed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0, again")
	l.want("ready", "first, 5 Deployed 1, 4 Failed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0")
	// The request goes, as with a tool that applies the manifest again.
	l.cr.Annotations = nil
	l.want("ready", "first, 5 Deployed 1, 4 Failed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0")
}

// TestARollbackLeavesNothingOfWhatHasFailed: what only the revision that has failed has is deleted, but for its hooks, whose logs tell why.
// While what is declared is not known, or is refused, nothing is.
func TestARollbackLeavesNothingOfWhatHasFailed(t *testing.T) {
	allowed := func(l *life) bool {
		t.Helper()
		i := slices.IndexFunc(l.plan.Problems, func(p plan.Problem) bool { return p.Reason == reasonRolledBack })
		return i >= 0 && l.plan.Problems[i].AllowsPruning
	}
	keeps := func(l *life, name string) bool {
		return slices.ContainsFunc(l.plan.Keep, func(key plan.Key) bool { return key.Kind == "Job" && key.Namespace == "ns" && key.Name == name })
	}
	l := deployed(t)
	l.from.put(t, upgradable+`---
{apiVersion: batch/v1, kind: Job, metadata: {name: before, annotations: {helm.sh/hook: pre-upgrade}}}
`)
	l.values("second")
	l.pass("")
	l.pass("failed")
	l.pass("")
	for range 3 {
		if got := l.pass("ready"); got != afterwards && got != afterwards+", again" {
			t.Fatal(got)
		}
	}
	if !allowed(l) || !plan.MayPrune(l.plan.Problems) || !keeps(l, "hook-seldon-core") || !keeps(l, "before") {
		t.Errorf("problems %+v, kept %v", l.plan.Problems, l.plan.Keep)
	}
	refused := &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: "so"}
	for _, c := range []struct {
		declared string
		prepare  func()
	}{
		{"refused", func() { l.c.Answers, l.from.down = map[string]any{}, refused }},
		{"unknown", func() { l.restart(); l.from.down = errors.New("no route") }},
		{"refused, after a restart", func() { l.restart(); l.from.down = refused }},
	} {
		c.prepare()
		if l.want("ready", afterwards); allowed(l) {
			t.Errorf("what is declared is %s, and what it does not have is deleted", c.declared)
		}
	}
	l.from.down = nil
	l.restart()
	if l.want("ready", afterwards); !allowed(l) || !plan.MayPrune(l.plan.Problems) || !keeps(l, "before") {
		t.Errorf("after a restart: problems %+v, kept %v", l.plan.Problems, l.plan.Keep)
	}
	l.values("third")
	l.from.put(t, `{{ fail "so" }}`)
	if l.pass("ready"); plan.MayPrune(l.plan.Problems) {
		t.Errorf("what is declared is refused: %+v", l.plan.Problems)
	}
}

// TestARollbackLeavesDefinitions: those of the revision that has failed may have stored fields that the others do not know.
func TestARollbackLeavesDefinitions(t *testing.T) {
	l := newLife(t)
	l.from.put(t, upgradable+`---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {value: {{ .Values.value }}}}
`)
	l.c.Answers = map[string]any{}
	for _, c := range []struct {
		values, what, declared string
		left                   bool
	}{
		{"first", "", "first", false},
		{"first", "ready", "first", false},
		{"first", "ready", "first", false},
		{"second", "", "second", false},
		{"second", "failed", "second", false},
		{"second", "", "first", true},
		{"second", "ready", "first", true},
		{"third", "", "third", false},
	} {
		l.values(c.values)
		got := l.pass(c.what)
		if o := find(t, l.plan, "CustomResourceDefinition", "things.example.com"); !strings.HasPrefix(got, c.declared) || o.IfNotPresent != c.left {
			t.Errorf("%+v: %s, the definition is left: %t", c, got, o.IfNotPresent)
		}
	}
}

// TestAfterARollback: what else a user may do then.
func TestAfterARollback(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*life)
		want string
	}{
		"other values":         {func(l *life) { l.values("third") }, "third, 4 Deployed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0, again"},
		"the values of before": {func(l *life) { l.values("first") }, afterwards},
		"Keep":                 {func(l *life) { l.cr.Spec.Core.Upgrade.OnFailure = v1alpha1.FailureKeep }, "second, 4 Deployed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0"},
	} {
		l := failed(t)
		c.do(l)
		if got := l.pass("ready"); got != c.want || l.reason() != "" {
			t.Errorf("%s: %q, %s", name, got, l.reason())
		}
	}
	// What has failed is tried again after something else was ready.
	l := failed(t)
	l.values("third")
	l.pass("ready")
	l.pass("ready")
	l.c.Answers = map[string]any{}
	l.values("second")
	l.want("", "second, 5 Pending 0, 4 Superseded 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0, again")
	// What others put into the Secret is not applied.
	l = failed(t)
	evil, err := pack(manifests{Revision: 1, Objects: []map[string]any{{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "of-seldon-core"},
		"data": map[string]any{"value": "evil"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	l.c.Get(revisions).Object["data"] = map[string]any{"core": base64.StdEncoding.EncodeToString(evil)}
	l.restart()
	if got := l.pass("ready"); strings.HasPrefix(got, "evil") {
		t.Error(got)
	}
}

// upgrading is a life in which the second revision is being applied.
func upgrading(t *testing.T) *life {
	t.Helper()
	l := deployed(t)
	l.values("second")
	l.want("", "second, 2 Pending 0, 1 Superseded 0, again")
	l.want("", upgradePending)
	return l
}

const upgradePending, upgradeFailed = "second, 2 Pending 0, 1 Superseded 0", "second, 2 Failed 0, 1 Superseded 0, again"

// wait has passes whenever the plan is to be looked at again, for a time, and returns what the last one gave.
func (l *life) wait(d time.Duration) (out string) {
	l.t.Helper()
	for end := l.c.Time.Add(d); l.c.Time.Before(end); {
		if l.c.Time = l.plan.WakeAt; l.c.Time.After(end) || l.c.Time.IsZero() {
			l.c.Time = end
		}
		if out = l.pass(""); strings.Contains(out, string(v1alpha1.RevisionFailed)) {
			return out
		}
	}
	return out
}

// TestAnUpgradeThatTakesTooLongHasFailed: after its timeout and not before, with a few writes of the status until then, also over restarts.
func TestAnUpgradeThatTakesTooLongHasFailed(t *testing.T) {
	l := upgrading(t)
	begin, statuses := l.c.Time, map[string]bool{}
	for got := upgradePending; got != upgradeFailed; got = l.pass("") {
		if got != upgradePending || l.c.Time.Sub(begin) >= defaultTimeout {
			t.Fatalf("after %s: %s", l.c.Time.Sub(begin), got)
		}
		statuses[fmt.Sprint(recordedOf(l.cr, core).History[0])] = true
		if len(statuses) == 3 {
			l.restart()
			l.pass("")
		}
		l.c.Time = l.plan.WakeAt
	}
	if got := l.c.Time.Sub(begin); got != defaultTimeout || len(statuses) > countings {
		t.Errorf("it has failed after %s, with %d statuses until then", got, len(statuses))
	}
	if r := recordedOf(l.cr, core).History[0]; r.ProgressAt != nil || r.ProgressSeconds != 0 {
		t.Errorf("its time is still counted: %+v", r)
	}
	l.want("", "first, 3 Pending 1, 2 Failed 0, 1 Superseded 0, again")
	if r := recordedOf(l.cr, core); !strings.Contains(r.Message, "it was not ready within 5m0s") || r.History[0].ProgressAt != nil {
		t.Errorf("%+v", r)
	}
}

// TestOnlyTimeInWhichAnUpgradeMayProgressCounts: not that in which it was suspended, nor that without a manager, whenever that was.
func TestOnlyTimeInWhichAnUpgradeMayProgressCounts(t *testing.T) {
	for name, interrupt := range map[string]func(*life){
		"the component is suspended": func(l *life) {
			l.cr.Spec.Core.Suspend = true
			for range 4 {
				l.want("", upgradePending)
				l.c.Time = l.c.Time.Add(40 * time.Second)
			}
			l.cr.Spec.Core.Suspend = false
			l.want("", upgradePending)
		},
		"the SeldonOperator is suspended": func(l *life) {
			meta.SetStatusCondition(&l.cr.Status.Conditions, metav1.Condition{Type: status.ConditionSuspended, Status: metav1.ConditionTrue})
			l.c.Time = l.c.Time.Add(100 * time.Second)
			l.want("", upgradePending)
			meta.RemoveStatusCondition(&l.cr.Status.Conditions, status.ConditionSuspended)
		},
		"no manager runs": func(l *life) {
			l.c.Time = l.c.Time.Add(time.Hour)
			l.restart()
			l.want("", upgradePending)
		},
	} {
		for _, before := range []time.Duration{0, 3 * time.Minute, defaultTimeout - time.Second} {
			l := upgrading(t)
			l.wait(before)
			interrupt(l)
			rest, most := defaultTimeout-before, defaultTimeout/countings // What is not counted before, or after.
			if got := l.wait(max(rest-most-time.Second, 0)); got != upgradePending && got != "" {
				t.Errorf("%s after %s: too early it is %s", name, before, got)
			}
			if got := l.wait(2*most + 2*time.Second); got != upgradeFailed {
				t.Errorf("%s after %s: too late it is %s", name, before, got)
			}
		}
	}
	// It has time to become ready then, however long it has waited before.
	l := upgrading(t)
	l.wait(defaultTimeout - time.Second)
	l.c.Time = l.c.Time.Add(time.Hour)
	l.want("", upgradePending)
	if got := l.plan.WakeAt.Sub(l.c.Time); got < defaultTimeout/countings {
		t.Errorf("it has %s", got)
	}
}

// TestHooksAfterTheObjectsRunBeforeTheDeadline: objects may become ready by such a hook alone. It does not wait for them until the upgrade is
// rolled back, and has as much time itself.
func TestHooksAfterTheObjectsRunBeforeTheDeadline(t *testing.T) {
	l := upgrading(t)
	for seconds, want := range map[int32]time.Duration{
		10: 5 * time.Second, 300: 150 * time.Second, 600: plan.DefaultGateTimeout, 3600: plan.DefaultGateTimeout,
	} {
		for policy, want := range map[v1alpha1.FailurePolicy]time.Duration{v1alpha1.FailureRollback: want, v1alpha1.FailureKeep: plan.DefaultGateTimeout} {
			l.cr.Spec.Core.Upgrade = v1alpha1.Upgrade{OnFailure: policy, TimeoutSeconds: &seconds}
			l.pass("")
			i := slices.IndexFunc(l.plan.Stages, func(s plan.Stage) bool { return s.Name == core })
			if got := l.plan.Stages[i].Timeout; got != want {
				t.Errorf("%s after %d seconds: the hooks wait for %s, not %s", policy, seconds, got, want)
			}
		}
	}
}

// TestAnInstallationIsNotRolledBack, since there is nothing to go back to; nor is what is too large to be kept, which is told.
func TestAnInstallationIsNotRolledBack(t *testing.T) {
	l := newLife(t)
	l.want("failed", "first, 1 Failed 0, again")
	l.want("failed", "first, 1 Failed 0")
	l.want("ready", "first, 1 Deployed 0, again")
	var noise strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&noise, "%x ", i*i*7919)
	}
	l.values(noise.String())
	l.pass("")
	l.pass("ready")
	l.pass("ready")
	if got := strings.Join(l.plan.Warnings, "\n"); !strings.Contains(got, "core: an upgrade that fails cannot be rolled back") {
		t.Errorf("warnings %q", got)
	}
}

// TestWhatIsReadyIsKeptAtOnce: also where something else is declared before the next pass. Nothing of it is left in memory when the
// SeldonOperator is gone.
func TestWhatIsReadyIsKeptAtOnce(t *testing.T) {
	l := newLife(t)
	l.want("", "first, 1 Pending 0, again")
	l.want("ready", "first, 1 Deployed 0, again")
	recorded := recordedOf(l.cr, core)
	keys := made(t, nil, testNow)
	one := component{name: core, spec: l.cr.Spec.Core}
	for _, pending := range []bool{false, true} {
		part := Part{component: one, Result: l.s.results.Last(subject(l.cr, one)), Pending: pending, Older: pending}
		l.s.rollBack(l.cr, &part, nil, keys, testNow)
		if part.Rollback.Kept == nil || part.Rollback.Revision != recorded.Revision || part.Rollback.Failed != nil {
			t.Errorf("while something else is rendered: %t, kept are %d bytes of revision %d", pending, len(part.Rollback.Kept), part.Rollback.Revision)
		}
	}
	l = failed(t)
	l.s.Forget(client.ObjectKeyFromObject(l.cr))
	l.s.packed.Range(func(key, _ any) bool {
		t.Errorf("%v is remembered", key)
		return true
	})
	if l.s.results.Restored(subject(l.cr, one)) != nil {
		t.Error("the result of a rollback is remembered")
	}
}

// TestNothingIsAttemptedWhileSuspended: what was rolled back stays so when it is suspended and resumed, and a revision that is declared
// meanwhile begins when it is resumed.
func TestNothingIsAttemptedWhileSuspended(t *testing.T) {
	l := failed(t)
	for _, suspended := range []bool{true, true, false, false} {
		l.cr.Spec.Core.Suspend = suspended
		l.want("ready", afterwards)
	}
	if got := l.reason(); got != "RolledBack spec.core" {
		t.Error(got)
	}
	l = deployed(t)
	l.cr.Spec.Core.Suspend = true
	l.values("second")
	l.want("", "second, 1 Deployed 0")
	if got := recordedOf(l.cr, core); got.Revision != 1 || got.ValuesDigest != got.History[0].ValuesDigest || got.Phase != phaseSuspended {
		t.Errorf("while it is suspended: %+v", got)
	}
	l.c.Time = l.c.Time.Add(time.Hour)
	l.cr.Spec.Core.Suspend = false
	l.want("", "second, 2 Pending 0, 1 Superseded 0, again")
	l.want("", "second, 2 Pending 0, 1 Superseded 0")
}

// TestWhatIsRefusedAfterARollbackIsTold: the remedy of a rollback is to declare something else. What is wrong with that is reported, and not
// that what was declared before has failed.
func TestWhatIsRefusedAfterARollbackIsTold(t *testing.T) {
	l := failed(t)
	l.values("third")
	l.from.put(t, `{{ fail "so" }}`)
	l.want("ready", afterwards)
	if got := recordedOf(l.cr, core); l.reason() != "ChartFailed spec.core.values" || got.Phase != phaseFailed || strings.Contains(got.Message, "revision 2") {
		t.Errorf("%s, %+v", l.reason(), got)
	}
	l.from.put(t, upgradable)
	l.values("second")
	l.c.Answers = map[string]any{}
	l.want("ready", afterwards)
	if got := l.reason(); got != "RolledBack spec.core" {
		t.Error(got)
	}
	l.values("third")
	l.from.down = &source.Error{Class: source.Terminal, Reason: source.ReasonSignatureInvalid, Message: "so", Field: source.FieldVerify}
	l.want("ready", afterwards)
	unavailable := meta.FindStatusCondition(l.cr.Status.Conditions, ConditionSourceUnavailable)
	if unavailable == nil || unavailable.Reason != source.ReasonSignatureInvalid || l.reason() != "SignatureInvalid spec.core.chart.verify" {
		t.Errorf("%s, %+v", l.reason(), unavailable)
	}
}

// TestTheSecretOfRevisionsIsRepaired: whoever removes or changes it takes nothing away that is kept, and has nothing applied that has failed.
func TestTheSecretOfRevisionsIsRepaired(t *testing.T) {
	for name, harm := range map[string]func(*life){
		"removed": func(l *life) { l.c.Remove(revisions) },
		"emptied": func(l *life) { delete(l.c.Get(revisions).Object, "data") },
		"changed": func(l *life) { l.c.Get(revisions).Object["data"] = map[string]any{"core": "eA=="} },
	} {
		l := failed(t)
		before := find(t, l.plan, "Secret", revisions.Name).Desired
		harm(l)
		l.want("ready", afterwards)
		if got := find(t, l.plan, "Secret", revisions.Name).Desired; !reflect.DeepEqual(got, before) {
			t.Errorf("%s: it is not as before", name)
		}
		// During an upgrade.
		l = deployed(t)
		l.values("second")
		l.pass("")
		harm(l)
		l.pass("failed")
		l.want("", "first, 3 Pending 1, 2 Failed 0, 1 Superseded 0, again")
	}
}

// TestARollbackThatFailsIsNoAttempt: it is not what is declared that has failed then, and what it went back to may be declared.
func TestARollbackThatFailsIsNoAttempt(t *testing.T) {
	const want = "first, 3 Failed 1, 2 Failed 0, 1 Superseded 0"
	l := deployed(t)
	l.values("second")
	l.pass("")
	l.pass("failed")
	l.want("refused", want+", again")
	l.want("refused", want)
	part := Part{component: component{name: core, spec: l.cr.Spec.Core}, Pending: true}
	l.s.rollBack(l.cr, &part, nil, made(t, nil, testNow), testNow)
	if got := part.Rollback.Failed; got == nil || got.Revision != 2 {
		t.Errorf("while something is rendered, failed has %+v", got)
	}
	l.values("first")
	l.want("refused", want)
	if got := l.reason(); got != "" {
		t.Errorf("what is declared is applied, and reported is %s", got)
	}
}

// TestManifestsAreReadOnce, and not at each reconcile of what was rolled back. They have the health that the component says now.
func TestManifestsAreReadOnce(t *testing.T) {
	l := failed(t)
	recorded := recordedOf(l.cr, core)
	l.s.packed.Store(subject(l.cr, component{name: core}), packed{kept: []byte("unread"), digest: recorded.KeptDigest})
	l.want("ready", afterwards)
	l = failed(t)
	l.cr.Spec.Core.HealthCheckExprs = []keeper.HealthCheckExpr{{APIVersion: "v1", Kind: "ConfigMap", Current: "true"}}
	l.want("ready", afterwards)
	if find(t, l.plan, "ConfigMap", "of-seldon-core").Health == nil {
		t.Error("the expressions of the component tell nothing")
	}
}

// TestWhatIsPackedHoldsNoResult: results go for lack of memory, and nothing else may hold them.
func TestWhatIsPackedHoldsNoResult(t *testing.T) {
	l := deployed(t)
	of := subject(l.cr, component{name: core})
	result := weak.Make(l.s.results.Last(of))
	if _, packed := l.s.packed.Load(of); !packed || result.Value() == nil {
		t.Fatal("nothing is packed")
	}
	l.s.results.Forget(of.NamespacedName)
	l.plan, l.c = plan.Plan{}, nil
	runtime.GC()
	if result.Value() != nil {
		t.Error("the result is still in memory")
	}
}

// TestARestartChangesNoVersion: while nothing is rendered yet, what runs is what was recorded, and no range.
func TestARestartChangesNoVersion(t *testing.T) {
	l := newLife(t)
	l.cr.Spec.Core.Chart = &v1alpha1.Chart{Version: "1.x"}
	l.pass("ready")
	before := recordedOf(l.cr, core)
	l.restart()
	l.from.down = errors.New("no route")
	l.pass("ready")
	if now := recordedOf(l.cr, core); before.Version != "1.0.0" || now.Version != before.Version || now.Chart != before.Chart {
		t.Errorf("%s %s, and before %s %s", now.Chart, now.Version, before.Chart, before.Version)
	}
}

// TestWhatUnpacksToTooMuchIsNotKept: whoever may write the Secrets of the namespace could else fill the memory of the manager.
func TestWhatUnpacksToTooMuchIsNotKept(t *testing.T) {
	for name, text := range map[string]string{
		"a long text": `{"Chart":"` + strings.Repeat("a", maxUnpacked) + `"}`,
		"many values": `{"Objects":[` + strings.Repeat(`{},`, maxUnpacked/64) + `{}]}`,
	} {
		raw, err := zipped([]byte(text))
		if err != nil || len(raw) > maxKept {
			t.Fatalf("%s: %d bytes, %v", name, len(raw), err)
		}
		if _, err := unpack(raw); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
	m := manifests{Objects: make([]map[string]any, maxUnpacked/64)}
	if raw, err := pack(m); err == nil {
		t.Errorf("%d bytes are kept, and could not be read", len(raw))
	}
}

// TestAKeptRevisionThatCannotBeMarkedIsRefused: an earlier build has kept labels that are no texts, which no object can be marked with
// (plan.Stamp). It is not gone back to, which would fail for ever, and it is said why.
func TestAKeptRevisionThatCannotBeMarkedIsRefused(t *testing.T) {
	l := deployed(t)
	l.values("second")
	l.want("", "second, 2 Pending 0, 1 Superseded 0, again")
	of := subject(l.cr, component{name: core})
	known, _ := l.s.packed.Load(of)
	m, err := unpack(known.(packed).kept)
	if err != nil {
		t.Fatal(err)
	}
	m.Objects[0]["metadata"].(map[string]any)["labels"] = map[string]any{"generation": 7}
	raw, err := pack(m)
	if err != nil {
		t.Fatal(err)
	}
	l.s.packed.Store(of, packed{kept: raw, digest: recordedOf(l.cr, core).KeptDigest})
	l.want("failed", "second, 2 Failed 0, 1 Superseded 0, again")
	for range 3 {
		l.want("failed", "second, 2 Failed 0, 1 Superseded 0")
	}
	told := strings.Join(l.plan.Warnings, "\n")
	for _, want := range []string{"nothing was rolled back", "revision 1", "metadata.labels.generation is a number"} {
		if !strings.Contains(told, want) {
			t.Errorf("the warnings do not say %q: %s", want, told)
		}
	}
	for _, stage := range l.plan.Stages {
		for _, o := range stage.Objects {
			if err := objectmeta.Check(o.Desired.Object); err != nil {
				t.Errorf("%s would be applied: %v", o.Key(), err)
			}
		}
	}
	// What is declared next does not wait for it.
	l.values("third")
	l.want("", "third, 3 Pending 0, 2 Failed 0, 1 Superseded 0, again")
	l.want("ready", "third, 3 Deployed 0, 2 Failed 0, 1 Superseded 0, again")
}
