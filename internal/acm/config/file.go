package config

import (
	"encoding/json"
	"fmt"
	"strconv"
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
		Port    number `json:"port"`
		Servlet struct {
			// ContextPath is nil where the file names none, and empty for the root.
			ContextPath *string `json:"context-path"`
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
	// Interval is nil where the file names none.
	Interval      *number `json:"reportingTimeIntervalMs"`
	ParticipantID string  `json:"participantId"`
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
	Servers          list              `json:"servers"`
	Infrastructure   string            `json:"topicCommInfrastructure"`
	FetchTimeout     number            `json:"fetchTimeout"`
	ConsumerGroup    string            `json:"consumerGroup"`
	ConsumerInstance string            `json:"consumerInstance"`
	UseHTTPS         flag              `json:"useHttps"`
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
	filled, err := fill(text, env)
	if err != nil {
		return file{}, err
	}
	var out file
	if err := yaml.Unmarshal(filled, &out); err != nil {
		return file{}, fmt.Errorf("read the file as YAML: %w", err)
	}
	return out, nil
}

// number is a whole number. What a placeholder was filled with is text, which Spring converts, too.
type number int

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `" `)
	if text == "" || text == "null" {
		return nil
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%.64q is no whole number", text)
	}
	*n = number(value)
	return nil
}

// flag is true or false, as Spring reads it.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(raw []byte) error {
	switch text := strings.ToLower(strings.Trim(string(raw), `" `)); text {
	case "true", "on", "yes", "1":
		*f = true
	case "false", "off", "no", "0", "", "null":
	default:
		return fmt.Errorf("%.64q is neither true nor false", text)
	}
	return nil
}

// list is a list of texts. One text is a list, too, with commas between its items.
type list []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = list{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(l))
}
