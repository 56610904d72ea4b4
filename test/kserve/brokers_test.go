package kserve

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/ports"
)

// allBrokers has every cause take place; in make test those do that have differed from the others.
var allBrokers = flag.Bool("brokers.all", false, "run every cause of TestBrokersThatDoNotWork")

const (
	// standing is how long a broker is looked at that does not work.
	standing = 15 * time.Second
	// connections is how many a participant may make to it in that time: forty at once, and then two a second.
	connections = 75
)

// TestBrokersThatDoNotWork: while a broker refuses connections, hangs, comes and goes, or has lost the topic, health tells why, attempts
// are bounded, and nothing in the cluster changes. Afterwards the order that was given meanwhile is carried out as it would have been before,
// and once.
func TestBrokersThatDoNotWork(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end func(*brokerSite)
		// says is what health says all the time, and deaf that the runtime can give no order.
		says string
		deaf bool
		// long says that it is left to make faults.
		long bool
	}{
		"Refuses": {begin: stand(refuses), end: stand(""), says: "DOWN the broker: ", long: true},
		"Hangs":   {begin: stand(hangs), end: stand(""), says: "DOWN the broker: "},
		"Comes":   {begin: (*brokerSite).comesAndGoes, end: stand(""), long: true},
		"Loses":   {begin: (*brokerSite).losesTopic, end: (*brokerSite).makesTopic, says: "DOWN the broker: ", deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.long && !*allBrokers {
				t.Skip("make faults runs it")
			}
			b := newBrokerSite(t)
			b.update(2)
			needed := b.update(3)
			before := b.seen()
			b.door.asked.Store(0)
			c.begin(b)
			began := time.Now()
			if !c.deaf {
				b.orders(4)
			}
			if c.says != "" {
				b.c.Eventually(t, patience, func() error { return b.health(c.says) })
			}
			time.Sleep(time.Until(began.Add(standing)))
			if n := b.door.asked.Load(); n > int64(connections*time.Since(began)/standing) {
				t.Errorf("in %s the participant has made %d connections", time.Since(began), n)
			} else {
				t.Logf("in %s the participant has made %d connections", time.Since(began), n)
			}
			// Of a broker that comes and goes the order may be read.
			if now := b.seen(); c.says != "" && (now.element != before.element || now.service != before.service) {
				t.Errorf("meanwhile %+v became %+v", before, now)
			}
			c.end(b)
			if c.deaf {
				// The client of the stand-in does not find such a topic again.
				b.c.Eventually(t, patience, func() error { return b.health("UP") })
				return
			}
			b.must(b.runtime.AwaitInstance(within(t), b.instance, "DEPLOYED", "NO_ERROR"))
			b.c.Eventually(t, patience, func() error { return b.health("UP") })
			if got := b.since(before); got != needed {
				t.Errorf("the order made %+v in place of %+v", got, needed)
			}
			if got := replicas(b.service("sklearn-iris")); got != 4 {
				t.Errorf("the service has %d replicas", got)
			}
		})
	}
}

// brokerSite is a site with an instance that is deployed, on a broker that need not work.
type brokerSite struct {
	*site
	door     *door
	client   *kadm.Client
	instance *acmruntime.Instance
	url      string
	stop     chan struct{}
}

func newBrokerSite(t *testing.T) *brokerSite {
	t.Helper()
	s, d, options := behindADoor(t)
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	s.yaml = strings.Replace(s.yaml, "reportingTimeIntervalMs: 120000", "reportingTimeIntervalMs: 1000", 1)
	s.yaml += fmt.Sprintf("server: {port: %d}\n", port)
	url := fmt.Sprintf("http://127.0.0.1:%d%s/health/readiness", port, config.DefaultContextPath)
	b := &brokerSite{site: s, door: d, client: kadm.NewClient(client), url: url}
	s.start()
	b.instance = s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	return b
}

// stand makes what has something stand at the door.
func stand(how string) func(*brokerSite) {
	return func(b *brokerSite) {
		if b.stop != nil {
			b.stop <- struct{}{}
		}
		b.door.set(how)
	}
}

// comesAndGoes has the broker refuse connections for two seconds of four.
func (b *brokerSite) comesAndGoes() {
	b.stop = make(chan struct{})
	go func() {
		for how := refuses; ; {
			b.door.set(how)
			select {
			case <-b.stop:
				return
			case <-time.After(2 * time.Second):
			}
			how = map[string]string{refuses: "", "": refuses}[how]
		}
	}()
}

func (b *brokerSite) losesTopic() {
	_, err := b.client.DeleteTopic(within(b.t), topic)
	b.must(err)
}

func (b *brokerSite) makesTopic() {
	_, err := b.client.CreateTopic(within(b.t), acmruntime.Partitions, 1, nil, topic)
	b.must(err)
}

// health says whether readiness says something.
func (b *brokerSite) health(says string) error {
	answer, err := http.Get(b.url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var is struct {
		Status  string
		Details map[string]string
	}
	if err := json.NewDecoder(answer.Body).Decode(&is); err != nil {
		return err
	}
	if text := is.Status + " " + is.Details["error"]; !strings.Contains(text, says) {
		return fmt.Errorf("%w: health is %q, not %q", errNotYet, text, says)
	}
	return nil
}

// orders has the runtime order a number of replicas.
func (b *brokerSite) orders(replicas int) {
	b.t.Helper()
	b.must(b.runtime.Update(within(b.t), b.instance, b.model("sklearn-iris", sklearn(replicas))))
}

// update orders a number of replicas and waits until there are so many. It returns what that has changed.
func (b *brokerSite) update(replicas int) changed {
	b.t.Helper()
	before := b.seen()
	b.orders(replicas)
	b.must(b.runtime.AwaitInstance(within(b.t), b.instance, "DEPLOYED", "NO_ERROR"))
	return b.since(before)
}

// seen is what there is: the versions of the element and of its service, their generations, and how often the element was acknowledged.
type seen struct {
	element, service string
	changed
}

// changed is how often specs changed, and an element was acknowledged.
type changed struct{ element, service, acks int64 }

func (b *brokerSite) seen() seen {
	b.t.Helper()
	// What follows from an acknowledgement may still be written.
	last := ""
	b.c.Eventually(b.t, patience, func() error {
		e, s := b.element(b.instance.Elements[0].ID), b.service("sklearn-iris")
		now := e.ResourceVersion + " " + s.GetResourceVersion()
		if now != last {
			last = now
			time.Sleep(2 * time.Second)
			return fmt.Errorf("%w: it changes", errNotYet)
		}
		return nil
	})
	e, s := b.element(b.instance.Elements[0].ID), b.service("sklearn-iris")
	return seen{e.ResourceVersion, s.GetResourceVersion(), changed{
		e.Generation, s.GetGeneration(), int64(b.runtime.Element(e.Name).Acks),
	}}
}

// since is what has changed.
func (b *brokerSite) since(before seen) changed {
	b.t.Helper()
	now := b.seen()
	return changed{
		now.changed.element - before.changed.element, now.changed.service - before.changed.service, now.acks - before.acks,
	}
}
