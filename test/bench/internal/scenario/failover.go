package scenario

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

// stretch is what client-go makes of a retry period at most: it adds up to 1.2 times of it at random.
const stretch = 2.2

// failover kills a leader, and ends one politely, each beside a standby whose watches are complete.
func (b *Bench) failover(ctx context.Context) error {
	l, err := b.big(ctx)
	if err != nil {
		return err
	}
	l.op.Stop(time.Minute)
	n := 2 * b.Config.Failovers
	targets, err := b.targets(l, n)
	if err != nil {
		return err
	}
	leader, err := b.standby(ctx, l, "manager-0")
	if err != nil {
		return err
	}
	// Whoever leads in the end must not outlive the scenario.
	defer func() { leader.Stop(time.Minute) }()
	if err := leader.AwaitLeading(ctx, 5*time.Minute); err != nil {
		return err
	}
	var crash, crashLease, release, releaseLease []float64
	for i := range n {
		next, err := b.standby(ctx, l, fmt.Sprintf("manager-%d", i+1))
		if err != nil {
			return err
		}
		if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
			next.Stop(time.Minute)
			return err
		}
		killed := i%2 == 0
		leased, working, err := b.failOver(ctx, l, leader, killed, targets[i])
		leader.Stop(time.Minute)
		leader = next
		if err != nil {
			return err
		}
		b.say("fail-over %d of %d (killed: %t): lease after %s, at work after %s", i+1, n, killed, report.Number(leased, "s"), report.Number(working, "s"))
		if killed {
			crash, crashLease = append(crash, working), append(crashLease, leased)
		} else {
			release, releaseLease = append(release, working), append(releaseLease, leased)
		}
	}
	retry := b.Config.Lease.Retry.Seconds()
	add := func(id, what string, values []float64, limit float64, leases []float64) {
		b.Result.Add(report.Measure{
			ID: id, What: what, Value: stat.Quantile(values, 1), Unit: "s", Samples: values, Limit: limit, Statistic: fmt.Sprintf("worst of %d", len(values)),
			Detail: fmt.Sprintf("retry period %s; until the lease was taken: median %s, worst %s", b.Config.Lease.Retry,
				report.Number(stat.Median(leases), "s"), report.Number(stat.Quantile(leases, 1), "s")),
		})
	}
	add("failover.crash", "fail-over from a killed leader, after expiry of its lease, until the standby repairs", crash, stretch*retry+0.5, crashLease)
	add("failover.release", "fail-over from a SIGTERM until the standby repairs", release, 1+stretch*retry, releaseLease)
	return nil
}

// standby starts a manager and waits until its watches are complete.
func (b *Bench) standby(ctx context.Context, l *large, name string) (*world.Operator, error) {
	op, err := l.c.Run(ctx, b.Config.Operator, name, l.id.Kubeconfig, b.Config.Lease)
	if err != nil {
		return nil, err
	}
	if err := op.AwaitReady(ctx, 2*time.Minute); err != nil {
		op.Stop(time.Minute)
		return nil, err
	}
	return op, nil
}

// failOver ends the leader, changes a child, and returns when the standby took the lease and when it had repaired the
// child: in seconds after the expiry of the lease of a leader that was killed, or after the SIGTERM.
func (b *Bench) failOver(
	ctx context.Context, l *large, leader *world.Operator, killed bool, target child,
) (leased, working float64, err error) {
	mark, from := l.c.Audit.Mark(), time.Now()
	if killed {
		leader.Kill()
	} else {
		leader.Signal(syscall.SIGTERM)
		<-leader.Done()
	}
	ended := time.Now()
	if killed {
		if from, err = b.expiry(ctx, l); err != nil {
			return 0, 0, err
		}
	}
	if err := target.spoil(ctx, l.c.Wire); err != nil {
		return 0, 0, err
	}
	var took, repaired time.Time
	for deadline := time.Now().Add(2*time.Minute + b.Config.Lease.Duration); took.IsZero() || repaired.IsZero(); {
		if time.Now().After(deadline) {
			if took.IsZero() {
				return 0, 0, errors.New("the standby took no lease")
			}
			return 0, 0, fmt.Errorf("the standby took the lease and did not repair %s", target.object)
		}
		if err := world.Pause(ctx, 20*time.Millisecond); err != nil {
			return 0, 0, err
		}
		if mark, err = l.c.Audit.Since(mark, l.id.User, func(e audit.Entry) {
			switch {
			case !e.OK() || e.Done.Before(ended):
			case leads(e) && took.IsZero():
				took = e.Done
			case e.Class() == audit.Write && e.Object() == target.object:
				repaired = e.Done
			}
		}); err != nil {
			return 0, 0, err
		}
	}
	return took.Sub(from).Seconds(), repaired.Sub(from).Seconds(), nil
}

// expiry is when the lease ends that a killed leader left behind.
func (b *Bench) expiry(ctx context.Context, l *large) (time.Time, error) {
	lease := &coordinationv1.Lease{}
	if err := l.c.Client.Get(ctx, client.ObjectKey{Namespace: world.OperatorNamespace, Name: world.LeaseName}, lease); err != nil {
		return time.Time{}, err
	}
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}, errors.New("the lease does not say when it ends")
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second), nil
}
