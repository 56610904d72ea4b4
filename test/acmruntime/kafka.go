package acmruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Partitions is how many a topic has in ONAP (helm/strimzi-kafka and compose of policy/clamp).
const Partitions = 10

// kafkaBus is the side of a Kafka broker.
type kafkaBus struct {
	client *kgo.Client
}

// OnKafka is the runtime's side of a Kafka broker: spring-kafka's consumer in the group acm-runtime, which starts at the end of what it
// has no position for (auto.offset.reset latest), and a producer that uses the partitionKey of a message as the key of its record and
// sends no headers (AbstractParticipantPublisher). As Java's producer does, it has a topic created that the broker does not know, and
// waits for it (max.block.ms, one minute). options give credentials, say.
func OnKafka(servers []string, options ...kgo.Opt) (Bus, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(servers...), kgo.ConsumerGroup("acm-runtime"), kgo.ConsumeTopics(Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1), kgo.RecordDeliveryTimeout(time.Minute),
		// Tests send more than the megabyte that producers send by themselves.
		kgo.ProducerBatchMaxBytes(4 << 20),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return &kafkaBus{client}, nil
}

// Send implements Bus.
func (b *kafkaBus) Send(ctx context.Context, topic string, key, value []byte) error {
	return b.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: key, Value: value}).FirstErr()
}

// Receive implements Bus.
func (b *kafkaBus) Receive(ctx context.Context) ([]Record, error) {
	fetches := b.client.PollFetches(ctx)
	var out []Record
	fetches.EachRecord(func(r *kgo.Record) {
		key := r.Key
		if key == nil {
			key = []byte{}
		}
		out = append(out, Record{Key: key, Value: r.Value})
	})
	if len(out) == 0 {
		return nil, fetches.Err()
	}
	return out, nil
}

// Close implements Bus.
func (b *kafkaBus) Close() { b.client.Close() }

// Application is an application.yaml for a participant, with a consumer group of its own. properties are the additionalProps of
// the topic; nil for none.
func Application(participant, infrastructure string, servers []string, properties map[string]string) string {
	list, err := json.Marshal(servers)
	if err != nil {
		panic("bug: servers do not encode: " + err.Error())
	}
	props, err := json.Marshal(properties)
	if err != nil {
		panic("bug: properties do not encode: " + err.Error())
	}
	return fmt.Sprintf(`participant:
  intermediaryParameters:
    reportingTimeIntervalMs: 120000
    participantId: %[1]s
    clampAutomationCompositionTopics:
      topicSources:
        - {topic: %[2]s, servers: %[3]s, topicCommInfrastructure: %[4]s, fetchTimeout: 1000, consumerGroup: g-%[1]s, additionalProps: %[5]s}
      topicSinks:
        - {topic: %[2]s, servers: %[3]s, topicCommInfrastructure: %[4]s}
    participantSupportedElementTypes:
      - {typeName: %[6]s, typeVersion: %[7]s}
`, participant, Topic, list, infrastructure, props, Type, TypeVersion)
}
