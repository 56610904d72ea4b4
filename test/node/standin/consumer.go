package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// unprocessable is a payload of another form than the fields that FastAPI declares for it, which it answers with 422.
type unprocessable struct{ error }

// consumePartial takes a payload of ModelMesh (P endpoints/consumer: InferencePartialPayload, consume_inference_payload):
// JSON with id, kind, modelid and data, the last a message of KServe's v2 protocol in base64. J asks for less, and fails
// when a request and its response are put together.
func (s *service) consumePartial(w http.ResponseWriter, r *http.Request) {
	s.consume(w, r, func(body []byte) error {
		var partial struct {
			ID, Kind, ModelID, Data string
			Metadata                map[string]string
		}
		if err := json.Unmarshal(body, &partial); err != nil {
			return unprocessable{err}
		}
		if !slices.Contains([]string{"", "request", "response"}, partial.Kind) {
			return unprocessable{errors.New("kind: input should be 'request' or 'response'")}
		}
		if partial.Kind == "" {
			return errors.New("payload must specify 'kind' as either 'request' or 'response'")
		}
		if partial.ID == "" || partial.ModelID == "" || partial.Data == "" {
			return errors.New("payload requires 'id', 'modelid' and 'data'")
		}
		raw, err := base64.StdEncoding.DecodeString(partial.Data)
		if err == nil {
			err = infers(raw)
		}
		return err
	})
}

// infers says why bytes are neither a ModelInferRequest nor a ModelInferResponse (P proto/grpc_predict_v2.proto), whose
// first five fields are alike: three texts, the parameters and the tensors. The parser takes unknown fields.
func infers(raw []byte) error {
	const texts, messages = 3, 5
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			return fmt.Errorf("failed to parse payload: %w", protowire.ParseError(n))
		}
		_, _, tag := protowire.ConsumeTag(raw)
		if kind == protowire.BytesType && number <= messages {
			value, _ := protowire.ConsumeBytes(raw[tag:])
			if number <= texts && !utf8.Valid(value) {
				return fmt.Errorf("failed to parse payload: field %d is no UTF-8", number)
			}
			for inner := value; number > texts && len(inner) > 0; {
				_, _, m := protowire.ConsumeField(inner)
				if m < 0 {
					return fmt.Errorf("failed to parse payload: field %d: %w", number, protowire.ParseError(m))
				}
				inner = inner[m:]
			}
		}
		raw = raw[n:]
	}
	return nil
}

// tensor is one of KServe's v2 protocol.
type tensor struct {
	Name     *string
	Shape    []int
	Datatype string
	Data     []any
}

// datatypes are those of P endpoints/consumer KServeDataType.
var datatypes = []string{
	"BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "BYTES",
}

// consumeEvent takes a payload of a logger of KServe (P consume_cloud_event, process_cloud_event): a request or a
// response of the v2 protocol in JSON, with an id in it or in the header of the event.
func (s *service) consumeEvent(w http.ResponseWriter, r *http.Request) {
	s.consume(w, r, func(body []byte) error {
		var event struct {
			ID              string
			Inputs, Outputs *[]tensor
		}
		if err := json.Unmarshal(body, &event); err != nil {
			return fmt.Errorf("invalid payload: %w", err)
		}
		tensors := event.Inputs
		if tensors == nil {
			tensors = event.Outputs
		}
		if tensors == nil {
			return errors.New("invalid payload: neither a request nor a response")
		}
		for _, t := range *tensors {
			if err := t.check(); err != nil {
				return fmt.Errorf("invalid payload: %w", err)
			}
		}
		if event.ID == "" && r.Header.Get("Ce-Id") == "" {
			return errors.New("payload requires 'id' field or 'ce-id' header")
		}
		if len(*tensors) == 0 {
			return errors.New("received, but data field was empty; payload will not be saved")
		}
		return nil
	})
}

// check follows the validators of P endpoints/consumer KServeData.
func (t tensor) check() error {
	if t.Name == nil || t.Shape == nil || t.Data == nil || !slices.Contains(datatypes, t.Datatype) {
		return fmt.Errorf("a tensor needs name, shape, data, and a datatype of %v", datatypes)
	}
	want := 1
	for _, n := range t.Shape {
		want *= n
	}
	values := flat(t.Data)
	if len(values) != want {
		return fmt.Errorf("declared shape %v requires %d elements but got %d", t.Shape, want, len(values))
	}
	for _, value := range values {
		_, isText := value.(string)
		_, isBool := value.(bool)
		number, isNumber := value.(float64)
		fits := isNumber || isBool
		switch {
		case t.Datatype == "BYTES":
			fits = isText
		case t.Datatype == "BOOL":
			fits = isBool || isNumber && (number == 0 || number == 1)
		case strings.HasPrefix(t.Datatype, "UINT"):
			fits = fits && number >= 0
		}
		if !fits {
			return fmt.Errorf("data cannot be cast to %s: %v", t.Datatype, value)
		}
	}
	return nil
}

// flat are the values of lists within lists.
func flat(list []any) []any {
	var out []any
	for _, value := range list {
		if inner, isList := value.([]any); isList {
			out = append(out, flat(inner)...)
			continue
		}
		out = append(out, value)
	}
	return out
}
