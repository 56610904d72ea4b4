package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// The types of a statement and its predicate (in-toto Statement v1, SLSA Provenance v1), and of their envelope (DSSE v1).
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// subject is an artifact that a statement is about.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// provenance states of what and by what the artifacts were made. It does not tell when or where, which differs between two builds of
// the same.
func provenance(subjects []subject, o distOptions) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"_type":         statementType,
		"subject":       subjects,
		"predicateType": predicateType,
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          "https://mlkeeper.dev/make-release/v1",
				"externalParameters": map[string]any{"version": o.version, "image": o.image},
				"internalParameters": map[string]any{"go": o.goVersion},
				"resolvedDependencies": []map[string]any{{
					"uri": "git+" + o.source, "digest": map[string]string{"gitCommit": o.commit},
				}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "https://mlkeeper.dev/make-release"}},
		},
	}, "", "  ")
}

// envelope signs a statement as DSSE (secure-systems-lab/dsse protocol.md), on one line: a file of several attestations has one a line.
func (s *signer) envelope(payload []byte) ([]byte, error) {
	encoded := fmt.Sprintf("DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
	signature, err := s.sign([]byte(encoded))
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(map[string]any{
		"payloadType": payloadType, "payload": base64.StdEncoding.EncodeToString(payload),
		"signatures": []map[string]string{{"sig": signature}},
	})
	return append(line, '\n'), err
}
