package kafka

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm/acmtest"
)

// TestATroubleIsToldOnce: polls fail for as long as a topic cannot be read, one partition or the other first.
func TestATroubleIsToldOnce(t *testing.T) {
	said := &acmtest.Lines{}
	c := &consumer{log: said.Logger()}
	failing := func(partition int32, err error) kgo.Fetches {
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "t", Partitions: []kgo.FetchPartition{{Partition: partition, Err: err}}}}}}
	}
	for n, one := range []struct {
		fetches kgo.Fetches
		lines   int
	}{
		{failing(1, kerr.UnknownTopicID), 1},
		{failing(2, kerr.UnknownTopicID), 1},
		{failing(1, kerr.TopicAuthorizationFailed), 2},
		{kgo.Fetches{}, 2},
		{failing(1, kerr.TopicAuthorizationFailed), 3},
	} {
		c.note(one.fetches)
		if got := said.With("cannot be read"); len(got) != one.lines {
			t.Errorf("after poll %d it has said %q", n, got)
		}
	}
}

// TestARefusedTopicIsToldOnce: a topic that nobody has named is tried for ever, and is no trouble.
func TestARefusedTopicIsToldOnce(t *testing.T) {
	said := &acmtest.Lines{}
	c := &consumer{log: said.Logger(), optional: true}
	for _, err := range []error{kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed} {
		c.note(kgo.Fetches{{Topics: []kgo.FetchTopic{{Partitions: []kgo.FetchPartition{{Err: &kgo.ErrGroupSession{Err: err}}}}}}})
		c.note(kgo.Fetches{})
	}
	if got := said.With("does not let this topic be read"); len(got) != 1 || c.trouble.Load() != nil {
		t.Errorf("it has said %q", got)
	}
}

// TestConnectionsAreBounded: what closes the connections that it accepts is not asked as fast as it answers.
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	const length = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	dial, n := Config{}.dialer(), 0
	for {
		conn, err := dial(ctx, "tcp", listener.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
		n++
	}
	if most := dials + int(dialsPerSecond*length.Seconds()) + 1; n < dials || n > most {
		t.Errorf("%d connections were made in %s, not %d to %d", n, length, dials, most)
	}
}
