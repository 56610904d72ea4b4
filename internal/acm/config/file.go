package config

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// file is what is read of application.yaml; everything else in it is for Spring.
type file struct {
	Participant struct {
		Intermediary intermediary `json:"intermediaryParameters"`
	} `json:"participant"`
	CRD struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Plural  string `json:"plural"`
	} `json:"customresourcedefinition"`
	Spring struct {
		Security struct {
			User struct {
				Name     string `json:"name"`
				Password string `json:"password"`
			} `json:"user"`
		} `json:"security"`
	} `json:"spring"`
	Server struct {
		Port    int `json:"port"`
		Servlet struct {
			ContextPath string `json:"context-path"`
		} `json:"servlet"`
	} `json:"server"`
	// Kafka replaces the topic lists in the current master.
	Kafka struct {
		BootstrapServers string            `json:"bootstrapServers"`
		Properties       map[string]string `json:"properties"`
		Consumer         struct {
			GroupID string `json:"groupId"`
		} `json:"consumer"`
	} `json:"kafka"`
}

type intermediary struct {
	Interval      int    `json:"reportingTimeIntervalMs"`
	ParticipantID string `json:"participantId"`
	Lists         struct {
		Sources []topic `json:"topicSources"`
		Sinks   []topic `json:"topicSinks"`
	} `json:"clampAutomationCompositionTopics"`
	// Topics are the names since 9.0.2.
	Topics struct {
		Operation string `json:"operationTopic"`
		Sync      string `json:"syncTopic"`
	} `json:"topics"`
	Supported []struct {
		TypeName    string `json:"typeName"`
		TypeVersion string `json:"typeVersion"`
	} `json:"participantSupportedElementTypes"`
}

// topic is one entry of the topic lists.
type topic struct {
	Topic            string            `json:"topic"`
	Servers          []string          `json:"servers"`
	Infrastructure   string            `json:"topicCommInfrastructure"`
	FetchTimeout     int               `json:"fetchTimeout"`
	ConsumerGroup    string            `json:"consumerGroup"`
	ConsumerInstance string            `json:"consumerInstance"`
	UseHTTPS         bool              `json:"useHttps"`
	APIKey           string            `json:"apiKey"`
	APISecret        string            `json:"apiSecret"`
	UserName         string            `json:"userName"`
	Password         string            `json:"password"`
	AdditionalProps  map[string]string `json:"additionalProps"`
}

// parse reads a file, with Spring's placeholders filled from the environment, and from the file itself.
func parse(text []byte, env func(string) (string, bool)) (file, error) {
	if len(text) > maxFile {
		return file{}, fmt.Errorf("the file has %d bytes, more than %d", len(text), maxFile)
	}
	filled, err := fill(string(text), func(name string) (string, bool) {
		if value, set := env(name); set {
			return value, true
		}
		return property(text, name)
	})
	if err != nil {
		return file{}, err
	}
	var out file
	if err := yaml.Unmarshal([]byte(filled), &out); err != nil {
		return file{}, fmt.Errorf("read the file as YAML: %w", err)
	}
	return out, nil
}

// property finds a value of the file by the names of its keys with dots between them, since files since Oslo refer to their own:
// ${participant.intermediaryParameters.topics.syncTopic}.
func property(text []byte, name string) (string, bool) {
	var at any
	if yaml.Unmarshal(text, &at) != nil {
		return "", false
	}
	for key := range strings.SplitSeq(name, ".") {
		fields, _ := at.(map[string]any)
		at = fields[key]
	}
	value, ok := at.(string)
	return value, ok && !placeholder.MatchString(value)
}

// placeholder is ${NAME} or ${NAME:default}, as Spring has it.
var placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_.-]*)(:[^}]*)?\}`)

// fill replaces placeholders. One without a default must be set.
func fill(text string, env func(string) (string, bool)) (string, error) {
	var missing []string
	out := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		name, fallback := parts[1], parts[2]
		if value, set := env(name); set {
			return value
		}
		// Spring finds KAFKA_SERVER for kafka.server too.
		if value, set := env(strings.ToUpper(strings.NewReplacer(".", "_", "-", "").Replace(name))); set {
			return value
		}
		if fallback == "" {
			missing = append(missing, name)
			return ""
		}
		return fallback[1:]
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("the file needs environment variables that are not set: %s", strings.Join(missing, ", "))
	}
	return out, nil
}
