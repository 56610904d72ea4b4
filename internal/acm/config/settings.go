package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/dmaap"
	"mlkeeper.dev/internal/acm/kafka"
)

// The defaults are those of the original (policy/clamp, participant-impl-kserve, and its Helm charts).
const (
	DefaultParticipantID = "101c62b3-8918-41b9-a747-d21eb79c6c04"
	DefaultType          = "org.onap.policy.clamp.acm.KserveAutomationCompositionElement"
	DefaultTypeVersion   = "1.0.1"
	DefaultTopic         = "policy-acruntime-participant"
	DefaultSyncTopic     = "acm-ppnt-sync"
	DefaultGroup         = "policy-clamp-ac-kserve-ppnt"
	DefaultContextPath   = "/onap/policy/clamp/acm/kserveparticipant"
)

// Settings are what a file says.
type Settings struct {
	Identity acm.Identity
	// Interval is the time between heartbeats; zero where the file says nothing.
	Interval time.Duration
	// Kafka or DMaaP is set, the other nil.
	Kafka *kafka.Config
	DMaaP *dmaap.Config
	HTTP  HTTP
}

// HTTP is where the original serves health and metrics.
type HTTP struct {
	// Port is zero where the file names none: then nothing is served there.
	Port        int
	ContextPath string
	// User and Password are what the original asks for; empty for none.
	User, Password string
}

// Options are what a file does not say.
type Options struct {
	// Installation tells installations with the same participant id apart; a UUID, such as that of a cluster's kube-system.
	Installation string
	Version      string
	// Env looks up the variables that the file refers to; nil means those of the process.
	Env func(string) (string, bool)
	// ReadFile reads certificates that the file names; nil means os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Read reads an application.yaml.
func Read(text []byte, options Options) (Settings, error) {
	if options.Env == nil {
		options.Env = os.LookupEnv
	}
	if options.ReadFile == nil {
		options.ReadFile = os.ReadFile
	}
	f, err := parse(text, options.Env)
	if err != nil {
		return Settings{}, err
	}
	if err := f.checkKind(); err != nil {
		return Settings{}, err
	}
	out := Settings{}
	if out.HTTP, err = f.http(); err != nil {
		return Settings{}, err
	}
	if out.Identity, err = f.identity(options); err != nil {
		return Settings{}, err
	}
	if out.Interval, err = f.interval(); err != nil {
		return Settings{}, err
	}
	return out, f.transport(&out, options)
}

// minInterval is the shortest time between heartbeats: with each, the runtime looks at everything that it supervises. maxInterval is the longest:
// runtimes since Paris mark a participant OFF_LINE that is silent for 150 s, those before for 200 s.
const minInterval, maxInterval = time.Second, 2 * time.Minute

// interval is the time between heartbeats; zero for the default. Files for older runtimes may have a longer one than newer runtimes wait for.
func (f file) interval() (time.Duration, error) {
	given := f.Participant.Intermediary.Interval
	if given == nil {
		return 0, nil
	}
	milliseconds := int64(*given)
	if milliseconds < minInterval.Milliseconds() {
		return 0, fmt.Errorf("participant.intermediaryParameters.reportingTimeIntervalMs is %d: set it to %d or more; the default is 120000",
			milliseconds, minInterval.Milliseconds())
	}
	return time.Duration(min(milliseconds, maxInterval.Milliseconds())) * time.Millisecond, nil
}

// checkKind refuses a file that has something else made than InferenceServices.
func (f file) checkKind() error {
	c := f.CRD
	for _, one := range []struct{ key, is, want string }{
		{"group", c.Group, "serving.kserve.io"}, {"version", c.Version, "v1beta1"}, {"plural", c.Plural, "inferenceservices"},
	} {
		if one.is != "" && one.is != one.want {
			return fmt.Errorf("customresourcedefinition.%s is %q: nothing but %s is made from payloads; remove the key, or set it to %s",
				one.key, one.is, one.want, one.want)
		}
	}
	return nil
}

func (f file) identity(options Options) (acm.Identity, error) {
	i := f.Participant.Intermediary
	out := acm.Identity{ParticipantID: cmp.Or(i.ParticipantID, DefaultParticipantID), Version: options.Version}
	id, err := uuid.Parse(out.ParticipantID)
	if err != nil {
		return out, fmt.Errorf("participant.intermediaryParameters.participantId is %q, which is no UUID", out.ParticipantID)
	}
	out.ParticipantID = id.String()
	out.ReplicaID = uuid.NewSHA1(id, []byte("replica "+options.Installation)).String()
	for _, t := range i.Supported {
		out.Supported = append(out.Supported, elementType(id, t.TypeName, t.TypeVersion))
	}
	if len(out.Supported) == 0 {
		out.Supported = []acm.ElementType{elementType(id, DefaultType, DefaultTypeVersion)}
	}
	return out, nil
}

func elementType(participant uuid.UUID, name, version string) acm.ElementType {
	return acm.ElementType{ID: uuid.NewSHA1(participant, []byte(name+" "+version)).String(), TypeName: name, TypeVersion: version}
}

// transport settles how the runtime is reached.
func (f file) transport(out *Settings, options Options) error {
	i := f.Participant.Intermediary
	if servers := f.Kafka.BootstrapServers; servers != "" {
		return f.kafka(out, topic{
			Servers: []string{servers}, ConsumerGroup: f.Kafka.Consumer.GroupID, AdditionalProps: f.Kafka.Properties,
		}, topic{}, options)
	}
	if len(i.Lists.Sources) == 0 {
		return errors.New("the file names no topic: set participant.intermediaryParameters.clampAutomationCompositionTopics.topicSources")
	}
	source, sink := i.Lists.Sources[0], topic{}
	if len(i.Lists.Sinks) > 0 {
		sink = i.Lists.Sinks[0]
	}
	switch strings.ToLower(source.Infrastructure) {
	case "kafka":
		return f.kafka(out, source, sink, options)
	case "dmaap", "ueb":
		out.DMaaP = &dmaap.Config{
			Servers: split(source.Servers), HTTPS: bool(source.UseHTTPS), Topic: source.Topic, PublishTopic: sink.Topic,
			Group: cmp.Or(source.ConsumerGroup, DefaultGroup), Instance: cmp.Or(source.ConsumerInstance, out.Identity.ReplicaID),
			FetchTimeout: time.Duration(source.FetchTimeout) * time.Millisecond,
			User:         source.UserName, Password: source.Password, APIKey: source.APIKey, APISecret: source.APISecret,
		}
		secured, err := readSecurity(source.AdditionalProps, bool(source.UseHTTPS), options.ReadFile)
		if err != nil {
			return err
		}
		if secured.mechanism != "" {
			return errors.New(mechanismKey + " is set, and the Message Router knows no SASL: set userName and password, or apiKey and apiSecret")
		}
		out.DMaaP.HTTPS, out.DMaaP.TLS = secured.tls != nil, secured.tls
		return out.DMaaP.Validate()
	}
	return fmt.Errorf("topicSources[0].topicCommInfrastructure is %q, which carries nothing: set kafka or dmaap", source.Infrastructure)
}

func (f file) kafka(out *Settings, source, sink topic, options Options) error {
	topics := f.Participant.Intermediary.Topics
	config := &kafka.Config{
		Servers: split(source.Servers), OperationTopic: cmp.Or(source.Topic, topics.Operation, DefaultTopic), PublishTopic: sink.Topic,
		SyncTopic: cmp.Or(topics.Sync, f.syncTopic(cmp.Or(source.Topic, topics.Operation, DefaultTopic))), ReplicaID: out.Identity.ReplicaID,
		Group:           cmp.Or(source.ConsumerGroup, source.AdditionalProps["group.id"], DefaultGroup),
		NoTopicCreation: strings.EqualFold(source.AdditionalProps["allow.auto.create.topics"], "false"),
	}
	if config.SyncTopic == "" {
		// Files for London to New Delhi name one topic, and their runtimes have no other; later ones answer on the second alone.
		config.SyncTopic, config.SyncOptional = DefaultSyncTopic, true
	}
	secured, err := readSecurity(source.AdditionalProps, bool(source.UseHTTPS), options.ReadFile)
	if err != nil {
		return err
	}
	config.TLS, config.Mechanism, config.User, config.Password = secured.tls, secured.mechanism, secured.user, secured.password
	out.Kafka = config
	return config.Validate()
}

// split takes servers apart that stand in one text, with commas between them, as clients of Kafka take them.
func split(servers []string) []string {
	var out []string
	for _, text := range servers {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}

// syncTopic is the second topic of the list, which is that of synchronizations (Oslo to 9.0.1).
func (f file) syncTopic(operation string) string {
	for _, source := range f.Participant.Intermediary.Lists.Sources {
		if source.Topic != operation {
			return source.Topic
		}
	}
	return ""
}
