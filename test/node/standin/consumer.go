package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// refusal is why a payload is not taken, and the code that says so: 400, 422 for other fields than FastAPI is told of, and 500 for what
// trustyai-service does not expect.
type refusal struct {
	code int
	text string
}

func (r refusal) Error() string { return r.text }

// codeOf is the code of an answer that says why a payload is not taken.
func codeOf(err error) int {
	var why refusal
	if errors.As(err, &why) {
		return why.code
	}
	return http.StatusBadRequest
}

func invalid(format string, args ...any) error {
	return refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func unprocessable(format string, args ...any) error {
	return refusal{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

func unexpected(format string, args ...any) error {
	return refusal{http.StatusInternalServerError, fmt.Sprintf(format, args...)}
}

// consumePartial takes a payload of ModelMesh (P endpoints/consumer: InferencePartialPayload, consume_inference_payload):
// JSON with id, kind, modelid and data, the last a message of KServe's v2 protocol in base64. J asks for less, and fails
// when a request and its response are put together.
func (s *service) consumePartial(w http.ResponseWriter, r *http.Request) {
	s.consume(w, r, func(body []byte) error {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		fields, err := object(body)
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return unprocessable("the body is no object of the type application/json: %v", err)
		}
		text := map[string]string{}
		for _, name := range []string{"id", "kind", "modelid", "data"} {
			value, isText := fields[name].(string)
			if !isText && fields[name] != nil {
				return unprocessable("%s: input should be a valid string", name)
			}
			text[name] = value
		}
		if metadata, there := fields["metadata"]; there && !isTexts(metadata) {
			return unprocessable("metadata: input should be a dictionary of strings")
		}
		if fields["kind"] != nil && text["kind"] != "request" && text["kind"] != "response" {
			return unprocessable("kind: input should be 'request' or 'response'")
		}
		for _, name := range []string{"id", "kind", "modelid", "data"} {
			if text[name] == "" {
				return invalid("payload requires %s", name)
			}
		}
		raw, err := decodeBase64(text["data"])
		if err != nil {
			return invalid("failed to parse payload: %v", err)
		}
		tensors, err := infers(raw)
		if err != nil {
			return invalid("failed to parse payload: %v", err)
		}
		return s.pairMessages(text["id"], text["modelid"], text["kind"] == "request", tensors)
	})
}

// object reads an object of JSON, with numbers as they are written.
func object(body []byte) (map[string]any, error) {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		return nil, err
	}
	if decoder.More() || out == nil {
		return nil, errors.New("it is not one object")
	}
	return out, nil
}

func isTexts(value any) bool {
	fields, ok := value.(map[string]any)
	for _, one := range fields {
		_, isText := one.(string)
		ok = ok && isText
	}
	return ok
}

// decodeBase64 decodes base64 as Python does: what is no letter of it does not count.
func decodeBase64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", r) {
			return r
		}
		return -1
	}, text))
}

// message is a tensor of a ModelInferRequest or ModelInferResponse, as far as it decides whether trustyai-service can store it.
type message struct {
	dimensions int
	filled     bool
}

// infers reads a ModelInferRequest or a ModelInferResponse (P proto/grpc_predict_v2.proto), whose first five fields are alike: three texts,
// the parameters and the tensors. The parser takes unknown fields.
func infers(raw []byte) ([]message, error) {
	const texts, messages = 3, 5
	var out []message
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		_, _, tag := protowire.ConsumeTag(raw)
		if kind == protowire.BytesType && number <= messages {
			value, _ := protowire.ConsumeBytes(raw[tag:])
			if number <= texts && !utf8.Valid(value) {
				return nil, fmt.Errorf("field %d is no UTF-8", number)
			}
			if number > texts {
				one, err := inferTensor(value)
				if err != nil {
					return nil, fmt.Errorf("field %d: %w", number, err)
				}
				if number == messages {
					out = append(out, one)
				}
			}
		}
		raw = raw[n:]
	}
	return out, nil
}

// inferTensor reads one tensor: how many dimensions it has, and whether its contents are in it.
func inferTensor(raw []byte) (message, error) {
	const shape, contents = 3, 5
	var out message
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			return out, protowire.ParseError(n)
		}
		_, _, tag := protowire.ConsumeTag(raw)
		switch {
		case number == shape && kind == protowire.VarintType:
			out.dimensions++
		case number == shape && kind == protowire.BytesType:
			packed, _ := protowire.ConsumeBytes(raw[tag:])
			for len(packed) > 0 {
				_, m := protowire.ConsumeVarint(packed)
				if m < 0 {
					return out, protowire.ParseError(m)
				}
				out.dimensions++
				packed = packed[m:]
			}
		case number == contents && kind == protowire.BytesType:
			value, _ := protowire.ConsumeBytes(raw[tag:])
			out.filled = out.filled || len(value) > 0
		}
		raw = raw[n:]
	}
	return out, nil
}

// pairMessages keeps a request or a response, and puts it together with the other one (P modelmesh_parser.py, payloads_to_dataframe). A tensor
// with more than one dimension, and one whose contents are beside it, cannot be stored.
func (s *service) pairMessages(id, model string, request bool, tensors []message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messages == nil {
		s.messages = map[partialKey][]message{}
	}
	s.messages[partialKey{id, request}] = tensors
	other, there := s.messages[partialKey{id, !request}]
	if !there {
		return nil
	}
	for _, one := range slices.Concat(tensors, other) {
		if one.dimensions > 1 || !one.filled {
			return unexpected("an internal error occurred while processing the payload")
		}
	}
	if err := storable(model); err != nil {
		return err
	}
	delete(s.messages, partialKey{id, true})
	delete(s.messages, partialKey{id, false})
	return nil
}

// storable says whether a file can have the name of a model (P pvc.py, _get_filename).
func storable(model string) error {
	if model == "" || strings.Contains(model, "..") || strings.ContainsAny(model, `/\`) {
		return unexpected("the name of the model is none of a file: %q", model)
	}
	return nil
}

// partialKey is what a request or a response waits for the other by.
type partialKey struct {
	id      string
	request bool
}
