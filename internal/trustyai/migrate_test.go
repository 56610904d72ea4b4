package trustyai

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

func Test_MigrationSteps(t *testing.T) {
	at := func(phase v1.MigrationPhase) *v1.MigrationStatus {
		return &v1.MigrationStatus{Phase: phase, From: v1.StoragePVC, To: v1.StorageDatabase, Generation: 2}
	}
	old := &Deployment{Template: TemplatePVC, Rollout: workload.Rollout{Observed: true, Desired: 1, Total: 1, Updated: 1, Available: 1}}
	deployed := func(f func(*Deployment)) *Deployment {
		d := &Deployment{Template: TemplateMigration, Rollout: workload.Rollout{Observed: true, Desired: 1, Total: 1, Updated: 1, Available: 1}}
		f(d)
		return d
	}
	exceeded := deployed(func(d *Deployment) { d.Total, d.Updated, d.Available, d.Exceeded = 1, 1, 0, true })
	for _, tc := range []struct {
		name   string
		change func(*migrationInput)
		want   v1.MigrationPhase
	}{
		{"starts", func(*migrationInput) {}, v1.MigrationPending},
		{"waits for the Secret", func(in *migrationInput) { in.Stored, in.Credentials = at(v1.MigrationPending), false }, v1.MigrationPending},
		{"waits for a pod", func(in *migrationInput) { in.Stored, in.Replicas = at(v1.MigrationPending), 0 }, v1.MigrationPending},
		{"waits for the source", func(in *migrationInput) { in.Stored, in.Source = at(v1.MigrationPending), false }, v1.MigrationPending},
		{"copies", func(in *migrationInput) { in.Stored = at(v1.MigrationPending) }, v1.MigrationCopying},
		{"not written yet", func(in *migrationInput) { in.Stored, in.Deployment = at(v1.MigrationCopying), old }, v1.MigrationCopying},
		{"gone", func(in *migrationInput) { in.Stored, in.Deployment = at(v1.MigrationCopying), nil }, v1.MigrationCopying},
		{"not observed yet", func(in *migrationInput) {
			in.Stored, in.Deployment = at(v1.MigrationCopying), deployed(func(d *Deployment) { d.Observed = false })
		}, v1.MigrationCopying},
		{"not ready yet", func(in *migrationInput) {
			in.Stored, in.Deployment = at(v1.MigrationCopying), deployed(func(d *Deployment) { d.Available = 0 })
		}, v1.MigrationCopying},
		{"an old pod is still there", func(in *migrationInput) {
			in.Stored, in.Deployment = at(v1.MigrationCopying), deployed(func(d *Deployment) { d.Total = 2 })
		}, v1.MigrationCopying},
		{"old pod failed its deadline before", func(in *migrationInput) {
			d := *old
			d.Exceeded = true
			in.Stored, in.Deployment = at(v1.MigrationCopying), &d
		}, v1.MigrationCopying},
		{"verifies", func(in *migrationInput) {
			in.Stored, in.Deployment = at(v1.MigrationCopying), deployed(func(*Deployment) {})
		}, v1.MigrationVerifying},
		{"not ready any more", func(in *migrationInput) {
			in.Stored, in.Deployment = at(v1.MigrationVerifying), deployed(func(d *Deployment) { d.Available = 0 })
		}, v1.MigrationVerifying},
		{"done", func(in *migrationInput) {
			in.Stored, in.Deployment = at(v1.MigrationVerifying), deployed(func(*Deployment) {})
		}, v1.MigrationDone},
		{"stays done", func(in *migrationInput) { in.Stored, in.Running = at(v1.MigrationDone), v1.StorageDatabase }, v1.MigrationDone},
		{"fails while copying", func(in *migrationInput) { in.Stored, in.Deployment = at(v1.MigrationCopying), exceeded }, v1.MigrationFailed},
		{"never goes back once it has served", func(in *migrationInput) { in.Stored, in.Deployment = at(v1.MigrationVerifying), exceeded }, v1.MigrationVerifying},
		{"stays failed", func(in *migrationInput) { in.Stored = at(v1.MigrationFailed) }, v1.MigrationFailed},
		{"again by the annotation", func(in *migrationInput) { in.Stored, in.Request = at(v1.MigrationFailed), "2" }, v1.MigrationPending},
		{"again by the spec", func(in *migrationInput) { in.Stored, in.Generation = at(v1.MigrationFailed), 3 }, v1.MigrationPending},
		{"reverted after failing", func(in *migrationInput) { in.Stored, in.Want = at(v1.MigrationFailed), v1.StoragePVC }, ""},
		{"reverted while copying", func(in *migrationInput) { in.Stored, in.Want = at(v1.MigrationCopying), v1.StoragePVC }, ""},
		{"reverted once it has served", func(in *migrationInput) {
			in.Stored, in.Want, in.Deployment = at(v1.MigrationVerifying), v1.StoragePVC, exceeded
		}, v1.MigrationVerifying},
		{"reverted, and seen ready once more", func(in *migrationInput) {
			in.Stored, in.Want, in.Deployment = at(v1.MigrationVerifying), v1.StoragePVC, deployed(func(*Deployment) {})
		}, v1.MigrationDone},
		{"never the other way", func(in *migrationInput) { in.Want, in.Running = v1.StoragePVC, v1.StorageDatabase }, v1.MigrationFailed},
		{"no migration", func(in *migrationInput) { in.Running = v1.StorageDatabase }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := migrationInput{Want: v1.StorageDatabase, Running: v1.StoragePVC, Source: true, Credentials: true, Replicas: 1, Generation: 2}
			tc.change(&in)
			got := next(in)
			if got == nil && tc.want != "" || got != nil && got.Phase != tc.want {
				t.Fatalf("got %+v, want %q", got, tc.want)
			}
			// A crash repeats the step: what is stored has not changed.
			if again := next(in); !sameMigration(got, again) {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

// settle makes the Deployment of the plan one whose pods are as a rollout leaves them.
func settle(t *testing.T, c *cluster, p plan.Plan, status map[string]any) {
	t.Helper()
	c.Written(p, testOwner)
	u := c.Children[plan.KeyOf(mustFind(t, p, "Deployment", "tas"))]
	u.SetGeneration(1)
	status["observedGeneration"] = int64(1)
	u.Object["status"] = status
}

// Test_MigrationCrashes walks through a migration, and repeats every reconcile as one that died before it wrote the
// status, and as one that died after the status and before the objects.
func Test_MigrationCrashes(t *testing.T) {
	done := func() map[string]any {
		return map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1), "readyReplicas": int64(1)}
	}
	s := testSystem()
	c, cr := newCluster(), custom(t, databaseSpec+"  exposure: Plain\n")
	cr.Spec.Storage.Format = v1.StoragePVC
	reconcile := func() (Facts, plan.Plan) {
		facts, p := gatherAndRender(t, c, cr)
		// Whatever the objects say, a service whose next step is still to come is not Ready.
		if verdict := s.Project(cr, facts, controller.ObservedState{Plan: p, Now: testNow, Ready: true}); verdict.Hold == p.WakeAt.IsZero() {
			t.Errorf("held back %v, woken at %s", verdict.Hold, p.WakeAt)
		}
		return facts, p
	}
	_, p := reconcile()
	settle(t, c, p, done())
	cr.Spec.Storage.Format, cr.Generation = v1.StorageDatabase, 2
	c.Put(credentials("p"))
	for _, want := range []struct {
		stored   v1.MigrationPhase
		rendered Template
	}{
		{v1.MigrationPending, TemplatePVC},
		{v1.MigrationCopying, TemplatePVC},
		// The step is stored; only now is the template written, and the old Deployment does not count.
		{v1.MigrationCopying, TemplateMigration},
		{v1.MigrationVerifying, TemplateMigration},
		{v1.MigrationDone, TemplateMigration},
		{v1.MigrationDone, TemplateDatabase},
		{v1.MigrationDone, TemplateDatabase},
	} {
		before := cr.DeepCopy()
		_, first := reconcile()
		if got := mustFind(t, first, "Deployment", "tas").GetAnnotations()[templateAnnotation]; got != string(want.rendered) {
			t.Fatalf("%s: rendered %s, want %s", want.stored, got, want.rendered)
		}
		if cr.Status.Migration.Phase != want.stored {
			t.Fatalf("stored %+v, want %s", cr.Status.Migration, want.stored)
		}
		if before.Status.Migration == nil || before.Status.Migration.Phase != want.stored {
			if first.WakeAt.IsZero() {
				t.Errorf("%s: nothing wakes the next step", want.stored)
			}
		} else if !first.WakeAt.IsZero() {
			t.Errorf("%s: polls", want.stored)
		}
		// The objects were written, and the status was not.
		after := cr
		settle(t, c, first, done())
		cr = before.DeepCopy()
		_, again := reconcile()
		if got := mustFind(t, again, "Deployment", "tas").GetAnnotations()[templateAnnotation]; got != string(want.rendered) {
			t.Fatalf("%s: after a crash rendered %s, want %s", want.stored, got, want.rendered)
		}
		cr = after
	}
	if cr.Status.StorageFormat != v1.StorageDatabase {
		t.Errorf("the status says %s", cr.Status.StorageFormat)
	}
	_, p = reconcile()
	if find(p, "PersistentVolumeClaim", "tas-pvc") == nil {
		t.Error("the claim with the copied data is gone from the plan")
	}
}

func Test_FailedMigrationGoesBackToTheVolume(t *testing.T) {
	s := testSystem()
	c, cr := newCluster(), custom(t, databaseSpec+"  exposure: Plain\n")
	c.Put(credentials("p"))
	cr.Spec.Storage.Format = v1.StoragePVC
	_, old := gatherAndRender(t, c, cr)
	oldTemplate, _, _ := unstructured.NestedMap(mustFind(t, old, "Deployment", "tas").Object, "spec", "template")
	cr.Spec.Storage.Format = v1.StorageDatabase
	cr.Status.StorageFormat = v1.StoragePVC
	cr.Status.Migration = &v1.MigrationStatus{Phase: v1.MigrationCopying, From: v1.StoragePVC, To: v1.StorageDatabase, Generation: 1}
	facts, p := gatherAndRender(t, c, cr)
	if strategy, _, _ := unstructured.NestedString(mustFind(t, p, "Deployment", "tas").Object, "spec", "strategy", "type"); strategy != "Recreate" {
		t.Errorf("the copying pod starts while the old one writes: %v", strategy)
	}
	s.Project(cr, facts, controller.ObservedState{Plan: s.Render(cr, facts), Now: testNow})
	settle(t, c, p, map[string]any{
		"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(0),
		"conditions": []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}},
	})
	facts, p = gatherAndRender(t, c, cr)
	if facts.Next.Phase != v1.MigrationFailed || p.WakeAt.IsZero() {
		t.Fatalf("%+v", facts.Next)
	}
	s.Project(cr, facts, controller.ObservedState{Plan: s.Render(cr, facts), Now: testNow})
	_, p = gatherAndRender(t, c, cr)
	again, _, _ := unstructured.NestedMap(mustFind(t, p, "Deployment", "tas").Object, "spec", "template")
	if compactJSON(t, again) != compactJSON(t, oldTemplate) {
		t.Error("the old template is not rendered as it was, so that its pod is replaced")
	}
	if reasons(p) != "Terminal MigrationFailed" {
		t.Error(p.Problems)
	}
}

// Test_AMigrationTellsHowLongItInterrupts follows the record of the interruption from the first step to each end.
func Test_AMigrationTellsHowLongItInterrupts(t *testing.T) {
	migrating := &Deployment{Template: TemplateMigration, Rollout: workload.Rollout{Observed: true, Desired: 1, Total: 1, Updated: 1, Available: 1}}
	back := *migrating
	back.Template = TemplatePVC
	exceeded := *migrating
	exceeded.Available, exceeded.Exceeded = 0, true
	in := migrationInput{Want: v1.StorageDatabase, Running: v1.StoragePVC, Source: true, Credentials: true, Replicas: 1, Generation: 2, Now: testNow}
	step := func(d *Deployment, after time.Duration) *v1.MigrationStatus {
		in.Deployment, in.Now = d, in.Now.Add(after)
		in.Stored = next(in)
		return in.Stored
	}
	step(nil, 0)
	began := in.Now.Add(time.Second)
	if m := step(nil, time.Second); !m.InterruptedAt.Time.Equal(began) || m.ResumedAt != nil {
		t.Fatalf("the copy begins with %+v", m)
	}
	failing := in
	step(migrating, 42*time.Second)
	if m := step(migrating, time.Minute); m.Phase != v1.MigrationDone || m.ResumedAt.Sub(began) != 42*time.Second || !strings.Contains(m.Message, "interrupted for 42s") {
		t.Errorf("done: %+v", m)
	}
	in = failing
	step(&exceeded, time.Minute)
	if m := step(&exceeded, time.Minute); m.Phase != v1.MigrationFailed || !m.InterruptedAt.Time.Equal(began) || m.ResumedAt != nil {
		t.Errorf("failed: %+v", m)
	}
	for range 2 {
		if m := step(&back, 3*time.Minute); m.ResumedAt.Sub(began) != 5*time.Minute || strings.Count(m.Message, "interrupted for 5m0s") != 1 {
			t.Errorf("back on the volume: %+v", m)
		}
	}
}

// Test_ALongRequestIsRecordedInPart: the schema bounds what the status has of the annotation, and a status that is refused ends the migration.
func Test_ALongRequestIsRecordedInPart(t *testing.T) {
	cr := custom(t, databaseSpec)
	cr.Annotations = map[string]string{MigrationAnnotation: strings.Repeat("x", 300)}
	in := inputOf(cr, Facts{Running: v1.StoragePVC})
	in.Stored = next(in)
	if n := len(in.Stored.Request); n != 256 || in.retried() {
		t.Errorf("%d characters are recorded; it is another request: %t", n, in.retried())
	}
}

func Test_DatabaseNeverBecomesFiles(t *testing.T) {
	c, cr := newCluster(), custom(t, databaseSpec)
	c.Put(credentials("p"))
	cr.Status.StorageFormat, cr.Spec.Storage.Format = v1.StorageDatabase, v1.StoragePVC
	facts, p := gatherAndRender(t, c, cr)
	if facts.Next.Phase != v1.MigrationFailed || reasons(p) != "Terminal MigrationFailed" {
		t.Fatal(facts.Next, p.Problems)
	}
	if got := mustFind(t, p, "Deployment", "tas").GetAnnotations()[templateAnnotation]; got != "DATABASE" {
		t.Errorf("the pods are replaced by %s", got)
	}
}

// Test_ARevertedMigrationKeepsTheRowsThatItServed: what arrived since the pod that copied was ready is in the database alone.
func Test_ARevertedMigrationKeepsTheRowsThatItServed(t *testing.T) {
	c, cr := newCluster(), custom(t, databaseSpec+"  exposure: Plain\n")
	c.Put(credentials("p"))
	cr.Status.StorageFormat, cr.Spec.Storage.Format = v1.StoragePVC, v1.StoragePVC
	cr.Status.Migration = &v1.MigrationStatus{Phase: v1.MigrationVerifying, From: v1.StoragePVC, To: v1.StorageDatabase, Generation: 1}
	_, before := gatherAndRender(t, c, cr)
	settle(t, c, before, map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(0), "readyReplicas": int64(0)})
	for _, want := range []struct {
		phase    v1.MigrationPhase
		template Template
	}{
		{v1.MigrationVerifying, TemplateMigration},
		{v1.MigrationDone, TemplateMigration},
		{v1.MigrationFailed, TemplateDatabase},
		{v1.MigrationFailed, TemplateDatabase},
	} {
		facts, p := gatherAndRender(t, c, cr)
		testSystem().Project(cr, facts, controller.ObservedState{Plan: p, Now: testNow})
		if got := mustFind(t, p, "Deployment", "tas").GetAnnotations()[templateAnnotation]; got != string(want.template) || cr.Status.Migration.Phase != want.phase {
			t.Errorf("the template is %s, the migration %+v, want %+v", got, cr.Status.Migration, want)
		}
		if want.phase != v1.MigrationDone && reasons(p) != "Terminal MigrationFailed" {
			t.Errorf("%s: the problems are %v", want.phase, p.Problems)
		}
		settle(t, c, p, map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1), "readyReplicas": int64(1)})
	}
	if cr.Status.StorageFormat != v1.StorageDatabase {
		t.Errorf("the status says %s", cr.Status.StorageFormat)
	}
}

func Test_FirstCreation(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		annotation, hasClaim bool
		want                 v1.StorageFormat
	}{
		{"plain", false, false, v1.StorageDatabase},
		{"claim without annotation", false, true, v1.StorageDatabase},
		{"annotation without claim", true, false, v1.StorageDatabase},
		{"both", true, true, v1.StoragePVC},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, cr := newCluster(), custom(t, databaseSpec)
			c.Put(credentials("p"))
			if tc.annotation {
				cr.Annotations = map[string]string{MigrationAnnotation: "true"}
			}
			if tc.hasClaim {
				c.Put(parse(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: tas-pvc, namespace: ns}, spec: {resources: {requests: {storage: 1Gi}}}}"))
			}
			facts, _ := gatherAndRender(t, c, cr)
			if facts.Running != tc.want || (facts.Next != nil) != (tc.want == v1.StoragePVC) {
				t.Errorf("running %s, migration %+v", facts.Running, facts.Next)
			}
		})
	}
}
