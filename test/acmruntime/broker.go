package acmruntime

import (
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/internal/acm/kafka"
)

// Topic is the topic of everything that is said.
const Topic = config.DefaultTopic

// OnKafka is the runtime's side of a Kafka broker. change gives credentials, say; nil for none.
func OnKafka(servers []string, change func(*kafka.Config)) (acm.Transport, error) {
	c := kafka.Config{Servers: servers, OperationTopic: Topic, Group: "acm-runtime", ReplicaID: uuid.NewString()}
	if change != nil {
		change(&c)
	}
	return kafka.New(c, logr.Discard())
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
