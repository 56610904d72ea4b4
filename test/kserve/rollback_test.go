package kserve

import (
	"errors"
	"testing"

	"mlkeeper.dev/test/acmruntime"
)

// TestRollbackOfAMigration: a migration replaces one element by another and fails. The rollback restores the one, removes the other, and is
// of the composition before.
func TestRollbackOfAMigration(t *testing.T) {
	for _, release := range []acmruntime.Release{acmruntime.V910, acmruntime.Master} {
		t.Run(string(release), func(t *testing.T) {
			s := onKafka(t, release)
			s.start()
			c, to := s.primed(map[string]any{}, map[string]any{}), s.primed(map[string]any{}, map[string]any{})
			i := s.deployed(c, s.model("kept", sklearn(1)), s.model("removed", sklearn(1)))
			kept := i.Elements[0]
			s.must(s.runtime.Migrate(within(t), i, to, map[string]any{"payload": "{"}, nil, s.model("added", sklearn(1))))
			s.must(s.runtime.Await(within(t), "the migration has failed", func() bool { return i.Result == "FAILED" }))
			s.c.Eventually(t, patience, func() error {
				return errors.Join(s.c.There(t, services, s.ns, "added"), s.c.Gone(t, services, s.ns, "removed"))
			})
			// A late acknowledgement of the migration would count as one of the rollback.
			removed, added := i.Elements[1], i.Elements[2]
			s.must(s.runtime.Await(within(t), "what the migration did is acknowledged", func() bool {
				return removed.DeployState == "DELETED" && added.DeployState == "DEPLOYED"
			}))

			s.must(s.runtime.Rollback(within(t), i))
			s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
			for name, want := range map[string]int64{"kept": 1, "removed": 1, "added": -1} {
				if err := wantReplicas(s.service(name), want); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if e := s.element(kept.ID); e == nil || e.Spec.Content.CompositionID != c.ID {
				t.Errorf("after the rollback the element is %+v", e)
			}
			if len(i.Elements) != 2 {
				t.Errorf("the runtime has the elements %v", i.Elements)
			}
		})
	}
}
