package seldon

import (
	"cmp"
	"slices"

	"github.com/Masterminds/semver/v3"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/rendering"
)

// revision is where a component is in its history.
type revision struct {
	// Number counts the charts and values that the component was rendered from, as Helm counts its releases. Installed is the first of
	// them that was ready, 0 where none has been: those after it are upgrades.
	Number, Installed int32
	// Run is what the hooks of the revision are run for; empty for the first, whose hooks run when they change.
	Run string
}

// upgrade says that there is an installation that the revision changes.
func (r revision) upgrade() bool { return r.Installed > 0 && r.Number > r.Installed }

// next is the revision of what a chart and values give, by what the status has recorded of the component. The same chart with the same
// values stays the same revision, so that a restart renders the same.
func next(recorded v1alpha1.ComponentStatus, digest, valuesDigest string) revision {
	out := revision{Number: recorded.Revision, Installed: recorded.InstalledRevision}
	switch {
	case recorded.ValuesDigest == "":
		return revision{Number: 1}
	case recorded.Revision == 0:
		// The manager that recorded it did not count: what it had made is an installation.
		out = revision{Number: 1, Installed: 1}
	}
	if recorded.Digest != digest || recorded.ValuesDigest != valuesDigest {
		out.Number++
	}
	if out.Number > 1 {
		out.Run = rendering.Digest(digest, valuesDigest)
	}
	return out
}

// rolledBack is the revision of a rollback that is the last one, after which what is declared is yet another: 0 where there is none.
func (r request) rolledBack() int32 {
	if h := r.recorded.History; len(h) > 0 && h[0].RollbackTo != 0 {
		return h[0].Revision
	}
	return 0
}

// definitionsVersion is the newest version of a chart that was rendered so far, with the one that is now.
func definitionsVersion(recorded v1alpha1.ComponentStatus, chart, version string) string {
	if recorded.ValuesDigest == "" || recorded.Chart != chart {
		return version
	}
	before, now := cmp.Or(recorded.DefinitionsVersion, recorded.Version), version
	newer, err := semver.NewVersion(before)
	if err != nil {
		return now
	}
	if v, err := semver.NewVersion(now); err != nil || !v.LessThan(newer) {
		return now
	}
	return before
}

// recordedOf is what the status has recorded of a component.
func recordedOf(cr *v1alpha1.SeldonOperator, component string) v1alpha1.ComponentStatus {
	i := slices.IndexFunc(cr.Status.Components, func(c v1alpha1.ComponentStatus) bool { return c.Name == component })
	if i < 0 {
		return v1alpha1.ComponentStatus{}
	}
	return cr.Status.Components[i]
}
