package kafka

import (
	"context"
	"errors"
	"fmt"

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
	// made is closed when client is set: assignments may come before.
	made chan struct{}
}

func newConsumer(options []kgo.Opt, log logr.Logger) (*consumer, error) {
	c := &consumer{log: log, made: make(chan struct{})}
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
func (c *consumer) run(ctx context.Context, to chan<- received) {
	defer c.client.AllowRebalance()
	for ctx.Err() == nil {
		fetches := c.client.PollRecords(ctx, maxRecords)
		if ctx.Err() != nil {
			return
		}
		if err := fetches.Err0(); err != nil {
			c.hand(ctx, to, received{err: fmt.Errorf("read from Kafka: %w", err)})
		}
		fetches.EachError(func(_ string, partition int32, err error) {
			c.log.Error(err, "a partition cannot be read", "partition", partition)
		})
		if records := fetches.Records(); len(records) > 0 {
			c.deliver(ctx, to, records)
		}
		c.client.AllowRebalance()
	}
}

// deliver hands records over and waits until they are done.
func (c *consumer) deliver(ctx context.Context, to chan<- received, records []*kgo.Record) {
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
	if !c.hand(ctx, to, received{batch: batch}) {
		return
	}
	select {
	case <-ctx.Done():
	case <-done:
	}
}

func (c *consumer) hand(ctx context.Context, to chan<- received, one received) bool {
	select {
	case <-ctx.Done():
		return false
	case to <- one:
		return true
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
