package convert

import (
	"strings"
	"testing"
)

// TestNoIdentityOfKEDAIsConverted: a Tfserv cannot lend it, so that a trigger which has it is converted without, and says so.
func TestNoIdentityOfKEDAIsConverted(t *testing.T) {
	for metadata, dropped := range map[string]string{
		"{identityOwner: pod}":                    "",
		"{identityOwner: operator}":               "identityOwner",
		"{identityOwner: Operator}":               "identityOwner",
		"{identityOwner: ''}":                     "identityOwner",
		"{credentialsFromEnvFile: KEDA_KEY_FILE}": "credentialsFromEnvFile",
		"{credentialsFromEnv: KEY}":               "",
	} {
		got := printed(t, Convert(objects(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: half-plus-two, namespace: models}
spec:
  selector: {matchLabels: {app: half-plus-two}}
  template:
    metadata: {labels: {app: half-plus-two}}
    spec:
      containers: [{name: main, image: "tensorflow/serving:2.20.0", args: [--model_name=m, --model_base_path=gs://models/m]}]
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: half-plus-two, namespace: models}
spec:
  scaleTargetRef: {name: half-plus-two}
  triggers: [{type: aws-sqs-queue, metadata: `+metadata+`}]
`), Options{}))
		for _, field := range []string{"identityOwner", "credentialsFromEnvFile"} {
			warned, kept := strings.Contains(got, "triggers[0].metadata."+field+":"), strings.Contains(got, " "+field+": ")
			if warned != (field == dropped) || kept != (dropped == "" && strings.Contains(metadata, field)) {
				t.Errorf("%s becomes\n%s", metadata, got)
			}
		}
	}
}
