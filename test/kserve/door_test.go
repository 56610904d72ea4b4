package kserve

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/test/acmruntime"
)

// door is where a broker listens. What stands at the door concerns the participant alone: the runtime comes from another address.
type door struct {
	net.Listener
	// asked is how many connections the participant has made.
	asked atomic.Int64

	mu sync.Mutex
	// how is what stands at the door: refuses, hangs, or nothing.
	how string
	// changed is closed when that changes.
	changed chan struct{}
	open    map[*passing]bool
}

const refuses, hangs = "refuses", "hangs"

// outside is the address that the runtime comes from.
var outside = net.IPv4(127, 0, 0, 2)

// set has something stand at the door. Connections end when it refuses, and those that have hung end afterwards.
func (d *door) set(how string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if how == refuses || d.how == hangs {
		for one := range d.open {
			_ = one.Conn.Close()
		}
	}
	d.how = how
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *door) now() (how string, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.how, d.changed
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, ok := conn.RemoteAddr().(*net.TCPAddr); ok && from.IP.Equal(outside) {
			return conn, nil
		}
		d.asked.Add(1)
		d.mu.Lock()
		how, one := d.how, &passing{conn, d}
		if how != refuses {
			d.open[one] = true
		}
		d.mu.Unlock()
		if how != refuses {
			return one, nil
		}
		_ = conn.Close()
	}
}

// passing is a connection of the participant.
type passing struct {
	net.Conn
	door *door
}

// Read brings nothing while the broker hangs.
func (p *passing) Read(b []byte) (int, error) {
	for {
		how, changed := p.door.now()
		if how != hangs {
			return p.Conn.Read(b)
		}
		<-changed
	}
}

// Write gets lost while the broker hangs.
func (p *passing) Write(b []byte) (int, error) {
	if how, _ := p.door.now(); how == hangs {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

// Close implements net.Conn.
func (p *passing) Close() error {
	p.door.mu.Lock()
	delete(p.door.open, p)
	p.door.mu.Unlock()
	return p.Conn.Close()
}

// behindADoor makes a site on the in-process broker, at whose door something can stand. client are the options of a client that passes.
func behindADoor(t *testing.T) (s *site, d *door, client []kgo.Opt) {
	t.Helper()
	d = &door{changed: make(chan struct{}), open: map[*passing]bool{}}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(acmruntime.Partitions, topic, acmruntime.SyncTopic),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			listener, err := net.Listen(network, address)
			if d.Listener != nil {
				err = errors.Join(err, errors.New("bug: there is one broker"))
			}
			d.Listener = listener
			return d, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	t.Cleanup(func() { d.set("") })
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: outside}}
	client = []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...), kgo.Dialer(dialer.DialContext)}
	side, err := acmruntime.OnKafka(broker.ListenAddrs(), client...)
	if err != nil {
		t.Fatal(err)
	}
	return newSite(t, acmruntime.V910, side, "kafka", broker.ListenAddrs(), nil), d, client
}
