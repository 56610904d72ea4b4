package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/backoff"
)

// consumer is a member of one group.
type consumer struct {
	client *kgo.Client
	log    logr.Logger
	// topic is what it reads, in a group; optional says that the broker may refuse it without harm.
	topic, group string
	optional     bool
	// trouble is why the topic cannot be read; nil while it can.
	trouble atomic.Pointer[error]
	// refused says that the broker does not let an optional topic be read, and toldRefused that the log has told so.
	refused     atomic.Bool
	toldRefused bool
	// made is closed when client is set: assignments may come before.
	made chan struct{}
	// committing has commits follow one another, and guards first: the positions that are not committed yet, by partition.
	committing sync.Mutex
	first      map[int32]kgo.EpochOffset
}

func newConsumer(topic, group string, optional bool, options []kgo.Opt, log logr.Logger) (*consumer, error) {
	c := &consumer{topic: topic, group: group, optional: optional, log: log, made: make(chan struct{})}
	client, err := kgo.NewClient(append(options, kgo.AdjustFetchOffsetsFn(c.positions))...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka consumer: %w", err)
	}
	c.client = client
	close(c.made)
	return c, nil
}

// positions gives partitions without a position that of their end, and has it committed at once: what is sent from now on is then
// read, whenever that will be. Without the end of one, such as that of a partition whose leader is elected, the client asks again after a
// while: it would read the partition from its start otherwise, and orders of long ago with it.
func (c *consumer) positions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-c.made
	first := map[int32]kgo.EpochOffset{}
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
				return nil, fmt.Errorf("find the end of partition %d of topic %s: %w", partition, topic, cmp.Or(end.Err, error(kerr.UnknownTopicOrPartition)))
			}
			partitions[partition] = kgo.NewOffset().At(end.Offset)
			first[partition] = kgo.EpochOffset{Epoch: -1, Offset: end.Offset}
		}
	}
	if len(first) > 0 {
		c.committing.Lock()
		c.first = first
		c.committing.Unlock()
		// Not from here: the group is not ready for it before this returns.
		go c.commitFirst(ctx)
	}
	return offsets, nil
}

// commitFirst commits the first positions, again until the broker has taken them or the session with the group is over. The next session
// begins with positions again.
func (c *consumer) commitFirst(ctx context.Context) {
	var retry backoff.Retry
	for told := ""; ; {
		failure := c.tryFirst(ctx)
		if failure == nil || ctx.Err() != nil {
			return
		}
		if why := failure.Error(); why != told {
			told = why
			c.log.Info("where the topic is read from is not stored yet, and what is sent while no participant runs would be skipped", "why", why)
		}
		now := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry.Failed(recommit, "", now).Sub(now)):
		}
	}
}

// recommit is when the first positions are committed again after a failure.
var recommit = backoff.Unwatched

// tryFirst commits what is left of the first positions, if anything.
func (c *consumer) tryFirst(ctx context.Context) error {
	c.committing.Lock()
	defer c.committing.Unlock()
	if len(c.first) == 0 {
		return nil
	}
	failure := c.commitAt(ctx, c.first)
	if failure == nil {
		c.first = nil
	}
	return failure
}

// commitAt commits positions.
func (c *consumer) commitAt(ctx context.Context, positions map[int32]kgo.EpochOffset) error {
	var failure error
	c.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{c.topic: positions},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failure = err
			if response == nil {
				return
			}
			for _, t := range response.Topics {
				for _, p := range t.Partitions {
					failure = cmp.Or(failure, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
	return failure
}

// commit commits records. A first position that was not committed yet is not needed any more where there is a later one.
func (c *consumer) commit(ctx context.Context, records []*kgo.Record) error {
	c.committing.Lock()
	defer c.committing.Unlock()
	if err := c.client.CommitRecords(ctx, records...); err != nil {
		return err
	}
	for _, r := range records {
		delete(c.first, r.Partition)
	}
	return nil
}

// lag is how many records of the topic are not done with.
func (c *consumer) lag(ctx context.Context) (int64, error) {
	ends, err := kadm.NewClient(c.client).ListEndOffsets(ctx, c.topic)
	if err != nil {
		return 0, fmt.Errorf("find the end of topic %s: %w", c.topic, err)
	}
	var out int64
	for partition, done := range c.client.CommittedOffsets()[c.topic] {
		if end, ok := ends.Lookup(c.topic, partition); ok && end.Err == nil && done.Offset >= 0 {
			out += max(0, end.Offset-done.Offset)
		}
	}
	return out, nil
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
		c.skip(ctx, fetches)
		c.client.AllowRebalance()
		c.renew(fetches)
	}
}

// skip goes over batches that would become more than maxBatch or maxBatchRecords, at which the client stops otherwise until it is told to go
// on, and the next client again. What precedes one was delivered before: the client tells of a batch when it has nothing else of its
// partition.
func (c *consumer) skip(ctx context.Context, fetches kgo.Fetches) {
	fetches.EachError(func(_ string, partition int32, err error) {
		var large *kgo.ErrDecompressTooLarge
		if ctx.Err() != nil || !errors.As(err, &large) {
			return
		}
		c.log.Info("records are left out: their batch is compressed, and is too large without that", "partition", partition,
			"offset", large.Offset, "next", large.NextOffset, "most", maxBatch, "mostRecords", maxBatchRecords)
		at := kgo.EpochOffset{Epoch: large.Epoch, Offset: large.NextOffset}
		c.committing.Lock()
		defer c.committing.Unlock()
		c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{c.topic: {partition: at}})
		delete(c.first, partition)
		if failure := c.commitAt(ctx, map[int32]kgo.EpochOffset{partition: at}); failure != nil && ctx.Err() == nil {
			c.log.Info("that they are left out is not stored yet: the next commit does it", "partition", partition, "why", failure.Error())
		}
	})
}

// renew looks for the topic anew where that was deleted. A topic of its name that is made later is another one to the client, which
// otherwise asks for the first as fast as it is told that there is none.
func (c *consumer) renew(fetches kgo.Fetches) {
	gone := false
	fetches.EachError(func(_ string, _ int32, err error) { gone = gone || errors.Is(err, kerr.UnknownTopicID) })
	if gone {
		c.client.PurgeTopicsFromConsuming(c.topic)
		c.client.AddConsumeTopics(c.topic)
	}
}

// quiet is how long nothing may go wrong until a topic that brings no records counts as readable again: longer than the client
// waits before it tries again what has failed.
const quiet = 30 * time.Second

// note keeps whether a poll has met an error, on any partition. It tells an error when it is another one than before.
func (c *consumer) note(fetches kgo.Fetches) {
	var trouble error
	refusals := false
	fetches.EachError(func(_ string, partition int32, err error) {
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrMaxDecompress), errors.Is(err, errSpent):
		case c.optional && refused(err):
			refusals = true
			if c.toldRefused {
				return // The client tries to join the group every few seconds, for ever.
			}
			c.toldRefused = true
			c.log.Info("the broker does not let this topic be read, which nobody has named: runtimes since Oslo synchronize by it, and need it allowed", "why", err.Error())
		default:
			trouble = cmp.Or(trouble, fmt.Errorf("partition %d: %w", partition, err))
		}
	})
	c.refused.Store(refusals)
	if trouble == nil {
		c.trouble.Store(nil)
		return
	}
	if before := c.trouble.Swap(&trouble); before == nil || errors.Unwrap(*before).Error() != errors.Unwrap(trouble).Error() {
		c.log.Error(trouble, "the topic cannot be read")
	}
}

// refused says that the broker's access rules forbid a topic or a group.
func refused(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// deliver hands records over and waits until they are done.
func (c *consumer) deliver(ctx context.Context, to chan<- acm.Batch, records []*kgo.Record) {
	done := make(chan struct{})
	batch := acm.Batch{Done: func(ctx context.Context) error {
		err := c.commit(ctx, records)
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
		kerr.UnknownTopicID, // The topic was deleted and made again.
	} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
