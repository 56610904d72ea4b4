package acmruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/internal/acm/kafka"
)

// The topics of a runtime.
const (
	// Topic is that of orders and of all that participants say.
	Topic = config.DefaultTopic
	// SyncTopic is that on which runtimes since Oslo answer and synchronize.
	SyncTopic = config.DefaultSyncTopic
)

// OnKafka is the runtime's side of a Kafka broker. change gives credentials, say; nil for none.
func OnKafka(release Release, servers []string, change func(*kafka.Config)) (acm.Transport, error) {
	c := kafka.Config{Servers: servers, OperationTopic: Topic, Group: "acm-runtime", ReplicaID: uuid.NewString()}
	if change != nil {
		change(&c)
	}
	operations, err := kafka.New(c, logr.Discard())
	if err != nil || release == London {
		return operations, err
	}
	c.OperationTopic, c.Group = SyncTopic, "acm-runtime-sync"
	syncs, err := kafka.New(c, logr.Discard())
	if err != nil {
		operations.Close()
		return nil, err
	}
	return twoTopics{operations, syncs}, nil
}

// twoTopics is the side of runtimes since Oslo.
type twoTopics struct {
	acm.Transport
	syncs acm.Transport
}

// onSyncTopic is what those runtimes send on the second topic (sendToSyncTopic in the publishers of policy/clamp 9.1.0).
var onSyncTopic = []acm.MessageType{acm.TypeRegisterAck, acm.TypeStatusReq, acm.TypeSync}

// Publish implements acm.Transport.
func (t twoTopics) Publish(ctx context.Context, messages ...acm.Outgoing) error {
	for _, m := range messages {
		to := t.Transport
		if slices.Contains(onSyncTopic, m.Type) {
			to = t.syncs
		}
		if err := to.Publish(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Close implements acm.Transport.
func (t twoTopics) Close() {
	t.Transport.Close()
	t.syncs.Close()
}

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
