package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// tensor is one of KServe's v2 protocol, as far as it decides whether it fits others.
type tensor struct{ shape []int }

// event is a request or a response of that protocol.
type event struct {
	id      *string
	request bool
	model   string
	tensors []tensor
}

// consumeEvent takes a payload of a logger of KServe (P consume_cloud_event, process_cloud_event): a request or a
// response of the v2 protocol in JSON, with an id in the header of the event or in it.
func (s *service) consumeEvent(w http.ResponseWriter, r *http.Request) {
	s.consume(w, r, func(body []byte) error {
		body, err := inflated(body, r.Header.Get("Content-Encoding") == "gzip")
		if err != nil {
			return err
		}
		e, err := eventOf(body)
		if err != nil {
			return err
		}
		if ids := r.Header.Values("Ce-Id"); len(ids) > 0 {
			e.id = &ids[0]
		}
		switch {
		case e.id == nil:
			return invalid("payload requires 'id' field or 'ce-id' header")
		case len(e.tensors) == 0:
			return invalid("received, but data field was empty; payload will not be saved")
		case *e.id == "":
			return unexpected("an attribute of a file has no empty name")
		}
		return s.pairEvents(e)
	})
}

// inflated is a body as its sender compressed it, which Knative may not say (P gzip_middleware.py, gzip_utils.py).
func inflated(body []byte, declared bool) ([]byte, error) {
	if !declared && !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return body, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, invalid("it is no gzip: %v", err)
	}
	out, err := io.ReadAll(io.LimitReader(reader, maxPayload))
	if err != nil {
		return nil, invalid("it is no gzip: %v", err)
	}
	return out, nil
}

// eventOf follows P endpoints/consumer KServeInferenceRequest and KServeInferenceResponse: what is not the one may be the other.
func eventOf(body []byte) (event, error) {
	fields, err := object(body)
	if err != nil {
		return event{}, invalid("invalid payload: %v", err)
	}
	var why error
	for _, request := range []bool{true, false} {
		e, err := eventIn(fields, request)
		if err == nil {
			return e, nil
		}
		if codeOf(err) == http.StatusInternalServerError {
			return event{}, err
		}
		why = err
	}
	return event{}, why
}

// eventIn reads a request or a response.
func eventIn(fields map[string]any, request bool) (event, error) {
	out, mandatory, texts := event{request: request}, "inputs", []string{"id"}
	if !request {
		mandatory, texts = "outputs", []string{"id", "model_name", "model_version"}
	}
	for _, name := range texts {
		if _, isText := fields[name].(string); !isText && fields[name] != nil {
			return out, invalid("invalid payload: %s: input should be a valid string", name)
		}
	}
	if id, there := fields["id"].(string); there {
		out.id = &id
	}
	out.model, _ = fields["model_name"].(string)
	if parameters := fields["parameters"]; parameters != nil && !isTexts(parameters) {
		return out, invalid("invalid payload: parameters: input should be a dictionary of strings")
	}
	for _, name := range []string{"inputs", "outputs"} {
		if name == "inputs" && !request || fields[name] == nil && name != mandatory {
			continue
		}
		list, isList := fields[name].([]any)
		if !isList {
			return out, invalid("invalid payload: %s: input should be a valid list", name)
		}
		for _, one := range list {
			t, err := tensorOf(one)
			if err != nil {
				return out, err
			}
			if name == mandatory {
				out.tensors = append(out.tensors, t)
			}
		}
	}
	return out, nil
}

// datatypes are those of P endpoints/consumer KServeDataType, with the bits of the whole numbers.
var datatypes = map[string]int{
	"BOOL": 0, "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64,
	"FP16": 0, "FP32": 0, "FP64": 0, "BYTES": 0,
}

// tensorOf follows the validators of P endpoints/consumer KServeData.
func tensorOf(value any) (tensor, error) {
	fields, _ := value.(map[string]any)
	_, hasName := fields["name"].(string)
	shape, hasShape := numbersOf(fields["shape"])
	datatype, _ := fields["datatype"].(string)
	_, known := datatypes[datatype]
	data, hasData := fields["data"].([]any)
	if !hasName || !hasShape || !known || !hasData {
		return tensor{}, invalid("invalid payload: a tensor needs name, shape, data, and a known datatype")
	}
	parameters, isObject := fields["parameters"].(map[string]any)
	if fields["parameters"] != nil && !isObject {
		return tensor{}, invalid("invalid payload: parameters: input should be a dictionary")
	}
	for name, one := range parameters {
		_, isText := one.(string)
		if _, isObject := one.(map[string]any); !isText && !isObject {
			return tensor{}, invalid("invalid payload: parameters.%s: input should be a string or an object", name)
		}
	}
	want := 1
	for _, n := range shape {
		want *= n
	}
	values := flat(data, len(dimensions(data)))
	if len(values) != want {
		return tensor{}, invalid("invalid payload: declared shape %v requires %d elements but got %d", shape, want, len(values))
	}
	for _, one := range values {
		if err := castable(one, datatype); err != nil {
			return tensor{}, err
		}
	}
	return tensor{shape: shape}, nil
}

// numbersOf are whole numbers, which 1.0 is too.
func numbersOf(value any) ([]int, bool) {
	list, ok := value.([]any)
	out := make([]int, 0, len(list))
	for _, one := range list {
		number, isNumber := one.(json.Number)
		f, err := number.Float64()
		if !isNumber || err != nil || f != math.Trunc(f) {
			return nil, false
		}
		out = append(out, int(f))
	}
	return out, ok
}

// dimensions are those that numpy makes of lists within lists: as deep as all lists are equally long.
func dimensions(list []any) []int {
	var inner []int
	for i, one := range list {
		next, isList := one.([]any)
		if !isList {
			return []int{len(list)}
		}
		of := dimensions(next)
		if i > 0 && !slices.Equal(of, inner) {
			return []int{len(list)}
		}
		inner = of
	}
	return append([]int{len(list)}, inner...)
}

// flat are the values of lists within lists, of a depth.
func flat(list []any, depth int) []any {
	if depth <= 1 {
		return list
	}
	var out []any
	for _, one := range list {
		out = append(out, flat(one.([]any), depth-1)...)
	}
	return out
}

// castable says why numpy does not make a value of a datatype of another one.
func castable(value any, datatype string) error {
	number, isNumber := value.(json.Number)
	text, isText := value.(string)
	truth, isBool := value.(bool)
	refused := invalid("invalid payload: data cannot be cast to %s: %v", datatype, value)
	switch {
	case datatype == "BYTES" && !isText:
		return unexpected("a text was expected: %v", value)
	case datatype == "BYTES":
		return nil
	case datatype == "BOOL":
		if isBool || isNumber && (number == "0" || number == "1") {
			return nil
		}
		return refused
	case isBool:
		number = map[bool]json.Number{false: "0", true: "1"}[truth]
	case isText:
		number = json.Number(strings.TrimSpace(text))
	case value == nil && datatypes[datatype] == 0:
		return nil
	case !isNumber:
		return refused
	}
	f, err := strconv.ParseFloat(string(number), 64)
	bits := datatypes[datatype]
	unsigned := strings.HasPrefix(datatype, "UINT")
	switch {
	case err != nil && !isNumber, unsigned && isNumber && f < 0:
		return refused
	case bits == 0:
		return nil
	}
	if math.IsInf(f, 0) {
		return unexpected("a number of %d bits was expected: %v", bits, value)
	}
	whole, ok := new(big.Int).SetString(string(number), 10)
	if !ok && isText {
		return refused
	}
	if !ok {
		whole, _ = big.NewFloat(f).Int(nil)
	}
	least, most := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits))
	if !unsigned {
		most.Rsh(most, 1)
		least.Neg(most)
	}
	if whole.Cmp(least) < 0 || whole.Cmp(most) >= 0 {
		return unexpected("a number of %d bits was expected: %v", bits, value)
	}
	return nil
}

// pairEvents keeps a request or a response, or puts it together with the other one (P consumer_endpoint.py, reconcile_kserve).
func (s *service) pairEvents(e event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == nil {
		s.events = map[partialKey]event{}
	}
	other, there := s.events[partialKey{*e.id, !e.request}]
	if !there {
		s.events[partialKey{*e.id, e.request}] = e
		return nil
	}
	request, response := e, other
	if !e.request {
		request, response = other, e
	}
	rows, err := request.rows()
	if err != nil {
		return err
	}
	answered, err := response.rows()
	switch {
	case err != nil:
		return err
	case rows != answered:
		return invalid("the number of output rows (%d) did not match the number of input rows (%d)", answered, rows)
	}
	if err := storable(response.model); err != nil {
		return err
	}
	delete(s.events, partialKey{*e.id, true})
	delete(s.events, partialKey{*e.id, false})
	return nil
}

// rows are as many as the first dimension has, and all tensors must have the same shape.
func (e event) rows() (int, error) {
	first := e.tensors[0].shape
	for _, t := range e.tensors {
		if !slices.Equal(t.shape, first) {
			return 0, invalid("shapes were mismatched: %v and %v", first, t.shape)
		}
	}
	if len(first) == 0 {
		return 0, unexpected("a shape has no first dimension")
	}
	return first[0], nil
}
