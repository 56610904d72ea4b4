package cli

import (
	"context"
	"fmt"
	"strings"

	"mlkeeper.dev/internal/console"
)

const (
	// maxHunks bounds the hunks of one object, and maxAllHunks those of a comparison, in bytes: a page with more of them hangs.
	maxHunks    = 64 << 10
	maxAllHunks = 1 << 20
)

// diffView is what MLKeeper would change, as the page shows it.
type diffView struct {
	DiffReport
	// Messages are those of the rendering.
	Messages []string `json:"messages"`
	// DryRun says that the API server tried the changes.
	DryRun bool `json:"dryRun"`
}

// Diff implements console.Source, with the code of `mlkeeper diff`. Dry runs are requests to write, which webhooks see and the audit log has:
// they are sent when somebody asks for them.
func (s *consoleSource) Diff(ctx context.Context, ref console.Ref, dryRun bool) (any, error) {
	// One after the other: each renders a custom resource and reads all of its objects.
	select {
	case s.comparing <- struct{}{}:
		defer func() { <-s.comparing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	one, err := s.open(ctx, ref)
	if err != nil {
		return nil, err
	}
	if s.shared && one.controller.RendersAnswers() {
		// Whoever may create one would have this process fetch from wherever it can, and render what they like.
		return nil, fmt.Errorf("%s is made of sources, which a console with --user-tokens does not fetch: run mlkeeper diff %s", one.key(), one.argument())
	}
	d := newDiffer(&somewhere{cluster: s.cluster, now: s.env.Now(), context: one.namespace})
	d.local = !dryRun
	t := one.target()
	r, objects, err := d.diff(ctx, t, []*target{t})
	if err != nil {
		return nil, unauthorized(err)
	}
	out := &diffView{
		DiffReport: DiffReport{Objects: append([]Difference{}, objects...), Warnings: append([]string{}, d.warnings...)}, DryRun: dryRun,
	}
	out.limit()
	var said strings.Builder
	for _, failed := range []error{printMessages(&said, []rendered{r}, true), d.refused()} {
		if failed != nil {
			said.WriteString(CleanLines(failed.Error()) + "\n")
		}
	}
	out.Messages = strings.FieldsFunc(said.String(), func(r rune) bool { return r == '\n' })
	return out, nil
}

// limit cuts hunks that are too long for a page.
func (v *diffView) limit() {
	left := maxAllHunks
	for i := range v.Objects {
		o := &v.Objects[i]
		if most := min(maxHunks, left); len(o.Diff) > most {
			o.Diff = strings.ToValidUTF8(o.Diff[:most], "") + "\n... cut: mlkeeper diff prints the whole\n"
		}
		left = max(0, left-len(o.Diff))
	}
}
