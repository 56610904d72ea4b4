package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// waitFlags are the flags of `mlkeeper wait`.
type waitFlags struct {
	namespace string
	goal      string
	timeout   time.Duration
	// handled waits for the last request to reconcile, too.
	handled bool
}

const (
	goalReady   = "ready"
	goalDeleted = "deleted"
)

// goals are the values of --for in lower case, kubectl wait's among them.
var goals = map[string]string{
	goalReady: goalReady, "condition=ready": goalReady, "condition=ready=true": goalReady, goalDeleted: goalDeleted, "delete": goalDeleted,
}

// NewWaitCommand returns `mlkeeper wait`.
func NewWaitCommand(env Environment) *cobra.Command {
	var f waitFlags
	cmd := &cobra.Command{
		Use:   "wait KIND/NAME",
		Short: "Wait until a custom resource is Ready, or gone, and print what it waits for",
		Long: `Wait until a custom resource is Ready, or gone together with its objects, and print each change of the objects that it
waits for. It watches and never polls.

KIND is the kind, its plural or a short name; an object that MLKeeper created stands for the custom resource that it belongs
to. The command ends early if only a change of yours can make the custom resource Ready (Stalled, or suspended). The exit
status is 0 when it is Ready, or gone, and 1 otherwise, with what is missing and what to do.`,
		Example: `  mlkeeper wait trustyaiservice/my-service -n models
  mlkeeper wait tas/my-service --for=deleted --timeout 2m
  mlkeeper wait kfdef kubeflow --for=condition=Ready`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWait(cmd, env, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace; default: that of the context")
	flags.StringVar(&f.goal, "for", goalReady, "ready or deleted, also as kubectl has them: condition=Ready and delete")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

func runWait(cmd *cobra.Command, env Environment, f waitFlags, args []string) error {
	goal, found := goals[strings.ToLower(f.goal)]
	if !found {
		return fmt.Errorf("--for %q: use ready or deleted", f.goal)
	}
	f.goal = goal
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout %s: set a positive duration, such as 5m", f.timeout)
	}
	r, s, err := resolve(cmd, env, args, f.namespace, f.goal == goalDeleted)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	w := newWaiter(r, env, s, f.goal, cmd.OutOrStdout())
	w.handled = f.handled
	err = w.run(ctx)
	if errors.Is(err, context.DeadlineExceeded) && cmd.Context().Err() == nil {
		return w.timedOut(cmd.Context(), f.timeout)
	}
	return err
}

// waiter waits for one custom resource and tells what changes meanwhile.
type waiter struct {
	*resolver
	env     Environment
	subject *subject
	goal    string
	// handled waits for the last request to reconcile, too.
	handled bool
	out     io.Writer
	start   time.Time
	watches *watches
	// told is what was printed last of each object.
	told map[string]string
	// seen is what was there last.
	seen snapshot
	// listed says that everything was listed once, so that objects are told of in their order.
	listed bool
	// hopelessSince is since when nothing but a change of the user's helps; zero while something else may.
	hopelessSince time.Time
}

func newWaiter(r *resolver, env Environment, s *subject, goal string, out io.Writer) *waiter {
	return &waiter{
		resolver: r, env: env, subject: s, goal: goal, out: out, start: env.Now(), told: map[string]string{},
		watches: newWatches(r.cluster, s),
	}
}

const (
	// settle is how long changes are gathered before they are told, since one change of a custom resource is many of
	// its objects.
	settle = 150 * time.Millisecond
	// grace is how long something that only the user can mend must stay so, since its cure may be on its way.
	grace = 3 * time.Second
)

// run waits until the goal is reached, the context ends, or nothing helps any more.
func (w *waiter) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		w.watches.wait()
	}()
	if err := w.watches.start(ctx); err != nil {
		return err
	}
	for {
		var again <-chan time.Time
		if !w.hopelessSince.IsZero() {
			again = time.After(grace)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-w.watches.failed:
			return err
		case <-again:
		case <-w.watches.changed:
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(settle):
			}
		}
		if done, err := w.look(ctx); done || err != nil {
			return err
		}
	}
}

// look judges what is there now, and tells what changed.
func (w *waiter) look(ctx context.Context) (done bool, err error) {
	now, synced := w.watches.snapshot()
	if !synced {
		return false, nil
	}
	w.seen = now
	// A kind that is watched from now on wakes us when it is listed.
	if more, err := w.watches.cover(ctx, now.expected); more || err != nil {
		return false, err
	}
	w.listed = w.listed || now.complete
	if err := w.printChanges(now); err != nil {
		return false, err
	}
	if w.goal == goalDeleted {
		return w.checkDeleted(now)
	}
	return w.lookReady(ctx, now)
}

func (w *waiter) lookReady(ctx context.Context, now snapshot) (bool, error) {
	if now.live == nil {
		return true, fmt.Errorf("%s was deleted during the wait", w.subject.key())
	}
	s := &now.status
	if s.UID != string(w.subject.live.GetUID()) {
		return true, fmt.Errorf("%s was deleted and recreated during the wait: wait again", w.subject.key())
	}
	if w.unhandled() {
		return false, nil
	}
	if s.Ready == "True" && s.Observed && !s.Deleting {
		return true, printLines(w.out, w.stamp(w.subject.key().String()+" is Ready"))
	}
	if !s.needsUserChange() {
		w.hopelessSince = time.Time{}
		return false, nil
	}
	if w.hopelessSince.IsZero() {
		w.hopelessSince = time.Now()
		return false, nil
	}
	if time.Since(w.hopelessSince) < grace {
		return false, nil
	}
	return true, fmt.Errorf("%s does not become Ready without a change.\n%s", w.subject.key(), w.missing(ctx))
}

// needsUserChange says that only a change of the user's can make it Ready.
func (s *StackStatus) needsUserChange() bool {
	return s.Deleting || s.Suspended && s.Ready != "True" || s.Stalled && s.Observed
}

// checkDeleted ends the waiting when the custom resource is gone, and so is what goes with it; what is kept is named.
func (w *waiter) checkDeleted(now snapshot) (bool, error) {
	if now.live != nil || !now.complete || len(now.going()) > 0 {
		return false, nil
	}
	lines := []string{w.stamp(w.subject.key().String() + " is gone")}
	for _, o := range now.kept() {
		lines = append(lines, w.stamp("  "+o.Kind+" "+o.Name+" was retained, since it contains data or is not deleted with its custom resource"))
	}
	return true, printLines(w.out, lines...)
}
