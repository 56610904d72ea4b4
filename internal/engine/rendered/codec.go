package rendered

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mlkeeper.dev/internal/engine/plan"
)

// format changes with every incompatible change of what is stored; entries of another format count as missing.
const format = 1

// maxDecoded bounds what one entry may unpack to. The largest known stack, a whole Kubeflow, is a few megabytes.
const maxDecoded = 64 << 20

// entry is the content of one file.
type entry struct {
	Format int `json:"format"`
	// Inputs repeats the digest, so that an entry under a wrong name is noticed.
	Inputs string    `json:"inputs"`
	Plan   plan.Plan `json:"plan"`
}

// encode packs a plan.
func encode(inputs string, p plan.Plan) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := json.NewEncoder(zip).Encode(entry{Format: format, Inputs: inputs, Plan: p}); err != nil {
		return nil, fmt.Errorf("encode the rendered set: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decode unpacks a plan that was packed for the same inputs, and refuses everything else.
func decode(inputs string, packed io.Reader, limit int64) (plan.Plan, error) {
	zip, err := gzip.NewReader(packed)
	if err != nil {
		return plan.Plan{}, err
	}
	// Reading to the end checks the checksum, and reading one byte more tells a full entry from a cut one.
	raw, err := io.ReadAll(io.LimitReader(zip, limit+1))
	if err != nil {
		return plan.Plan{}, err
	}
	if int64(len(raw)) > limit {
		return plan.Plan{}, fmt.Errorf("unpacks to more than %d bytes", limit)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var e entry
	if err := decoder.Decode(&e); err != nil {
		return plan.Plan{}, err
	}
	if e.Format != format || e.Inputs != inputs {
		return plan.Plan{}, errors.New("holds another format or other inputs")
	}
	for _, stage := range e.Plan.Stages {
		for _, o := range stage.Objects {
			if o.Desired == nil || o.Desired.Object == nil {
				return plan.Plan{}, errors.New("holds an object without content")
			}
		}
	}
	return e.Plan, nil
}
