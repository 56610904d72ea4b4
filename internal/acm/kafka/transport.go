package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/internal/acm"
)

// Transport is a acm.Transport over Kafka.
type Transport struct {
	consumers []*consumer
	producer  *kgo.Client
	topic     string
	received  chan acm.Batch
	cancel    context.CancelFunc
	running   sync.WaitGroup
	// unpublished is why the last messages were not published; nil where they were.
	unpublished atomic.Pointer[error]
	mu          sync.Mutex
	// publishing is since when messages are on their way.
	publishing map[*kgo.Record]time.Time
}

// New connects to the broker. It returns at once; what does not work is told by Receive and Publish.
func New(config Config, log logr.Logger) (*Transport, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	common, err := config.options()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Transport{topic: config.PublishTopic, received: make(chan acm.Batch), cancel: cancel, publishing: map[*kgo.Record]time.Time{}}
	if t.topic == "" {
		t.topic = config.OperationTopic
	}
	for _, read := range config.Broker().Topics {
		topic, group := read.Name, read.Group
		optional, about := config.SyncOptional && topic == config.SyncTopic, log.WithValues("topic", topic, "group", group)
		one, err := newConsumer(topic, group, optional,
			slices.Concat(config.consumer(group, topic), common, []kgo.Opt{kgo.WithLogger(newClientLog(about))}), about)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.consumers = append(t.consumers, one)
		t.running.Go(func() { one.run(ctx, t.received) })
	}
	if t.producer, err = kgo.NewClient(slices.Concat(common, config.creation(), []kgo.Opt{kgo.WithLogger(newClientLog(log))})...); err != nil {
		t.Close()
		return nil, fmt.Errorf("make a Kafka producer: %w", err)
	}
	return t, nil
}

// Receive implements acm.Transport.
func (t *Transport) Receive(ctx context.Context) (acm.Batch, error) {
	select {
	case <-ctx.Done():
		return acm.Batch{}, ctx.Err()
	case batch := <-t.received:
		return batch, nil
	}
}

// Publish implements acm.Transport.
func (t *Transport) Publish(ctx context.Context, messages ...acm.Outgoing) error {
	records := make([]*kgo.Record, 0, len(messages))
	for _, m := range messages {
		records = append(records, &kgo.Record{Topic: t.topic, Key: []byte(m.Key), Value: m.Body})
	}
	if err := t.produce(ctx, records); err != nil {
		err = fmt.Errorf("publish on topic %s: %w%s", t.topic, err, remedy(err, t.topic))
		t.unpublished.Store(&err)
		if errors.Is(err, kerr.UnknownTopicID) {
			t.producer.PurgeTopicsFromProducing(t.topic) // As in consumer.renew.
		}
		return err
	}
	t.unpublished.Store(nil)
	return nil
}

// produce waits until the broker has taken records.
func (t *Transport) produce(ctx context.Context, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	t.mu.Lock()
	t.publishing[records[0]] = time.Now()
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.publishing, records[0])
	}()
	return t.producer.ProduceSync(ctx, records...).FirstErr()
}

// silent is why messages are on their way for too long: the client does not give up what a broker may have taken. Nil where none are.
func (t *Transport) silent() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, since := range t.publishing {
		if took := time.Since(since); took > delivery {
			return fmt.Errorf("publish on topic %s: the broker has not answered for %s", t.topic, took.Round(time.Second))
		}
	}
	return nil
}

// remedy says what helps against an error of the broker, where its words do not; empty for nothing.
func remedy(err error, topic string) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return "; the broker has no such topic and makes none: create it, as kafka-topics.sh --create --topic " + topic + " --partitions 10 does"
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		// What asks for this is the producer, which wants its records counted: the right to write any topic is enough for it.
		return "; allow the participant's user the operation Write on topic " + topic
	}
	return ""
}

// Healthy implements acm.Transport. A broker that is not there is noticed by what is published; what it refuses to let be read, by
// reading.
func (t *Transport) Healthy() error {
	for _, c := range t.consumers {
		if trouble := c.trouble.Load(); trouble != nil {
			return fmt.Errorf("topic %s cannot be read: %w", c.topic, *trouble)
		}
	}
	if failure := t.unpublished.Load(); failure != nil {
		return *failure
	}
	return t.silent()
}

// Topics implements acm.Transport.
func (t *Transport) Topics(ctx context.Context) []acm.TopicState {
	unpublished := t.unpublished.Load()
	var out []acm.TopicState
	for _, c := range t.consumers {
		one := acm.TopicState{Name: c.topic, Lag: -1, Refused: c.refused.Load()}
		one.Connected = !one.Refused && c.trouble.Load() == nil && (c.topic != t.topic || unpublished == nil)
		ctx, end := context.WithTimeout(ctx, asking)
		if lag, err := c.lag(ctx); err == nil {
			one.Lag = lag
		}
		end()
		out = append(out, one)
	}
	return out
}

// asking is how long the broker is asked for the end of a topic.
const asking = 5 * time.Second

// Close implements acm.Transport. Static members do not leave their group: who comes next takes their place.
func (t *Transport) Close() {
	t.cancel()
	t.running.Wait()
	// Nobody is waited for: there is nothing to tell the group.
	ended, end := context.WithCancel(context.Background())
	end()
	for _, c := range t.consumers {
		_ = c.client.LeaveGroupContext(ended)
		c.client.CloseAllowingRebalance()
	}
	if t.producer != nil {
		t.producer.Close()
	}
}

var _ acm.Transport = &Transport{}
