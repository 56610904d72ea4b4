// Package greeting is the example of docs/adding-a-system.md: a controller that is small enough to read in one go. It says hello on a
// web page, with the words of a ConfigMap of another owner.
package greeting

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// GVK is the kind of the example.
var GVK = schema.GroupVersionKind{Group: "example.mlkeeper.dev", Version: "v1", Kind: "Greeting"}

// Spec is what its owner declares.
type Spec struct {
	// WordsFrom names a ConfigMap of the namespace whose key "words" is shown.
	WordsFrom string `json:"wordsFrom"`
	// Replicas is the number of pods.
	Replicas int64 `json:"replicas,omitempty"`
}

// Status is what was observed. All fields but Replicas are the engine's.
type Status struct {
	Conditions             []metav1.Condition       `json:"conditions,omitempty"`
	ObservedGeneration     int64                    `json:"observedGeneration,omitempty"`
	LastHandledReconcileAt string                   `json:"lastHandledReconcileAt,omitempty"`
	Inventory              keeper.ResourceInventory `json:"inventory,omitzero"`
	Replicas               int64                    `json:"replicas,omitempty"`
}

// Greeting is the custom resource.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// DeepCopyObject copies through JSON, to keep the example short; in api/ it is generated.
func (g *Greeting) DeepCopyObject() runtime.Object {
	out := &Greeting{}
	raw, err := json.Marshal(g)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		panic(fmt.Sprintf("bug: a Greeting does not encode: %v", err))
	}
	return out
}
