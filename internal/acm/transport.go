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
