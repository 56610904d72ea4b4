package tfserver

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// savedModelFile is the file of a SavedModel with its graph.
const savedModelFile = "saved_model.pb"

// The fields of TensorFlow's messages that the toy model has (tensorflow/core/protobuf/saved_model.proto, meta_graph.proto,
// framework/graph.proto, node_def.proto, attr_value.proto, tensor.proto, tensor_shape.proto).
const (
	typeFloat = 1
	biasNode  = "bias"
)

// fields builds a message.
type fields []byte

func (f fields) text(n protowire.Number, s string) fields {
	return protowire.AppendString(protowire.AppendTag(f, n, protowire.BytesType), s)
}

func (f fields) message(n protowire.Number, m fields) fields {
	return protowire.AppendBytes(protowire.AppendTag(f, n, protowire.BytesType), m)
}

func (f fields) number(n protowire.Number, v uint64) fields {
	return protowire.AppendVarint(protowire.AppendTag(f, n, protowire.VarintType), v)
}

func (f fields) float(n protowire.Number, v float32) fields {
	return protowire.AppendFixed32(protowire.AppendTag(f, n, protowire.Fixed32Type), math.Float32bits(v))
}

// entry is one entry of a map from texts to messages.
func entry(key string, value fields) fields { return fields{}.text(1, key).message(2, value) }

// node is a NodeDef with its type of numbers.
func node(name, op string, attributes map[string]fields, inputs ...string) fields {
	f := fields{}.text(1, name).text(2, op)
	for _, in := range inputs {
		f = f.text(3, in)
	}
	for _, key := range []string{"T", "dtype", "shape", "value"} {
		if value, found := attributes[key]; found {
			f = f.message(5, entry(key, value))
		}
	}
	return f
}

// constant is a node with one number.
func constant(name string, value float32) fields {
	tensor := fields{}.number(1, typeFloat).message(2, fields{}).float(5, value)
	return node(name, "Const", map[string]fields{"dtype": fields{}.number(6, typeFloat), "value": fields{}.message(8, tensor)})
}

// vector is the shape of a batch of numbers, its size not said.
func vector() fields { return fields{}.message(2, fields{}.number(1, math.MaxUint64)) }

// SavedModel is the SavedModel of y = 2x + bias, without variables, for serving by its default signature.
func SavedModel(bias float32) []byte {
	number := map[string]fields{"T": fields{}.number(6, typeFloat)}
	graph := fields{}
	for _, n := range []fields{
		node("x", "Placeholder", map[string]fields{"dtype": fields{}.number(6, typeFloat), "shape": fields{}.message(7, vector())}),
		constant("two", 2), constant(biasNode, bias), node("product", "Mul", number, "x", "two"), node("y", "Add", number, "product", biasNode),
	} {
		graph = graph.message(1, n)
	}
	graph = graph.message(4, fields{}.number(1, 1087))
	tensor := func(name string) fields { return fields{}.text(1, name+":0").number(2, typeFloat).message(3, vector()) }
	signature := fields{}.message(1, entry("x", tensor("x"))).message(2, entry("y", tensor("y"))).text(3, "tensorflow/serving/predict")
	meta := fields{}.message(1, fields{}.text(4, "serve")).message(2, graph).message(5, entry("serving_default", signature))
	return fields{}.number(1, 1).message(2, meta)
}

// WriteModel writes the folder of a version below a base path, whole at once as one should: beside it and moved there.
func WriteModel(base string, version int64, bias float32) error {
	beside, err := os.MkdirTemp(base, "tmp-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(beside, savedModelFile), SavedModel(bias), 0o644); err != nil { //nolint:gosec // Another user serves it.
		return err
	}
	if err := os.Chmod(beside, 0o755); err != nil { //nolint:gosec // Another user serves it.
		return err
	}
	return os.Rename(beside, filepath.Join(base, strconv.FormatInt(version, 10)))
}

var errNoModel = errors.New("is no SavedModel of the toy model")

// readSavedModel finds the bias in a SavedModel.
func readSavedModel(raw []byte) (Model, error) {
	meta, err := only(raw, 2, nil)
	if err != nil {
		return Model{}, err
	}
	graph, err := only(meta, 2, nil)
	if err != nil {
		return Model{}, err
	}
	bias, err := only(graph, 1, func(n []byte) bool {
		name, err := only(n, 1, nil)
		return err == nil && string(name) == biasNode
	})
	if err != nil {
		return Model{}, err
	}
	for _, n := range []protowire.Number{5, 2, 8} {
		bias, err = only(bias, n, func(m []byte) bool {
			key, err := only(m, 1, nil)
			return n != 5 || err == nil && string(key) == "value"
		})
		if err != nil {
			return Model{}, err
		}
	}
	var out Model
	err = walk(bias, func(n protowire.Number, kind protowire.Type, value []byte) {
		if n == 5 && kind == protowire.Fixed32Type {
			bits, _ := protowire.ConsumeFixed32(value)
			out.Bias = math.Float32frombits(bits)
		}
	})
	return out, err
}

// only is the first of the fields of a number that hold bytes, and that the filter takes.
func only(raw []byte, n protowire.Number, takes func([]byte) bool) ([]byte, error) {
	var out []byte
	err := walk(raw, func(number protowire.Number, kind protowire.Type, value []byte) {
		if number != n || kind != protowire.BytesType || out != nil {
			return
		}
		if content, _ := protowire.ConsumeBytes(value); takes == nil || takes(content) {
			out = content
		}
	})
	if err == nil && out == nil {
		err = errNoModel
	}
	return out, err
}

func walk(raw []byte, visit func(protowire.Number, protowire.Type, []byte)) error {
	for len(raw) > 0 {
		n, kind, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return errNoModel
		}
		raw = raw[size:]
		length := protowire.ConsumeFieldValue(n, kind, raw)
		if length < 0 {
			return errNoModel
		}
		visit(n, kind, raw[:length])
		raw = raw[length:]
	}
	return nil
}
