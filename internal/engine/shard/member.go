package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// jitter spreads the rounds of managers that started together.
const jitter = 0.2

// errTaken says that a lease of this manager is not its own any more.
var errTaken = errors.New("another one has a lease of this manager")

// Options are what a Member works with. The durations are those of the election of the leader, with the same meaning.
type Options struct {
	Shards                                    *Shards
	Leases                                    coordinationclient.LeaseInterface
	Identity                                  string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Warm waits until the caches are filled: a manager takes no shard before, while another one may hold it with filled caches.
	Warm func(context.Context) bool
	// Elected is closed when this manager is the leader. It holds shard 0 from then on, until its process ends.
	Elected <-chan struct{}
	Clock   clock.Clock
	Log     logr.Logger
}

// Member is this manager among those that share the shards. Each has a lease of its own, by which the others know that it is alive, and one
// for each shard that it holds. The leader of an only shard needs none of its own. In every round a member lists all leases, renews its own,
// and then takes shards that nobody holds or gives
// some away, so that all members hold equally many.
//
// client-go's leader election is for one lease: it would cost a request for each shard and period, and a lease of a dead manager would
// expire one duration after it is first asked for. The rules are the same. A lease expires when it has not changed for its duration by the
// clock of who looks on, a write is guarded by the resourceVersion, and a member that cannot renew within the deadline, which is shorter
// than the duration, ends.
type Member struct {
	Options
	// joined is closed once this manager shares the shards.
	joined chan struct{}
	// seen are the leases as they were listed last.
	seen map[string]sighting
	// mine are the shards whose leases this manager has, except that of the leader.
	mine map[int]bool
	// myTurn says that this manager has the lease of the turn.
	myTurn bool
	// renewed is when the last round began that renewed every lease.
	renewed time.Time
	// waits is why the shards are not shared yet, to be logged once.
	waits string
}

// NewMember makes a member that holds nothing yet.
func NewMember(opts Options) *Member {
	return &Member{Options: opts, joined: make(chan struct{}), seen: map[string]sighting{}, mine: map[int]bool{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every manager is a member.
func (m *Member) NeedLeaderElection() bool { return false }

// AwaitJoined waits until this manager shares the shards. It is false when the context is done before.
func (m *Member) AwaitJoined(ctx context.Context) bool {
	select {
	case <-m.joined:
		return true
	case <-ctx.Done():
		return false
	}
}

// Start shares the shards until the context is done, and gives them back then. It fails when the leases may be lost, which ends the process
// as the loss of the leadership does.
func (m *Member) Start(ctx context.Context) error {
	if !m.Warm(ctx) {
		return nil
	}
	if m.Shards.turn != nil {
		m.Shards.turn.End() // It is no manager's turn that does not have the lease.
	}
	elected, done := m.Elected, ctx.Done()
	for {
		if err := m.round(ctx); err != nil {
			m.Shards.Lose()
			return err
		}
		if ctx.Err() != nil && m.idle() {
			return nil
		}
		select {
		case <-done:
			done = nil
		case <-elected:
			elected = nil
			m.Shards.Hold(0)
		case <-m.Shards.drained:
		case <-m.Clock.After(m.pause()):
		}
	}
}

// round does what is due now. An error means that the leases may be lost.
func (m *Member) round(ctx context.Context) error {
	leaving := ctx.Err() != nil
	began := m.Clock.Now()
	left := m.RenewDeadline
	if m.hasJoined() {
		left -= began.Sub(m.renewed)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
	defer cancel()
	all, err := m.renew(limited, began, leaving)
	switch {
	case err == nil && m.hasJoined():
		m.renewed = began
		m.share(limited, all, began, leaving)
	case errors.Is(err, errTaken):
		return err
	case err != nil:
		m.Log.Error(err, "cannot renew the leases of the shards")
	}
	if since := m.Clock.Now().Sub(m.renewed); m.hasJoined() && since >= m.RenewDeadline {
		return fmt.Errorf("the leases of the shards were not renewed for %s: %w", since, err)
	}
	return nil
}

func (m *Member) hasJoined() bool {
	select {
	case <-m.joined:
		return true
	default:
		return false
	}
}

// renew lists the leases and renews those of this manager. One that has not joined yet tries to.
func (m *Member) renew(ctx context.Context, now time.Time, leaving bool) (leases, error) {
	if !m.hasJoined() {
		if leaving {
			return nil, nil
		}
		return m.join(ctx, now)
	}
	all, err := m.list(ctx, now)
	if err != nil {
		return nil, err
	}
	for shard := range m.mine {
		if all.holder(nameOf(shard)) != m.Identity && !m.Shards.has(shard) {
			delete(m.mine, shard) // The answer to its release was lost.
			continue
		}
		if err := m.renewOne(ctx, all, nameOf(shard), now); err != nil {
			return nil, err
		}
	}
	if m.myTurn {
		if err := m.renewOne(ctx, all, turnLease, now); err != nil {
			return nil, err
		}
	}
	own := memberNameOf(m.Identity)
	if leaving || m.hasEverything() {
		return all, m.remove(ctx, all, own)
	}
	return all, m.renewOne(ctx, all, own, now)
}

// hasEverything says that this manager is the leader, and that there is no other shard. The lease of the leader then says all that its own
// one would: managers of more shards do not join while it has a holder.
func (m *Member) hasEverything() bool { return m.Shards.count == 1 && m.Shards.has(0) }

func (m *Member) list(ctx context.Context, now time.Time) (leases, error) {
	listed, err := m.Leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the leases: %w", err)
	}
	return m.observe(listed, now), nil
}

// join creates the lease of this manager, and only then looks for others that divide the namespaces in another way. Of two that come at the
// same time, the one that creates its lease last sees that of the other, so that never both join. One that may not join removes its lease
// again and tries later: managers of another number of shards are about to be replaced, or are what replaces it.
func (m *Member) join(ctx context.Context, now time.Time) (leases, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: memberNameOf(m.Identity), Annotations: map[string]string{countAnnotation: strconv.Itoa(m.Shards.count)},
	}}
	m.held(&lease.Spec, now)
	_, createErr := m.Leases.Create(ctx, lease, metav1.CreateOptions{})
	if createErr != nil && !apierrors.IsAlreadyExists(createErr) {
		return nil, fmt.Errorf("create the lease %s: %w", lease.Name, createErr)
	}
	all, err := m.list(ctx, now)
	if err != nil {
		return nil, err
	}
	if createErr != nil {
		// It is of an earlier attempt whose answer was lost, and may be expired for others.
		return nil, m.remove(ctx, all, lease.Name)
	}
	if waits := m.obstacle(all, now); waits != "" {
		if waits != m.waits {
			m.Log.Info("this manager takes no shard yet", "because", waits, "shards", m.Shards.count)
		}
		m.waits = waits
		return nil, m.remove(ctx, all, lease.Name)
	}
	close(m.joined)
	m.Log.Info("this manager shares the shards", "shards", m.Shards.count)
	return all, nil
}

// renewOne renews a lease of this manager.
func (m *Member) renewOne(ctx context.Context, all leases, name string, now time.Time) error {
	if all.holder(name) != m.Identity {
		return fmt.Errorf("%w: %s is held by %q", errTaken, name, all.holder(name))
	}
	return m.write(ctx, all, name, func(spec *coordinationv1.LeaseSpec) { m.held(spec, now) })
}

// write changes a lease unless somebody else has since it was listed.
func (m *Member) write(ctx context.Context, all leases, name string, change func(*coordinationv1.LeaseSpec)) error {
	next := all[name].DeepCopy()
	change(&next.Spec)
	written, err := m.Leases.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write the lease %s: %w", name, err)
	}
	m.wrote(all, written)
	return nil
}

// wrote keeps what this manager has written, so that it is not taken for an expired lease in the same round.
func (m *Member) wrote(all leases, written *coordinationv1.Lease) {
	all[written.Name], m.seen[written.Name] = written, sighting{written.ResourceVersion, m.Clock.Now()}
}

// remove deletes a lease unless somebody has changed it since it was listed.
func (m *Member) remove(ctx context.Context, all leases, name string) error {
	lease, ok := all[name]
	if !ok {
		return nil
	}
	err := m.Leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &lease.ResourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the lease %s: %w", name, err)
	}
	delete(all, name)
	return nil
}

// share gives shards away that are too many, or takes some that nobody holds. What fails is tried again in the next round.
func (m *Member) share(ctx context.Context, all leases, now time.Time, leaving bool) {
	active := m.Shards.active()
	quota := 0
	if !leaving {
		quota = quotaOf(m.Identity, m.holdings(all, now, len(active)), m.Shards.count)
	}
	for i := len(active) - 1; i >= quota; i-- {
		// The leader holds shard 0 as long as it leads.
		if active[i] != 0 || leaving {
			m.Shards.GiveAway(active[i])
		}
	}
	m.release(ctx, all)
	for shard := range m.order() {
		if len(active) >= quota {
			break
		}
		if m.take(ctx, all, shard, now) {
			active = append(active, shard)
		}
	}
	if m.Shards.turn != nil {
		m.takeTurns(ctx, all, now, leaving)
	}
	if len(active) > 0 && active[0] == 0 && !leaving {
		m.tidy(ctx, all, now)
	}
}

// holdings are how many shards each member holds; own is the number of this one's.
func (m *Member) holdings(all leases, now time.Time, own int) map[string]int {
	out := map[string]int{}
	for identity, count := range m.members(all, now) {
		if count == strconv.Itoa(m.Shards.count) {
			out[identity] = 0
		}
	}
	for shard := range m.Shards.count {
		holder := all.holder(nameOf(shard))
		if _, isMember := out[holder]; isMember && m.live(all, nameOf(shard), now) {
			out[holder]++
		}
	}
	out[m.Identity] = own
	return out
}

// release gives back the leases of the shards that are given away and of which nothing runs any more.
func (m *Member) release(ctx context.Context, all leases) {
	for shard := range m.mine {
		if !m.Shards.Drop(shard) {
			continue
		}
		if err := m.write(ctx, all, nameOf(shard), released); err != nil {
			m.Log.Error(err, "cannot release a shard", "shard", shard)
			continue
		}
		delete(m.mine, shard)
		m.Log.Info("released a shard", "shard", shard)
	}
}

// idle says that this manager has given everything back, and that nothing of it runs any more.
func (m *Member) idle() bool { return len(m.mine) == 0 && !m.Shards.busy() }

// takeTurns takes the turn if this manager wants it and nobody has it, and ends it otherwise. One that leaves ends it when it is idle, and
// begins nothing any more.
func (m *Member) takeTurns(ctx context.Context, all leases, now time.Time, leaving bool) {
	var err error
	switch turn := m.Shards.turn; {
	case m.myTurn && (leaving && m.idle() || turn.End()):
		// Whatever becomes of the write, the turn has ended: a lease that is not released expires.
		m.myTurn = false
		err = m.write(ctx, all, turnLease, released)
	case !m.myTurn && !leaving && turn.Wanted() && (!m.live(all, turnLease, now) || all.holder(turnLease) == m.Identity):
		if err = m.acquire(ctx, all, turnLease, now); err == nil {
			m.myTurn = true
			turn.Take()
		}
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		m.Log.Error(err, "cannot take or end the turn")
	}
}

// released writes into the spec of a lease that nobody holds it.
func released(spec *coordinationv1.LeaseSpec) {
	spec.HolderIdentity, spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
}

// order are the shards that have a lease here. Each member begins elsewhere, so that two of them rarely want the same shard.
func (m *Member) order() iter.Seq[int] {
	return func(yield func(int) bool) {
		others := m.Shards.count - 1
		for i := range others {
			if !yield(1 + (Of(m.Identity, others)+i)%others) {
				return
			}
		}
	}
}

// take takes a shard that nobody holds.
func (m *Member) take(ctx context.Context, all leases, shard int, now time.Time) bool {
	name := nameOf(shard)
	// The lease has this manager as its holder where the answer to an earlier write was lost.
	if m.mine[shard] || m.live(all, name, now) && all.holder(name) != m.Identity {
		return false
	}
	err := m.acquire(ctx, all, name, now)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return false // Another one was faster.
	case err != nil:
		m.Log.Error(err, "cannot take a shard", "shard", shard)
		return false
	}
	m.mine[shard] = true
	m.Log.Info("took a shard", "shard", shard)
	m.Shards.Hold(shard)
	return true
}

func (m *Member) acquire(ctx context.Context, all leases, name string, now time.Time) error {
	if _, exists := all[name]; exists {
		return m.write(ctx, all, name, func(spec *coordinationv1.LeaseSpec) { m.held(spec, now) })
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.held(&lease.Spec, now)
	created, err := m.Leases.Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		m.wrote(all, created)
	}
	return err
}

// tidy deletes the leases of managers that are dead, and of shards that there are no longer.
func (m *Member) tidy(ctx context.Context, all leases, now time.Time) {
	for name := range all {
		shard, isShard := shardOf(name)
		if m.live(all, name, now) || isShard && shard < m.Shards.count {
			continue
		}
		if err := m.remove(ctx, all, name); err != nil && !apierrors.IsConflict(err) {
			m.Log.Error(err, "cannot delete a lease that nobody needs")
		}
	}
}

// pause is how long the next round may wait: until the next period, or until the leases may be lost.
func (m *Member) pause() time.Duration {
	period := wait.Jitter(m.RetryPeriod, jitter)
	if !m.hasJoined() {
		return period
	}
	return min(period, m.renewed.Add(m.RenewDeadline).Sub(m.Clock.Now()))
}
