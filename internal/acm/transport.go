package acm

import "context"

// Transport carries records between the runtime and the participant: Kafka, or the DMaaP Message Router.
type Transport interface {
	// Receive blocks until there are records, and returns those of one topic and a moment. No others of that topic follow before
	// they are Done. An error ends neither the transport nor the participant, which asks again after a while.
	Receive(ctx context.Context) (Batch, error)
	// Publish sends messages in their order and returns when the broker has them all. After an error some may have arrived.
	Publish(ctx context.Context, messages ...Outgoing) error
	// Healthy says which topic cannot be read or written; nil for none.
	Healthy() error
	// Topics says how the topics fare that are read; it may ask the broker.
	Topics(ctx context.Context) []TopicState
	// Close leaves the broker.
	Close()
}

// Batch is what was received in a moment.
type Batch struct {
	// Records are the values of the records.
	Records [][]byte
	// Done says that everything that follows from the records is stored.
	Done func(ctx context.Context) error
}

// Broker says where and what a participant reads and writes.
type Broker struct {
	// Kind is Kafka or DMaaP.
	Kind    string
	Servers []string
	// Topics are read, PublishTopic is written.
	Topics       []Topic
	PublishTopic string
}

// Reads names the topics that are read, with their groups.
func (b Broker) Reads() []string {
	var out []string
	for _, topic := range b.Topics {
		out = append(out, topic.Name+" in group "+topic.Group)
	}
	return out
}

// Topic is a topic that is read, and the consumer group that it is read in.
type Topic struct{ Name, Group string }

// TopicState is how a topic fares that is read.
type TopicState struct {
	Name string
	// Connected says that it can be read and, if it is written too, written.
	Connected bool
	// Refused says that the broker does not let it be read, which is no harm: nobody has named it.
	Refused bool
	// Lag is how many records are not done with; negative where that is not known.
	Lag int64
}
