package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm"
)

// consumer is a member of one group.
type consumer struct {
	client *kgo.Client
	log    logr.Logger
	// topic is what it reads; optional says that the broker may refuse it without harm.
	topic    string
	optional bool
	// trouble is why the topic cannot be read; nil while it can.
	trouble atomic.Pointer[error]
	// made is closed when client is set: assignments may come before.
	made chan struct{}
}

func newConsumer(topic string, optional bool, options []kgo.Opt, log logr.Logger) (*consumer, error) {
	c := &consumer{topic: topic, optional: optional, log: log, made: make(chan struct{})}
	client, err := kgo.NewClient(append(options, kgo.AdjustFetchOffsetsFn(c.positions))...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka consumer: %w", err)
	}
	c.client = client
	close(c.made)
	return c, nil
}

// positions gives partitions without a position that of their end, and commits it at once: what is sent from now on is then
// read, whenever that will be.
func (c *consumer) positions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-c.made
	first := map[string]map[int32]kgo.EpochOffset{}
	for topic, partitions := range offsets {
		ends := kadm.ListedOffsets(nil)
		for partition, offset := range partitions {
			if offset.EpochOffset().Offset >= 0 {
				continue
			}
			if ends == nil {
				var err error
				if ends, err = kadm.NewClient(c.client).ListEndOffsets(ctx, topic); err != nil {
					return nil, fmt.Errorf("find the end of topic %s: %w", topic, err)
				}
			}
			end, ok := ends.Lookup(topic, partition)
			if !ok || end.Err != nil {
				continue
			}
			partitions[partition] = kgo.NewOffset().At(end.Offset)
			if first[topic] == nil {
				first[topic] = map[int32]kgo.EpochOffset{}
			}
			first[topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: end.Offset}
		}
	}
	if len(first) > 0 {
		// Not from here: the group is not ready for it before this returns.
		go c.client.CommitOffsetsSync(ctx, first, nil)
	}
	return offsets, nil
}

// run hands over batches, one at a time, until its context is done.
func (c *consumer) run(ctx context.Context, to chan<- acm.Batch) {
	defer c.client.AllowRebalance()
	for ctx.Err() == nil {
		polled, end := context.WithTimeout(ctx, quiet)
		fetches := c.client.PollRecords(polled, maxRecords)
		end()
		if ctx.Err() != nil {
			return
		}
		c.note(fetches)
		if records := fetches.Records(); len(records) > 0 {
			c.deliver(ctx, to, records)
		}
		c.client.AllowRebalance()
	}
}

// quiet is how long nothing may go wrong until a topic that brings no records counts as readable again: longer than the client
// waits before it tries again what has failed.
const quiet = 30 * time.Second

// note keeps whether a poll has met an error, on any partition.
func (c *consumer) note(fetches kgo.Fetches) {
	var trouble error
	fetches.EachError(func(_ string, partition int32, err error) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
		case c.optional && refused(err):
			c.log.Info("the broker does not let this topic be read, which nobody has named: runtimes since Oslo synchronize by it", "why", err.Error())
		default:
			trouble = fmt.Errorf("partition %d: %w", partition, err)
		}
	})
	if trouble == nil {
		c.trouble.Store(nil)
		return
	}
	c.trouble.Store(&trouble)
	c.log.Error(trouble, "the topic cannot be read")
}

// refused says that the broker's access rules forbid a topic or a group.
func refused(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// deliver hands records over and waits until they are done.
func (c *consumer) deliver(ctx context.Context, to chan<- acm.Batch, records []*kgo.Record) {
	done := make(chan struct{})
	batch := acm.Batch{Done: func(ctx context.Context) error {
		err := c.client.CommitRecords(ctx, records...)
		if err != nil && !moved(err) {
			return fmt.Errorf("commit: %w", err)
		}
		if err != nil {
			c.log.Info("records were stored whose partitions have gone to another; it will see that they are", "why", err.Error())
		}
		close(done)
		return nil
	}}
	for _, r := range records {
		batch.Records = append(batch.Records, r.Value)
	}
	select {
	case <-ctx.Done():
		return
	case to <- batch:
	}
	select {
	case <-ctx.Done():
	case <-done:
	}
}

// moved says that the partitions of a commit have gone to another member, which will be given the records again.
func moved(err error) bool {
	for _, gone := range []error{
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.FencedInstanceID, kerr.StaleMemberEpoch,
	} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
