package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// PayloadType is the type of a Secret with a payload, which tells administrators what it is. Its label is keeper.PayloadLabel.
const PayloadType corev1.SecretType = "keeper.mlkeeper.dev/payload"

const (
	// payloadKey is the key of the data, which is JSON in gzip.
	payloadKey = "payload.json.gz"
	// participantAnnotation has the participant, ofAnnotation the kind and the name of the custom resource that a payload is of.
	participantAnnotation = "keeper.mlkeeper.dev/participant"
	ofAnnotation          = "keeper.mlkeeper.dev/payload-of"
)

// MaxPayload is the largest payload that is read, in bytes: twice the largest message, so that a Secret is never decompressed without bound.
const MaxPayload = 16 << 20

// Keep takes what may hold credentials, as JSON, and returns the reference by which the custom resource leads to it.
type Keep func(payload []byte) *keeper.PayloadReference

// Fetch returns what a reference leads to.
type Fetch func(keeper.PayloadReference) ([]byte, error)

// PayloadOf is the kind and the name of the custom resource that a payload is of, as its Secret has them.
func PayloadOf(kind, name string) string { return kind + "/" + name }

// PayloadSecret makes the Secret of a payload. Nobody can change it, so that a reference always leads to what was ordered.
func PayloadSecret(ref keeper.PayloadReference, of, participant string, payload []byte) *corev1.Secret {
	packed := &bytes.Buffer{}
	w := gzip.NewWriter(packed)
	_, _ = w.Write(payload) // A buffer takes everything.
	_ = w.Close()
	immutable := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: ref.Name, Labels: map[string]string{keeper.PayloadLabel: "true"},
			Annotations: map[string]string{participantAnnotation: participant, ofAnnotation: of},
		},
		Type: PayloadType, Immutable: &immutable, Data: map[string][]byte{payloadKey: packed.Bytes()},
	}
}

// PayloadMarks says which participant a Secret is of, and the payload of what custom resource it has.
func PayloadMarks(secret metav1.Object) (participant, of string) {
	annotations := secret.GetAnnotations()
	return annotations[participantAnnotation], annotations[ofAnnotation]
}

// Payload reads a Secret with the payload of a custom resource. One that is another's is not read: a reference is a text, and the
// operator may read other Secrets than who wrote it.
func Payload(secret metav1.Object, data map[string][]byte, of string) ([]byte, error) {
	name := secret.GetNamespace() + "/" + secret.GetName()
	if _, marked := PayloadMarks(secret); marked != of {
		return nil, fmt.Errorf("the Secret %s does not have the payload of %s", name, of)
	}
	r, err := gzip.NewReader(bytes.NewReader(data[payloadKey]))
	if err != nil {
		return nil, fmt.Errorf("read %q of Secret %s: %w", payloadKey, name, err)
	}
	out, err := io.ReadAll(io.LimitReader(r, MaxPayload+1))
	if err == nil && len(out) > MaxPayload {
		err = fmt.Errorf("it has more than %d bytes", MaxPayload)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q of Secret %s: %w", payloadKey, name, err)
	}
	return out, nil
}

// errNoPayload is the error of a payload that does not decode. What the decoder says might quote it.
var errNoPayload = errors.New("the payload does not decode")

// fetched decodes what a reference leads to.
func fetched(fetch Fetch, ref keeper.PayloadReference, into any) error {
	payload, err := fetch(ref)
	if err != nil {
		return err
	}
	if json.Unmarshal(payload, into) != nil {
		return fmt.Errorf("the Secret %s/%s: %w", ref.Namespace, ref.Name, errNoPayload)
	}
	return nil
}

// encoded encodes what was decoded before.
func encoded(payload any) []byte {
	out, err := json.Marshal(payload)
	if err != nil {
		panic("bug: what was decoded does not encode: " + err.Error())
	}
	return out
}
