package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// tick is the resolution of the simulated time.
	tick = 250 * time.Millisecond
)

// process is a manager in simulated time: what Start does for a member, and what controller-runtime does for the leader's lease.
type process struct {
	*Member
	client *storeClient
	stop   context.CancelFunc
	ctx    context.Context
	// next is when its next round is due, and renewedLead when it renewed the leader's lease last.
	next, renewedLead time.Time
	leads             bool
	// offline says that no request of its reaches the API server, and lossy that now and then one does not, or its answer does not.
	offline, lossy bool
	// running are the ends of its reconciliations under way.
	running []func()
	changes []string
	// wants and has are the turn of this one.
	wants, has bool
}

// Wanted implements Turn.
func (p *process) Wanted() bool { return p.wants }

// Take implements Turn.
func (p *process) Take() { p.has = true }

// End implements Turn.
func (p *process) End() bool {
	p.has = p.has && p.wants
	return !p.has
}

// world is a simulated installation.
type world struct {
	*testing.T
	clock  *testclock.FakeClock
	random *rand.Rand
	store  *store
	shards int
	// processes are those that run.
	processes []*process
	started   int
	log       []string
}

func newWorld(t *testing.T, seed uint64, shards int) *world {
	return &world{
		T: t, clock: testclock.NewFakeClock(time.Unix(1_000_000, 0)), random: rand.New(rand.NewPCG(seed, 0)), store: newStore(), shards: shards,
	}
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%7.2fs ", w.clock.Now().Sub(time.Unix(1_000_000, 0)).Seconds())+fmt.Sprintf(format, args...))
}

// fatal fails with what happened last.
func (w *world) fatal(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.log[max(0, len(w.log)-40):], "\n"))
}

// start starts a manager that divides the namespaces into so many shards.
func (w *world) start(shards int) *process {
	w.started++
	p := &process{client: &storeClient{store: w.store}, next: w.clock.Now()}
	p.ctx, p.stop = context.WithCancel(w.Context())
	p.client.fails = func(string) (request, answer bool) {
		lost := p.lossy && w.random.IntN(10) == 0
		return p.offline || lost, lost || p.lossy && w.random.IntN(10) == 0
	}
	p.Member = NewMember(Options{
		Shards: New(shards), Leases: p.client, Identity: fmt.Sprintf("host_%d", w.started),
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Clock: w.clock, Log: logr.Discard(),
	})
	p.Shards.OnChange(
		func(i int) {
			p.changes = append(p.changes, fmt.Sprint("gained ", i))
			w.note("%s gains %d", p.Identity, i)
		},
		func(i int) {
			p.changes = append(p.changes, fmt.Sprint("lost ", i))
			w.note("%s loses %d", p.Identity, i)
		},
	)
	p.Shards.ShareTurn(p)
	w.processes = append(w.processes, p)
	w.note("%s starts with %d shards", p.Identity, shards)
	return p
}

// end ends a process: nothing of it runs any more, and it renews nothing.
func (w *world) end(p *process, why string) {
	w.note("%s ends: %s", p.Identity, why)
	p.Shards.Lose()
	w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
}

// advance lets time pass, and each process do what is due.
func (w *world) advance(by time.Duration) {
	w.Helper()
	for range by / tick {
		w.clock.Step(tick)
		for _, i := range w.random.Perm(len(w.processes)) {
			if i < len(w.processes) {
				w.step(w.processes[i])
			}
			w.check()
		}
	}
}

func (w *world) step(p *process) {
	select {
	case <-p.Shards.drained:
		p.next = w.clock.Now()
	default:
	}
	if w.clock.Now().Before(p.next) {
		return
	}
	if err := p.round(p.ctx); err != nil {
		w.end(p, err.Error())
		return
	}
	if p.ctx.Err() != nil && p.idle() {
		w.release(p)
		w.end(p, "it has given everything back")
		return
	}
	// controller-runtime ends the election of the leader last, when nothing runs any more.
	if p.hasJoined() && (p.leads || p.ctx.Err() == nil) {
		w.lead(p)
	}
	p.next = w.clock.Now().Add(p.pause())
}

// lead does what the election of the leader does: it asks for the lease, or renews it.
func (w *world) lead(p *process) {
	now, ctx := w.clock.Now(), w.Context()
	listed, err := p.client.List(ctx, metav1.ListOptions{})
	var all leases
	if err == nil {
		all = p.observe(listed, now)
		switch _, exists := all[LeaderLease]; {
		case p.leads && all.holder(LeaderLease) != p.Identity:
			err = errTaken
		case !p.leads && p.live(all, LeaderLease, now) && all.holder(LeaderLease) != p.Identity:
			return
		case !exists:
			err = p.acquire(ctx, all, LeaderLease, now)
		default:
			err = p.write(ctx, all, LeaderLease, func(spec *coordinationv1.LeaseSpec) { p.held(spec, now) })
		}
	}
	if err == nil {
		p.renewedLead = now
		if !p.leads {
			p.leads = true
			p.Shards.Hold(0)
		}
	}
	if p.leads && (errors.Is(err, errTaken) || now.Sub(p.renewedLead) >= renewDeadline-2*retryPeriod) {
		w.end(p, "it is the leader no more")
	}
}

// release gives the leader's lease back, which is the last that a manager does.
func (w *world) release(p *process) {
	if lease := w.store.stored[LeaderLease]; lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == p.Identity {
		released(&lease.Spec)
		w.store.put(lease)
	}
}

// work begins and ends reconciliations.
func (w *world) work(p *process) {
	if len(p.running) > 0 && w.random.IntN(2) == 0 {
		p.running[0]()
		p.running = p.running[1:]
	}
	if _, done, held := p.Shards.Begin(w.Context(), in(fmt.Sprint("ns-", w.random.IntN(50)))); held {
		p.running = append(p.running, done)
	}
}

// check fails if two managers may reconcile the same namespace, or have the turn.
func (w *world) check() {
	w.Helper()
	turns := 0
	for _, p := range w.processes {
		if p.has {
			turns++
		}
	}
	if turns > 1 {
		w.fatal("it is the turn of %d managers", turns)
	}
	for n := range 50 {
		namespace := fmt.Sprint("ns-", n)
		var holders []string
		for _, p := range w.processes {
			shard := p.Shards.Of(in(namespace))
			if h, ok := p.Shards.held[shard]; ok && (!h.ending || len(h.running) > 0) {
				holders = append(holders, p.Identity)
			}
		}
		if len(holders) > 1 {
			w.fatal("%s is reconciled by %v", namespace, holders)
		}
	}
}

// settled checks that all shards are held, by each manager as many.
func (w *world) settled() {
	w.Helper()
	least, most, all := w.shards, 0, 0
	for _, p := range w.processes {
		n := len(p.Shards.active())
		least, most, all = min(least, n), max(most, n), all+n
	}
	if all != w.shards || most-least > 1 {
		for _, p := range w.processes {
			w.note("%s holds %v, joined %t", p.Identity, p.Shards.active(), p.hasJoined())
		}
		w.fatal("%d of %d shards are held, by each of %d managers from %d to %d", all, w.shards, len(w.processes), least, most)
	}
}

// disturb does one thing to the managers at random.
func (w *world) disturb(mixed bool) {
	shards := w.shards
	if mixed && w.random.IntN(2) == 0 {
		shards++
	}
	if len(w.processes) == 0 {
		w.start(shards)
		return
	}
	p := w.processes[w.random.IntN(len(w.processes))]
	switch w.random.IntN(8) {
	case 0, 1:
		if len(w.processes) < 6 {
			w.start(shards)
		}
	case 2:
		w.note("%s is told to end", p.Identity)
		p.stop()
	case 3:
		w.end(p, "it crashes")
	case 4:
		p.offline = !p.offline
		w.note("%s is offline: %t", p.Identity, p.offline)
	case 5:
		p.lossy = !p.lossy
		p.wants = w.random.IntN(3) > 0
	default:
		w.work(p)
	}
}

// TestShardsProperty has managers come, go, crash, and lose their connection at random, while they reconcile. Never do two of them have the
// same namespace, and when it is over, all shards are held, evenly, and a lease is left for each shard and each manager only; for the
// leader of an only shard there is no second one.
func TestShardsProperty(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed, 1+int(seed%9))
		for range 60 {
			w.disturb(false)
			w.advance(time.Duration(w.random.IntN(int(4*time.Second/tick))) * tick)
		}
		w.calm()
		w.settled()
		leader := 0
		for name := range w.store.stored {
			if shard, isShard := shardOf(name); isShard && shard < w.shards {
				leader++
			}
		}
		want := w.shards + len(w.processes)
		if w.shards == 1 {
			want--
		}
		if got := len(w.store.stored); got != want || leader != w.shards {
			w.fatal("seed %d: %d leases are left, not %d", seed, got, want)
		}
	}
}

// calm ends what disturbs, and lets time pass.
func (w *world) calm() {
	w.Helper()
	for _, p := range w.processes {
		p.offline, p.lossy, p.wants = false, false, false
		for _, done := range p.running {
			done()
		}
		p.running = nil
	}
	if len(w.processes) == 0 {
		w.start(w.shards)
	}
	w.advance(90 * time.Second)
	if len(w.processes) == 0 { // The last one was told to end before.
		w.start(w.shards)
		w.advance(90 * time.Second)
	}
}

// TestManagersOfAnotherNumberOfShardsProperty has managers that divide the namespaces in two ways. Never do two of them have the same
// namespace; once those of one way have gone, the others hold everything.
func TestManagersOfAnotherNumberOfShardsProperty(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, 1+int(seed%5))
		for range 60 {
			w.disturb(true)
			w.advance(time.Duration(w.random.IntN(int(4*time.Second/tick))) * tick)
		}
		for _, p := range slices.Clone(w.processes) {
			if p.Shards.count != w.shards {
				p.stop()
			}
		}
		w.calm()
		w.settled()
	}
}

// TestTheSameObstacleIsToldEachTime has several managers in the way, of which a manager that waits logs one, once.
func TestTheSameObstacleIsToldEachTime(t *testing.T) {
	for prefix, want := range map[string]string{memberLease: "the manager a runs with", shardLease: "the manager a holds"} {
		listed := &coordinationv1.LeaseList{}
		for i, holder := range []string{"a", "b", "c", "d", "e", "f"} {
			listed.Items = append(listed.Items, coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: prefix + strconv.Itoa(i+1) + leaseEnd, Annotations: map[string]string{countAnnotation: "7"}},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15)},
			})
		}
		m, now := &Member{Options: Options{Shards: New(8)}}, time.Unix(1e9, 0)
		all := m.observe(listed, now)
		for range 20 {
			if got := m.obstacle(all, now); !strings.HasPrefix(got, want) {
				t.Errorf("it waits since %s, want %s", got, want)
				break
			}
		}
	}
}

// TestShardsMoveOnlyWhereTheyMust adds and removes managers one by one, and counts the changes.
func TestShardsMoveOnlyWhereTheyMust(t *testing.T) {
	w := newWorld(t, 1, 6)
	a := w.start(6)
	w.advance(10 * time.Second)
	w.settled()
	a.changes = nil
	b := w.start(6)
	w.advance(20 * time.Second)
	w.settled()
	if len(a.changes) != 3 || len(b.changes) != 3 {
		t.Errorf("with a second manager, the shards change hands by %v and %v", a.changes, b.changes)
	}
	a.changes, b.changes = nil, nil
	w.advance(10 * time.Minute)
	if len(a.changes)+len(b.changes) > 0 {
		t.Errorf("shards change hands although nothing happens: %v and %v", a.changes, b.changes)
	}
	b.stop()
	w.advance(3 * retryPeriod)
	if len(a.changes) != 3 || len(w.processes) != 1 {
		t.Errorf("after its orderly end, the other one has %v", a.changes)
	}
	w.settled()
}

// TestTheShardsOfADeadManagerAreTakenWhenItsLeasesExpire, and not much later.
func TestTheShardsOfADeadManagerAreTakenWhenItsLeasesExpire(t *testing.T) {
	w := newWorld(t, 1, 4)
	a := w.start(4)
	w.advance(10 * time.Second)
	b := w.start(4)
	w.advance(20 * time.Second)
	w.settled()
	w.end(b, "it crashes")
	w.advance(leaseDuration - 2*retryPeriod)
	if n := len(a.Shards.active()); n != 2 {
		t.Errorf("%d shards are held before the leases expire", n)
	}
	w.advance(5 * retryPeriod)
	w.settled()
}

// TestAShardWaitsForItsReconciliations has one under way while its shard goes to another manager: the lease is renewed and not given back
// until it ends.
func TestAShardWaitsForItsReconciliations(t *testing.T) {
	w := newWorld(t, 1, 2)
	a := w.start(2)
	w.advance(10 * time.Second)
	namespace := "a"
	for Of(namespace, 2) != 1 {
		namespace += "a"
	}
	_, done, held := a.Shards.Begin(t.Context(), in(namespace))
	b := w.start(2)
	w.advance(time.Minute)
	if !held || a.Shards.Holds(in(namespace)) || b.Shards.Holds(in(namespace)) {
		t.Fatal("the shard is not on its way")
	}
	done()
	w.advance(3 * retryPeriod)
	if !b.Shards.Holds(in(namespace)) {
		t.Error("the shard has not arrived")
	}
	w.settled()
}

// TestAManagerThatCannotRenewEndsBeforeItsLeasesExpire.
func TestAManagerThatCannotRenewEndsBeforeItsLeasesExpire(t *testing.T) {
	w := newWorld(t, 1, 3)
	a := w.start(3)
	w.advance(10 * time.Second)
	ctx, done, held := a.Shards.Begin(t.Context(), in("ns-1"))
	defer done()
	a.leads = false // The election of the leader would end it, too.
	a.offline = true
	w.advance(renewDeadline - 2*retryPeriod)
	if !held || len(w.processes) != 1 {
		t.Fatal("it ends at once")
	}
	w.advance(2*retryPeriod + time.Second)
	if len(w.processes) != 0 || ctx.Err() == nil {
		t.Error("it goes on while its leases expire")
	}
}

// TestALeaseThatIsTakenAwayEndsAManager: a user may edit leases, and two writers are worse than none.
func TestALeaseThatIsTakenAwayEndsAManager(t *testing.T) {
	for _, name := range []string{nameOf(1), memberNameOf("host_1")} {
		w := newWorld(t, 1, 2)
		w.start(2)
		w.advance(10 * time.Second)
		lease := w.store.stored[name]
		lease.Spec.HolderIdentity = ptr.To("somebody")
		w.store.put(lease)
		w.advance(2 * retryPeriod)
		if len(w.processes) != 0 {
			t.Errorf("without the lease %s, it goes on", name)
		}
	}
}

// TestManagersTakeTurns has two that want to: the second one has its turn when the first one no longer wants it, or is dead.
func TestManagersTakeTurns(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.start(2), w.start(2)
	w.advance(20 * time.Second)
	a.wants = true
	w.advance(3 * retryPeriod)
	b.wants = true
	w.advance(time.Minute)
	if !a.has || b.has {
		t.Fatal("it is not the turn of the one that wanted it first")
	}
	a.wants = false
	w.advance(3 * retryPeriod)
	if a.has || !b.has {
		t.Fatal("it is not the turn of the second one")
	}
	a.wants = true
	w.end(b, "it crashes")
	w.advance(leaseDuration - 2*retryPeriod)
	if a.has {
		t.Error("the lease of the dead one is taken before it expires")
	}
	w.advance(5 * retryPeriod)
	if holder := leases(w.store.stored).holder(turnLease); !a.has || holder != a.Identity || len(w.processes) != 1 {
		t.Errorf("the turn after that of the dead one is %q's", holder)
	}
	a.stop()
	w.advance(3 * retryPeriod)
	if holder := leases(w.store.stored).holder(turnLease); len(w.processes) != 0 || holder != "" {
		t.Errorf("after an orderly end, it is the turn of %q", holder)
	}
}

// TestALostAnswerToAReleaseEndsNothing: the lease is not the manager's own any more, and that is as it should be.
func TestALostAnswerToAReleaseEndsNothing(t *testing.T) {
	w := newWorld(t, 1, 2)
	a := w.start(2)
	w.advance(10 * time.Second)
	fails := a.client.fails
	a.client.fails = func(verb string) (request, answer bool) {
		return false, verb == "update" && a.mine[1] && !a.Shards.has(1)
	}
	w.start(2)
	w.advance(5 * retryPeriod)
	a.client.fails = fails
	w.advance(20 * time.Second)
	if len(w.processes) != 2 {
		t.Fatalf("%d managers are left", len(w.processes))
	}
	w.settled()
}

// TestTheLeaderOfAnOnlyShardHasOneLease: it renews that of the leader alone, and those who stand by take over from it as from others.
func TestTheLeaderOfAnOnlyShardHasOneLease(t *testing.T) {
	w := newWorld(t, 1, 1)
	leader := w.start(1)
	w.advance(10 * retryPeriod)
	if names := slices.Collect(maps.Keys(w.store.stored)); !slices.Equal(names, []string{LeaderLease}) {
		t.Errorf("the leases are %v", names)
	}
	standby := w.start(1)
	w.advance(10 * retryPeriod)
	if !standby.hasJoined() || len(w.store.stored) != 2 || w.store.stored[memberNameOf(standby.Identity)] == nil {
		t.Errorf("the one that stands by has joined: %t; there are %d leases", standby.hasJoined(), len(w.store.stored))
	}
	w.end(leader, "it crashes")
	w.advance(leaseDuration + 3*retryPeriod)
	w.settled()
	if len(w.store.stored) != 1 {
		t.Errorf("there are %d leases", len(w.store.stored))
	}
}

// TestALeaderWithoutSharesIsWaitedFor is an upgrade from a release whose managers share nothing.
func TestALeaderWithoutSharesIsWaitedFor(t *testing.T) {
	w := newWorld(t, 1, 3)
	old := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaderLease}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("old"), LeaseDurationSeconds: ptr.To[int32](15),
	}}
	p := w.start(3)
	for range 20 {
		w.store.put(old)
		w.advance(retryPeriod)
	}
	if p.hasJoined() || len(p.Shards.active()) > 0 {
		t.Error("shards are taken while another manager has everything")
	}
	w.advance(leaseDuration + 3*retryPeriod)
	w.settled()
}
