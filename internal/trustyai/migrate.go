package trustyai

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// MigrationAnnotation asks for a migration, or for another attempt at one that failed, by another value
// (trustyai-service-operator HEAD 11c335b).
const MigrationAnnotation = "trustyai.opendatahub.io/db-migration"

// maxRequest is the bound of the schema on what the status has of the annotation: the API server refuses the whole status otherwise.
const maxRequest = 256

// Template is the pod template that the Deployment runs.
type Template string

// The templates. A migrating pod has both the volume and the database, and copies the first into the second.
const (
	TemplatePVC       Template = "PVC"
	TemplateMigration Template = "MIGRATION"
	TemplateDatabase  Template = "DATABASE"
)

func usesVolume(t Template) bool   { return t == TemplatePVC || t == TemplateMigration }
func usesDatabase(t Template) bool { return t == TemplateDatabase || t == TemplateMigration }

// templateFor is the template of a service that runs with a format.
func templateFor(f v1.StorageFormat) Template {
	if f == v1.StorageDatabase {
		return TemplateDatabase
	}
	return TemplatePVC
}

// templateOf is the template to render: what the stored phase says, or the format that runs. Only what is stored
// counts, never the step that this reconcile announces: the status is written ahead, so that an operator that dies
// anywhere goes on where it was.
func templateOf(want v1.StorageFormat, facts Facts) Template {
	m := facts.Migration
	if m == nil || m.To != want && m.Phase != v1.MigrationVerifying {
		return templateFor(facts.Running)
	}
	switch m.Phase {
	case v1.MigrationCopying, v1.MigrationVerifying:
		return TemplateMigration
	case v1.MigrationDone:
		return templateFor(m.To)
	default:
		return templateFor(m.From)
	}
}

// migrationInput is everything that the next step of a migration follows from.
type migrationInput struct {
	// Want is the format of the spec, Running that of the pods that run.
	Want, Running v1.StorageFormat
	// Stored is the migration of the status; nil when there is none.
	Stored *v1.MigrationStatus
	// Request is the value of the annotation, Generation that of the spec.
	Request    string
	Generation int64
	// Source says that folder, filename and the claim of the data are known.
	Source bool
	// Credentials says that the Secret of the database is complete.
	Credentials bool
	// Replicas is what the spec asks for.
	Replicas int32
	// Deployment is what was observed before this reconcile's writes.
	Deployment *Deployment
	// Now is when, for the record of how long nothing serves.
	Now time.Time
}

// next is the migration to store: at most one step further than the one stored. It is pure, and the same input gives
// the same step, so that a crash repeats a step and never skips one. No row is lost: the pod that writes to the volume is
// gone before the one that copies starts, and once the latter has served from the database nothing goes back.
func next(in migrationInput) *v1.MigrationStatus {
	stored := in.Stored
	switch {
	case stored != nil && stored.Phase == v1.MigrationVerifying:
		// Also where the spec says PVC again by now.
		return in.verifying()
	case in.Want == in.Running && stored != nil && stored.Phase == v1.MigrationDone && stored.To == in.Want:
		return stored
	case in.Want == in.Running:
		return nil
	case in.Running == v1.StorageDatabase:
		return in.step(v1.MigrationFailed, "the service cannot export its database into files; the pods that run keep using "+
			"the database. Set spec.storage.format back to DATABASE, or create another TrustyAIService with format PVC")
	}
	if stored == nil || stored.To != in.Want || stored.Phase == v1.MigrationFailed && in.retried() {
		return in.pending()
	}
	switch stored.Phase {
	case v1.MigrationPending:
		if !in.Source || !in.Credentials || in.Replicas == 0 {
			return in.pending()
		}
		out := in.step(v1.MigrationCopying, "the pod that writes to the volume stops, then one with both the volume and the database copies the data; "+
			"the service is interrupted until that one is ready")
		out.InterruptedAt = in.now()
		return out
	case v1.MigrationCopying:
		return in.copying()
	case v1.MigrationFailed:
		return in.failedBefore()
	default:
		return stored
	}
}

// now is when in the precision that is stored, so that what is read back is what was written.
func (in migrationInput) now() *metav1.Time {
	return pointer(metav1.NewTime(in.Now.Truncate(time.Second)))
}

// step is the stored attempt in another phase, or a first one.
func (in migrationInput) step(phase v1.MigrationPhase, message string) *v1.MigrationStatus {
	return &v1.MigrationStatus{Phase: phase, From: in.Running, To: in.Want, Request: in.Request, Generation: in.Generation, Message: message}
}

// on is the stored attempt in another phase: it goes on answering the request that it began with.
func (in migrationInput) on(phase v1.MigrationPhase, message string) *v1.MigrationStatus {
	out := in.step(phase, message)
	out.From, out.To, out.Request, out.Generation = in.Stored.From, in.Stored.To, in.Stored.Request, in.Stored.Generation
	out.InterruptedAt, out.ResumedAt = in.Stored.InterruptedAt, in.Stored.ResumedAt
	return out
}

// resumed is the stored attempt in another phase, with a pod that serves again.
func (in migrationInput) resumed(phase v1.MigrationPhase, message string) *v1.MigrationStatus {
	out := in.on(phase, message)
	if out.InterruptedAt != nil && out.ResumedAt == nil {
		out.ResumedAt = in.now()
		out.Message += "; the service was interrupted for " + out.ResumedAt.Sub(out.InterruptedAt.Time).String()
	}
	return out
}

// retried says that the user asked for another attempt, by the annotation or by a change of the spec.
func (in migrationInput) retried() bool {
	return in.Stored.Request != in.Request || in.Stored.Generation != in.Generation
}

func (in migrationInput) pending() *v1.MigrationStatus {
	message := "the copy starts now"
	switch {
	case !in.Source:
		message = "spec.storage.folder and spec.data.filename must say where the data is, and an image of the generation Python copies files named *.hdf5 alone"
	case !in.Credentials:
		message = "waits for the Secret with the credentials of the database"
	case in.Replicas == 0:
		message = "waits for spec.replicas to be at least 1, since a pod copies the data"
	}
	return in.step(v1.MigrationPending, message)
}

// migrating says that the Deployment was written with the migrating template and that its counts speak of it.
func (in migrationInput) migrating() bool {
	return in.Deployment != nil && in.Deployment.Template == TemplateMigration && in.Deployment.Observed
}

func (in migrationInput) copying() *v1.MigrationStatus {
	d := in.Deployment
	switch {
	case !in.migrating():
		return in.on(v1.MigrationCopying, in.Stored.Message)
	case d.Exceeded:
		return in.failed()
	case d.Complete():
		return in.resumed(v1.MigrationVerifying, "the data is copied, and the pod that copied it serves from the database")
	default:
		return in.on(v1.MigrationCopying, in.Stored.Message)
	}
}

// verifying ends when the pod that copied is seen ready once more. There is no way back from here: what arrived since it
// was first ready is in the database alone.
func (in migrationInput) verifying() *v1.MigrationStatus {
	if in.migrating() && in.Deployment != nil && in.Deployment.Complete() {
		return in.on(v1.MigrationDone, in.Stored.Message+"; the volume is no longer mounted")
	}
	return in.on(v1.MigrationVerifying, in.Stored.Message)
}

func (in migrationInput) failed() *v1.MigrationStatus {
	// What the spec and the annotation say now is what failed: only a later change asks for another attempt.
	out := in.step(v1.MigrationFailed, "no copying pod became ready within the deadline of the Deployment; the service goes back to the volume. "+
		"See the logs of the pod, mend the database or the Secret, then set the annotation "+MigrationAnnotation+
		" to another value, or set spec.storage.format back to PVC")
	out.InterruptedAt = in.Stored.InterruptedAt
	return out
}

// failedBefore is an attempt that failed, once the pod on the volume serves again.
func (in migrationInput) failedBefore() *v1.MigrationStatus {
	d := in.Deployment
	if in.Stored.InterruptedAt == nil || in.Stored.ResumedAt != nil || d == nil || d.Template != TemplatePVC || !d.Complete() {
		return in.Stored
	}
	return in.resumed(v1.MigrationFailed, in.Stored.Message)
}

// sameMigration compares two migrations.
func sameMigration(a, b *v1.MigrationStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}

// inputOf gathers what the next step follows from.
func inputOf(cr *v1.TrustyAIService, facts Facts) migrationInput {
	replicas := int32(1)
	if cr.Spec.Replicas != nil {
		replicas = *cr.Spec.Replicas
	}
	return migrationInput{
		Want: cr.Spec.Storage.Format, Running: facts.Running, Stored: facts.Migration,
		Request: controller.Cut(cr.Annotations[MigrationAnnotation], maxRequest), Generation: cr.Generation,
		Source:      cr.Spec.Storage.Folder != "" && cr.Spec.Data != nil && copies(facts.Generation, cr.Spec.Data.Filename),
		Credentials: facts.Database.usable(), Replicas: replicas, Deployment: facts.Deployment, Now: facts.Now,
	}
}

// copies says that an image copies files of this name. trustyai-service looks for *.hdf5 (maria/pvc_migration.py, 4aa44d6).
func copies(g v1.ImageGeneration, filename string) bool {
	return filename != "" && (g != v1.GenerationPython || strings.HasSuffix(filename, ".hdf5"))
}

// checkMigration names why a migration does not go on.
func (r *scene) checkMigration() {
	m := r.facts.Next
	if m == nil {
		return
	}
	const field = "spec.storage.format"
	switch {
	case m.Phase == v1.MigrationFailed && m.From == v1.StorageDatabase, m.Phase == v1.MigrationVerifying && m.To != r.cr.Spec.Storage.Format:
		r.problem(plan.Terminal, "MigrationFailed", field, string(r.cr.Spec.Storage.Format), "the service cannot export its database into files",
			"set spec.storage.format back to DATABASE, or create another TrustyAIService with format PVC")
	case m.Phase == v1.MigrationFailed:
		r.problem(plan.Terminal, "MigrationFailed", field, string(m.To), "the migration failed, and the service is back on the volume",
			fmt.Sprintf("mend the database or its Secret, then set the annotation %s to another value, or set spec.storage.format back to PVC", MigrationAnnotation))
	case m.Phase == v1.MigrationPending && !inputOf(r.cr, r.facts).Source:
		r.problem(plan.Terminal, "MigrationSourceUnknown", field, string(m.To), "the data cannot be copied without knowing where it is, and an image of the generation Python copies files named *.hdf5 alone",
			"set spec.storage.folder and spec.data.filename as they were, or rename the files")
	case m.Phase == v1.MigrationPending && inputOf(r.cr, r.facts).Replicas == 0:
		r.problem(plan.Terminal, "MigrationNeedsPod", "spec.replicas", "0", "a pod has to copy the data", "set spec.replicas to 1 or more")
	}
}
