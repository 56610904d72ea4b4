package seldon

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/objectmeta"
	"mlkeeper.dev/internal/rendering"
)

// reasonRolledBack says that what is declared has failed, and the last revision that was ready runs; stable across releases.
const reasonRolledBack = "RolledBack"

const (
	// maxKept bounds the manifests of a revision that are kept for a rollback, compressed: five components fit into one Secret.
	maxKept = 160 << 10
	// maxUnpacked bounds what they unpack to, in bytes, as a text and again in memory once that is decoded: who may write the Secret with the
	// credentials of charts can make a digest that fits.
	maxUnpacked = 32 << 20
	// defaultTimeout is how long an upgrade that is rolled back may take to be ready; that of Helm.
	defaultTimeout = 5 * time.Minute
)

// Rollback is what a part has for going back to a revision that was ready.
type Rollback struct {
	// Kept are the manifests of the last revision that was ready, as the Secret is to hold them; nil where there are none.
	Kept []byte
	// Digest tells them apart, and Revision is theirs.
	Digest   string
	Revision int32
	// TooLarge says that they cannot be kept.
	TooLarge bool
	// Unusable is why nothing goes back although what is declared has failed: those that are kept cannot be applied. Nil where they can.
	Unusable error
	// Failed is the revision that was rolled back from; nil where what is declared runs. Hooks are its hooks as far as they are known, with
	// nothing but what names them: they stay, with their logs.
	Failed *v1alpha1.ComponentRevision
	Hooks  []*unstructured.Unstructured
	// Refused is why what is declared now cannot be fetched or rendered; nil where it can, or is yet to be.
	Refused *plan.Problem
	// Deadline is when the revision that is being applied has failed, and CountAt when the time that it has had is counted next; zero where
	// none is.
	Deadline, CountAt time.Time
	// Resumed says that the SeldonOperator was suspended until now.
	Resumed bool
}

// manifests are a revision as it is kept.
type manifests struct {
	Revision                             int32
	Chart, Version, Digest, ValuesDigest string
	Definitions, Objects, Hooks          []map[string]any
}

// revisionsName is the Secret that keeps the manifests of the last revision of each component that was ready.
func revisionsName(cr *v1alpha1.SeldonOperator) string { return cr.Name + "-revisions" }

// rollsBack says that an upgrade of a component is rolled back when it fails.
func (c component) rollsBack() bool { return c.spec.Upgrade.OnFailure == v1alpha1.FailureRollback }

// timeout is how long an upgrade of a component may take.
func (c component) timeout() time.Duration {
	if s := c.spec.Upgrade.TimeoutSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return defaultTimeout
}

// patience is how long hooks that come after the objects wait until these are ready. What becomes ready by such a hook needs time for that
// before the upgrade has failed.
func (c component) patience() time.Duration {
	if c.rollsBack() {
		return min(plan.DefaultGateTimeout, c.timeout()/2)
	}
	return plan.DefaultGateTimeout
}

// gatherRevisions reads the revisions that are kept, and goes back to them where what is declared has failed.
func (s *system) gatherRevisions(ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, facts *Facts) error {
	facts.KeepsRevisions = slices.ContainsFunc(s.componentsOf(cr), component.rollsBack)
	if !facts.KeepsRevisions {
		return nil
	}
	name := revisionsName(cr)
	found, err := read.Referenced(ctx, gvkSecret, cr.Namespace, name)
	if err != nil {
		return err
	}
	if found == nil && read.Child(gvkSecret, cr.Namespace, name) != nil {
		return notYetRead(name)
	}
	var data map[string][]byte
	if found != nil && stackOf(cr).Marked(found) {
		data = controller.SecretData(found)
	}
	facts.RevisionsAbsent = found == nil
	for i := range facts.Parts {
		if part := &facts.Parts[i]; part.rollsBack() {
			s.rollBack(cr, part, data[part.name], facts.Keys, read.Now())
		}
	}
	return nil
}

// rollBack decides whether a component goes back, and what is kept of it.
func (s *system) rollBack(cr *v1alpha1.SeldonOperator, part *Part, stored []byte, k *keys, now time.Time) {
	recorded, of := recordedOf(cr, part.name), subject(cr, part.component)
	b := &part.Rollback
	b.Resumed = meta.IsStatusConditionTrue(cr.Status.Conditions, status.ConditionSuspended)
	if kept := s.authentic(of, stored, recorded.KeptDigest, k); kept != nil {
		b.Kept, b.Digest, b.Revision = kept, recorded.KeptDigest, recorded.KeptRevision
	}
	var last v1alpha1.ComponentRevision
	if len(recorded.History) > 0 {
		last = recorded.History[0]
	}
	same := part.Result.Rendered() && last.Revision == part.Result.Content.Number && last.Digest == part.Result.Sources[0].Digest &&
		last.ValuesDigest == part.Result.Content.ValuesDigest
	if same && last.Outcome == v1alpha1.RevisionDeployed {
		// Also while what is declared since is being rendered.
		s.keep(of, part, k)
	}
	if part.spec.Suspend || part.Pending || part.Older || part.Problem != nil || !part.Result.Rendered() {
		// What is declared is not known, or not to be applied. What was rolled back stays so meanwhile, also after a restart.
		if last.RollbackTo != 0 {
			s.goBack(of, part, recorded, newestFailed(recorded.History))
		}
	} else if failed := failedAttempt(
		recorded.History, part.Result.Sources[0].Digest, part.Result.Content.ValuesDigest, reconcileAt(cr),
	); failed != nil {
		s.goBack(of, part, recorded, failed)
	} else if same && last.Outcome == v1alpha1.RevisionPending {
		part.await(last, now)
	}
	if b.Failed == nil {
		s.results.Restore(of, nil)
	}
}

// authentic are the manifests whose digest is the one in the status: those that this process has put into the Secret or found there, whatever
// others have made of it, or else those that it holds. Whoever may write Secrets in the namespace could else have anything applied.
func (s *system) authentic(of rendering.Subject, stored []byte, digest string, k *keys) []byte {
	known, _ := s.packed.Load(of)
	p, _ := known.(packed)
	switch {
	case digest == "":
		return nil
	case digest == p.digest:
		return p.kept
	case len(stored) > 0 && digest == k.digestKept(stored):
		s.packed.Store(of, packed{kept: stored, digest: digest})
		return stored
	}
	return nil
}

// reconcileAt is the last request to reconcile now, as the history has it.
func reconcileAt(cr *v1alpha1.SeldonOperator) string {
	return controller.Cut(cr.Annotations[keeper.ReconcileAtAnnotation], maxReconcileAt)
}

// failedAttempt is the last attempt to deploy what is declared, if it failed, and neither another one was ready since nor has anybody asked
// for another attempt.
func failedAttempt(history []v1alpha1.ComponentRevision, digest, valuesDigest, reconcileAt string) *v1alpha1.ComponentRevision {
	for i, r := range history {
		switch {
		case r.RollbackTo != 0:
			// It is no attempt, whatever became of it.
		case r.Digest == digest && r.ValuesDigest == valuesDigest:
			// Who takes the request back asks for nothing.
			if r.Outcome == v1alpha1.RevisionFailed && (reconcileAt == "" || r.ReconcileAt == reconcileAt) {
				return &history[i]
			}
			return nil
		case r.Outcome == v1alpha1.RevisionDeployed, r.Outcome == v1alpha1.RevisionSuperseded:
			return nil
		}
	}
	return nil
}

// newestFailed is the last attempt that failed.
func newestFailed(history []v1alpha1.ComponentRevision) *v1alpha1.ComponentRevision {
	i := slices.IndexFunc(history, func(r v1alpha1.ComponentRevision) bool {
		return r.Outcome == v1alpha1.RevisionFailed && r.RollbackTo == 0
	})
	if i < 0 {
		return nil
	}
	return &history[i]
}

// goBack puts the revision that is kept in place of what is declared.
func (s *system) goBack(of rendering.Subject, part *Part, recorded v1alpha1.ComponentStatus, failed *v1alpha1.ComponentRevision) {
	b := &part.Rollback
	if failed == nil || b.Kept == nil {
		return
	}
	result, err := s.unpacked(of, part, recorded)
	if err != nil {
		b.Unusable = err
		return
	}
	if part.Result != nil {
		b.Refused = part.Result.Failure
		b.Hooks = namesOf(slices.Concat(part.Result.Content.Before, part.Result.Content.After))
	}
	part.Result, b.Failed = result, failed.DeepCopy()
}

// keep has the manifests of a revision that is ready kept.
func (s *system) keep(of rendering.Subject, part *Part, k *keys) {
	b := &part.Rollback
	if known, found := s.packed.Load(of); found {
		if p, _ := known.(packed); p.result == weak.Make(part.Result) {
			b.Kept, b.Digest, b.Revision, b.TooLarge = p.kept, p.digest, part.Result.Content.Number, p.kept == nil
			return
		}
	}
	c := part.Result.Content
	raw, err := pack(manifests{
		Revision: c.Number, Chart: c.Chart, Version: c.Version, Digest: part.Result.Sources[0].Digest, ValuesDigest: c.ValuesDigest,
		Definitions: plain(c.Definitions), Objects: plain(c.Objects), Hooks: plain(slices.Concat(c.Before, c.After, c.Left)),
	})
	if err != nil || len(raw) > maxKept {
		raw = nil
	}
	p := packed{result: weak.Make(part.Result), kept: raw}
	if raw != nil {
		p.digest = k.digestKept(raw)
	}
	s.packed.Store(of, p)
	b.Kept, b.Digest, b.Revision, b.TooLarge = raw, p.digest, c.Number, raw == nil
}

// packed is a result as it is kept. It does not hold the result in memory, which may be needed for another.
type packed struct {
	result weak.Pointer[Result]
	kept   []byte
	digest string
}

func plain(objects []*unstructured.Unstructured) []map[string]any {
	out := make([]map[string]any, 0, len(objects))
	for _, u := range objects {
		out = append(out, u.Object)
	}
	return out
}

func typed(objects []map[string]any) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		out = append(out, &unstructured.Unstructured{Object: o})
	}
	return out
}

// errTooLarge says that manifests take more memory than those that are kept may.
var errTooLarge = errors.New("they take too much memory")

// pack refuses what unpack would.
func pack(m manifests) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if bounded.JSONInMemory(text) > maxUnpacked {
		return nil, errTooLarge
	}
	return zipped(text)
}

func zipped(text []byte) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = zip.Write(text)
	if err := errors.Join(err, zip.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unpack(raw []byte) (manifests, error) {
	var out manifests
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	text, err := io.ReadAll(io.LimitReader(zip, maxUnpacked))
	if err != nil {
		return out, err
	}
	if bounded.JSONInMemory(text) > maxUnpacked {
		return out, errTooLarge
	}
	return out, kjson.Unmarshal(text, &out)
}

// check refuses what cannot be marked as MLKeeper's own (plan.Stamp). What is rendered is refused for it before, but earlier builds have kept it.
func (m manifests) check() error {
	for _, u := range typed(slices.Concat(m.Definitions, m.Objects)) {
		if err := objectmeta.Check(u.Object); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// unpacked is a revision that is kept, as another revision after all others. Its hooks have run: they are left as they are.
func (s *system) unpacked(of rendering.Subject, part *Part, recorded v1alpha1.ComponentStatus) (*Result, error) {
	inputs := rendering.Digest(recorded.KeptDigest, []any{
		recorded.Revision, recorded.InstalledRevision, recorded.Digest, recorded.ValuesDigest, recorded.DefinitionsVersion,
		part.spec.HealthCheckExprs,
	})
	if known := s.results.Restored(of); known != nil && known.Inputs == inputs {
		return known, nil
	}
	m, err := unpack(part.Rollback.Kept)
	if err := cmp.Or(err, m.check()); err != nil {
		return nil, err
	}
	now := next(recorded, m.Digest, m.ValuesDigest)
	now.Run = ""
	out := &Result{
		Inputs: inputs, Sources: []rendering.Revision{{Digest: m.Digest}},
		Content: Content{
			Chart: m.Chart, Version: m.Version, ValuesDigest: m.ValuesDigest, revision: now, DefinitionsVersion: recorded.DefinitionsVersion,
			Definitions: typed(m.Definitions), Objects: typed(m.Objects), Left: typed(m.Hooks), Health: rendering.HealthOf(part.spec.Observation),
		},
	}
	c := out.Content
	out.Bytes = worker.InMemory(slices.Concat(c.Definitions, c.Objects, c.Left))
	s.results.Restore(of, out)
	return out, nil
}

// digestKept tells manifests apart that are kept, and tells nobody what they are.
func (k *keys) digestKept(raw []byte) string { return rendering.Digest(string(k.data[entrySeed]), raw) }

// namesOf are objects with nothing but what names them, so that nobody holds the others in memory.
func namesOf(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, u := range objects {
		name := &unstructured.Unstructured{}
		name.SetGroupVersionKind(u.GroupVersionKind())
		name.SetNamespace(u.GetNamespace())
		name.SetName(u.GetName())
		out = append(out, name)
	}
	return out
}

// rolledBack reports that what is declared has failed. The revision before is complete: what only the one that has failed has is deleted, as
// helm rollback deletes it (pkg/action/rollback.go, Update). While what is declared is not known, or is refused, nothing is.
func (p Part) rolledBack() *plan.Problem {
	failed := p.Rollback.Failed
	return &plan.Problem{
		AllowsPruning: !p.Pending && !p.Older && p.Rollback.Refused == nil,
		Class:         plan.Terminal, Reason: reasonRolledBack, Field: "spec." + p.name, Value: failed.Chart + " " + failed.Version,
		Message: fmt.Sprintf("revision %d has failed, and revision %d is applied again: %s", failed.Revision, p.Rollback.Revision, failed.Message),
		Remedy:  "correct the values or the chart; with the annotation " + keeper.ReconcileAtAnnotation + " it is tried again as it is",
	}
}

// failure says why a component has failed as it is now; empty where it has not.
func (p Part) failure(objects []plan.Key, seen controller.ObservedState) string {
	if why := failureOf(objects, seen.Problems); why != "" {
		return why
	}
	if at := p.Rollback.Deadline; !at.IsZero() && !seen.Now.Before(at) {
		return fmt.Sprintf("it was not ready within %s", p.timeout())
	}
	return ""
}

// advanced says that the history of a component that is rolled back has gone on, so that another plan may follow.
func advanced(before *v1alpha1.SeldonOperator, facts Facts, after []v1alpha1.ComponentStatus) bool {
	latest := func(c v1alpha1.ComponentStatus) (out v1alpha1.ComponentRevision) {
		if len(c.History) > 0 {
			out = c.History[0]
		}
		return out
	}
	for i, part := range facts.Parts {
		was, is := latest(recordedOf(before, part.name)), latest(after[i])
		if part.rollsBack() && (was.Revision != is.Revision || was.Outcome != is.Outcome) {
			return true
		}
	}
	return false
}
