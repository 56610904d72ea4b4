package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/kafka"
)

const (
	operations = "policy-acruntime-participant"
	syncs      = "acm-ppnt-sync"
	replica    = "82fd8ef9-1d1e-4343-9b28-7f9564ee3de6"
)

// broker runs franz-go's in-process broker, with the number of partitions that ONAP's compose file has.
func broker(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	out, err := kfake.NewCluster(append([]kfake.Opt{kfake.SeedTopics(10, operations, syncs)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

func config(c *kfake.Cluster) kafka.Config {
	return kafka.Config{
		Servers: c.ListenAddrs(), OperationTopic: operations, SyncTopic: syncs, Group: "policy-clamp-ac-kserve-ppnt", ReplicaID: replica,
	}
}

func open(t *testing.T, c kafka.Config) *kafka.Transport {
	t.Helper()
	out, err := kafka.New(c, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// send publishes as the runtime does.
func send(t *testing.T, c *kfake.Cluster, topic, key, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(within(t), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// receive takes records until there are some, and commits them or not.
func receive(t *testing.T, transport *kafka.Transport, number int, commit bool) []string {
	t.Helper()
	var out []string
	for len(out) < number {
		batch, err := transport.Receive(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range batch.Records {
			out = append(out, string(r))
		}
		if commit {
			if err := batch.Done(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// joined waits until the transport reads: what was sent before is not for a group without a position.
func joined(t *testing.T, c *kfake.Cluster, transport *kafka.Transport) {
	t.Helper()
	for n := range 200 {
		probe := fmt.Sprintf("probe %d", n)
		send(t, c, operations, "probe", probe)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		for {
			batch, err := transport.Receive(ctx)
			if err != nil {
				break
			}
			if err := batch.Done(within(t)); err != nil {
				t.Fatal(err)
			}
			if string(batch.Records[len(batch.Records)-1]) == probe {
				cancel()
				return
			}
		}
		cancel()
	}
	t.Fatal("the transport does not join its group")
}

func TestRoundTrip(t *testing.T) {
	c := broker(t)
	transport := open(t, config(c))
	joined(t, c, transport)
	if err := transport.Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("own echo")}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, transport, 1, true); got[0] != "own echo" {
		t.Errorf("received %q", got)
	}
	send(t, c, syncs, "k", "for every replica")
	if got := receive(t, transport, 1, true); got[0] != "for every replica" {
		t.Errorf("received %q", got)
	}
}

// TestUncommittedComesAgain: a crash between the broker and the cluster loses nothing.
func TestUncommittedComesAgain(t *testing.T) {
	c := broker(t)
	first := open(t, config(c))
	joined(t, c, first)
	send(t, c, operations, "k", "an order")
	if got := receive(t, first, 1, false); got[0] != "an order" {
		t.Fatalf("received %q", got)
	}
	first.Close()
	if got := receive(t, open(t, config(c)), 1, true); got[0] != "an order" {
		t.Errorf("received %q", got)
	}
}

// TestSentWhileNobodyListens: positions are committed at the first assignment already.
func TestSentWhileNobodyListens(t *testing.T) {
	c := broker(t)
	first := open(t, config(c))
	joined(t, c, first)
	first.Close()
	for n := range 20 {
		send(t, c, operations, fmt.Sprint(n), "an order")
	}
	if got := receive(t, open(t, config(c)), 20, true); len(got) != 20 {
		t.Errorf("%d orders came", len(got))
	}
}

// TestOrderIsKept: records of one key come in their order.
func TestOrderIsKept(t *testing.T) {
	c := broker(t)
	transport := open(t, config(c))
	joined(t, c, transport)
	for n := range 50 {
		send(t, c, operations, "one composition", fmt.Sprint(n))
	}
	for n, got := range receive(t, transport, 50, true) {
		if got != fmt.Sprint(n) {
			t.Fatalf("record %d is %q", n, got)
		}
	}
}

// TestTopicOfSynchronizationsComesLater: runtimes before Oslo have none, so that it is not made and its absence is no harm; one that
// comes is read.
func TestTopicOfSynchronizationsComesLater(t *testing.T) {
	c, err := kfake.NewCluster(kfake.SeedTopics(10, operations), kfake.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	transport := open(t, config(c))
	joined(t, c, transport)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(within(t))
	if err != nil || topics.Has(syncs) {
		t.Errorf("there are %v, %v", topics.Names(), err)
	}
	if err := transport.Healthy(); err != nil {
		t.Errorf("its health is %v", err)
	}
	for ctx := within(t); ; {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: syncs, Value: []byte("told")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		soon, end := context.WithTimeout(ctx, 300*time.Millisecond)
		batch, err := transport.Receive(soon)
		end()
		if err == nil && string(batch.Records[0]) == "told" {
			return
		}
	}
}

// TestForbiddenTopicOfSynchronizations: a topic that the file names has to be readable, and stays known as what is wrong while others
// are read and written; one that nobody has named is done without.
func TestForbiddenTopicOfSynchronizations(t *testing.T) {
	var rules []kfake.ACL
	for _, r := range []struct {
		kind kmsg.ACLResourceType
		name string
	}{{kmsg.ACLResourceTypeTopic, operations}, {kmsg.ACLResourceTypeGroup, "policy-clamp-ac-kserve-ppnt"}} {
		rules = append(rules, kfake.ACL{
			Resource: r.kind, Name: r.name, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationAll, Allow: true,
		})
	}
	c := broker(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "kserve", "secret", rules...))
	for _, optional := range []bool{false, true} {
		with := config(c)
		with.Mechanism, with.User, with.Password, with.SyncOptional = "PLAIN", "kserve", "secret", optional
		noticed := make(chan struct{}, 100)
		transport, err := kafka.New(with, funcr.New(func(string, string) { noticed <- struct{}{} }, funcr.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-noticed:
		case <-within(t).Done():
			t.Fatal("a topic that cannot be read is not noticed")
		}
		if err := transport.Publish(within(t), acm.Outgoing{Key: "k", Body: []byte("own echo")}); err != nil {
			t.Fatal(err)
		}
		if err := transport.Healthy(); (err == nil) != optional || err != nil && !strings.Contains(err.Error(), syncs) {
			t.Errorf("optional %t: its health is %v", optional, err)
		}
		if one := transport.Topics(within(t))[1]; one.Name != syncs || one.Connected || one.Refused != optional {
			t.Errorf("optional %t: its state is %+v", optional, one)
		}
		transport.Close()
	}
}

func TestSASL(t *testing.T) {
	for _, mechanism := range []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"} {
		t.Run(mechanism, func(t *testing.T) {
			c := broker(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "strimzi", "secret"))
			with := config(c)
			with.Mechanism, with.User, with.Password = mechanism, "strimzi", "secret"
			if err := open(t, with).Publish(within(t), acm.Outgoing{Body: []byte("{}")}); err != nil {
				t.Error(err)
			}
			with.Password = "wrong"
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			if err := open(t, with).Publish(ctx, acm.Outgoing{Body: []byte("{}")}); err == nil {
				t.Error("a wrong password is taken")
			}
		})
	}
}

func TestValidate(t *testing.T) {
	good := kafka.Config{Servers: []string{"kafka:9092"}, OperationTopic: "t", Group: "g", ReplicaID: replica}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*kafka.Config){
		"no servers":        func(c *kafka.Config) { c.Servers = nil },
		"no topic":          func(c *kafka.Config) { c.OperationTopic = "" },
		"unknown mechanism": func(c *kafka.Config) { c.Mechanism = "GSSAPI" },
	} {
		bad := good
		change(&bad)
		if _, err := kafka.New(bad, logr.Discard()); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestARestartReadsSoon: what was sent while nobody listened is read after the start, in a partition with a position of an earlier record
// too. The client verifies such a position before it fetches from there, and a fetch of the other partitions is under way by then: as long
// as a broker may hold that one, the order waits.
func TestARestartReadsSoon(t *testing.T) {
	c := broker(t)
	var longest atomic.Int32
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if fetch, ok := r.(*kmsg.FetchRequest); ok {
			longest.Store(max(longest.Load(), fetch.MaxWaitMillis))
		}
		return nil, nil, false
	})
	first := open(t, config(c))
	joined(t, c, first)
	send(t, c, operations, "k", "an order")
	receive(t, first, 1, true)
	first.Close()
	send(t, c, operations, "k", "another order")
	if got := receive(t, open(t, config(c)), 1, true); got[0] != "another order" {
		t.Errorf("received %q", got)
	}
	// Kafka's own default of fetch.max.wait.ms.
	if held := longest.Load(); held <= 0 || held > 500 {
		t.Errorf("the broker may hold a fetch for %d ms", held)
	}
}
