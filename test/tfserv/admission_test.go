package tfserv

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mlkeeper.dev/test/cluster"
)

func TestAdmissionRefusesBadInputNamingFieldAndRemedy(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	model := func(fields string) string { return "models: [{name: m, basePath: /m" + fields + "}]" }
	canary := func(spec string) string { return ", httpRoute: {host: a.b, gateway: {name: public}}, canary: " + spec }
	for name, bad := range map[string]struct {
		spec  string
		words []string
	}{
		"equal ports":            {"{configMap: c, grpcPort: 9000, restPort: 9000}", []string{"spec.grpcPort and spec.restPort must differ"}},
		"equal to a default":     {"{configMap: c, grpcPort: 8501}", []string{"must differ"}},
		"port zero":              {"{configMap: c, grpcPort: 0}", []string{"spec.grpcPort", "from 1 to 65535"}},
		"port too large":         {"{configMap: c, restPort: 70000}", []string{"spec.restPort", "from 1 to 65535"}},
		"negative replicas":      {"{configMap: c, replicas: -1}", []string{"spec.replicas", "must not be negative"}},
		"relative path":          {"{configMap: c, configFileLocation: var/config}", []string{"spec.configFileLocation", "absolute path", "such as /var/config"}},
		"path that breaks out":   {"{configMap: c, secretFileLocation: /a/../etc}", []string{"spec.secretFileLocation", "without ':' or '..'"}},
		"file with a folder":     {"{configMap: c, configFileName: a/b}", []string{"spec.configFileName", "without '/'"}},
		"one path twice":         {"{configMap: c, configFileLocation: /x, secretFileLocation: /x}", []string{"must differ", "one path"}},
		"configMap and models":   {"{configMap: c, " + model("") + "}", []string{"spec.configMap and spec.models exclude each other"}},
		"unknown version policy": {"{" + model(", versionPolicy: {newest: {}}") + "}", []string{"exactly one of latest, all and specific"}},
		"two version policies":   {"{" + model(", versionPolicy: {all: {}, latest: {}}") + "}", []string{"exactly one of latest, all and specific"}},
		"no versions":            {"{" + model(", versionPolicy: {specific: {versions: []}}") + "}", []string{"versions"}},
		"label of no version":    {"{" + model(", versionPolicy: {specific: {versions: [1]}}, versionLabels: {stable: 2}") + "}", []string{"versionLabels", "is served"}},
		"relative base path":     {"{models: [{name: m, basePath: models/m}]}", []string{"basePath", "gs://bucket/resnet"}},
		"model of no name":       {"{models: [{basePath: /m}]}", []string{"name", "Required"}},
		"model twice":            {"{models: [{name: m, basePath: /m}, {name: m, basePath: /n}]}", []string{"Duplicate", "m"}},
		"unknown type":           {"{configMap: c, serviceType: Open}", []string{"spec.serviceType", "ClusterIP", "NodePort"}},
		"batch sizes":            {"{configMap: c, batching: {maxBatchSize: 64, allowedBatchSizes: [8, 32]}}", []string{"allowedBatchSizes", "maxBatchSize"}},
		"batch sizes that fall":  {"{configMap: c, batching: {maxBatchSize: 8, allowedBatchSizes: [32, 8]}}", []string{"increase"}},
		"a hasty interval":       {"{configMap: c, monitoring: {interval: 999ms}}", []string{"spec.monitoring.interval", "1s or more"}},
		"an empty budget":        {"{configMap: c, podDisruptionBudget: {}}", []string{"exactly one of"}},
		"autoscaling the wrong":  {"{configMap: c, autoscaling: {minReplicas: 5, maxReplicas: 2}}", []string{"minReplicas must not be larger"}},
		"two strategies":         {"{configMap: c, strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}", []string{"spec.strategy.rollingUpdate", "Recreate"}},
		"no pod can be replaced": {"{configMap: c, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}}", []string{"must not both be 0"}},
		"a surge of words":       {"{configMap: c, strategy: {rollingUpdate: {maxSurge: many}}}", []string{"maxSurge", "such as 25%"}},
		"more than all":          {"{configMap: c, strategy: {rollingUpdate: {maxUnavailable: 101%}}}", []string{"maxUnavailable", "up to 100%"}},
		"unknown reload":         {"{configMap: c, configReload: Signal}", []string{"spec.configReload", "Poll", "Restart"}},
		"a poll that never is":   {"{configMap: c, configReload: Poll, configPollSeconds: 0}", []string{"spec.configPollSeconds must be 1 or more"}},
		"a look once":            {"{configMap: c, server: {versionPollSeconds: 0}}", []string{"spec.server.versionPollSeconds must be 1 or more"}},
		"a hasty question":       {"{configMap: c, modelStatusSeconds: 9}", []string{"spec.modelStatusSeconds", "10"}},
		"more than a GPU":        {"{configMap: c, server: {gpuMemoryPercent: 101}}", []string{"gpuMemoryPercent", "100"}},
		"an argument with field": {"{configMap: c, server: {extraArgs: [\"--port=1\"]}}", []string{"spec.server.extraArgs", "use the field"}},
		"no argument":            {"{configMap: c, server: {extraArgs: [rm]}}", []string{"spec.server.extraArgs", "must be arguments"}},
		"a canary by an Ingress": {"{" + model("") + ", ingress: {host: a.b}, canary: {model: m, version: 1}}", []string{"spec.canary needs spec.httpRoute or spec.grpcRoute", "an Ingress has no weights"}},
		"a canary of no model":   {"{" + model("") + canary("{model: other, version: 1}") + "}", []string{"spec.canary.model must be the name of one of spec.models"}},
		"a share above all":      {"{" + model("") + canary("{model: m, version: 1, weight: 101}") + "}", []string{"spec.canary.weight must be a percentage from 0 to 100"}},
		"a share below none":     {"{" + model("") + canary("{model: m, version: 1, weight: -1}") + "}", []string{"spec.canary.weight must be a percentage from 0 to 100"}},
		"a canary of no version": {"{" + model("") + canary("{model: m}") + "}", []string{"spec.canary.version", "Required"}},
		"a version below zero":   {"{" + model("") + canary("{model: m, version: -1}") + "}", []string{"spec.canary.version", "0"}},
		"an unknown mode":        {"{" + model("") + canary("{model: m, version: 1, mode: Mirror}") + "}", []string{"spec.canary.mode", "Canary", "Shadow"}},
		"an unknown state":       {"{" + model("") + canary("{model: m, version: 1, state: Done}") + "}", []string{"spec.canary.state", "Promoted", "Aborted"}},
		"zero without KEDA":      {"{configMap: c, autoscaling: {minReplicas: 0, maxReplicas: 2}}", []string{"must be 1 or more", "keda scales to 0"}},
		"zero by CPU":            {"{configMap: c, autoscaling: {minReplicas: 0, maxReplicas: 2, keda: {triggers: [{type: cpu, metadata: {value: '5'}}]}}}", []string{"minReplicas 0 needs a trigger of another type"}},
		"triggers and metrics":   {"{configMap: c, autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 5, keda: {triggers: [{type: cron, metadata: {}}]}}}", []string{"triggers in place of metrics"}},
		"no trigger":             {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: []}}}", []string{"triggers", "at least 1 items"}},
		"a trigger twice":        {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: cron, name: requests, metadata: {}}, {type: kafka, name: requests, metadata: {}}]}}}", []string{"must not have a name twice"}},
		"a fallback of CPU":      {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {fallback: {failureThreshold: 1, replicas: 1}, triggers: [{type: cpu, metadata: {value: '5'}}]}}}", []string{"fallback needs a trigger of another type"}},
		"a cron that is cached":  {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: cron, useCachedMetrics: true, metadata: {}}]}}}", []string{"useCachedMetrics is not for"}},
		"the identity of KEDA":   {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: aws-sqs-queue, metadata: {identityOwner: operator}}]}}}", []string{"identityOwner must be pod", "authenticationRef"}},
		"another identity":       {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: aws-sqs-queue, metadata: {identityOwner: Operator}}]}}}", []string{"identityOwner must be pod", "authenticationRef"}},
		"no identity":            {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: aws-sqs-queue, metadata: {identityOwner: ''}}]}}}", []string{"identityOwner must be pod", "authenticationRef"}},
		"a file of KEDA":         {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: gcp-pubsub, metadata: {credentialsFromEnvFile: GOOGLE_APPLICATION_CREDENTIALS}}]}}}", []string{"credentialsFromEnvFile must not be given", "authenticationRef"}},
		"a trigger with spaces":  {"{configMap: c, autoscaling: {maxReplicas: 2, keda: {triggers: [{type: 'a b', metadata: {}}]}}}", []string{"spec.autoscaling.keda.triggers[0].type"}},
		"an end too soon":        {"{configMap: c, terminationGracePeriodSeconds: 9}", []string{"spec.terminationGracePeriodSeconds must be 10 or more"}},
		"an end too late":        {"{configMap: c, terminationGracePeriodSeconds: 86401}", []string{"spec.terminationGracePeriodSeconds", "86400"}},
		"a variable twice":       {"{configMap: c, env: [{name: A}, {name: A}]}", []string{"spec.env", "Duplicate"}},
		"a variable with spaces": {"{configMap: c, env: [{name: a b}]}", []string{"the name of a variable in spec.env may have letters"}},
		"a variable of two":      {"{configMap: c, env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}", []string{"spec.env: value and valueFrom exclude each other"}},
		"a variable of nothing":  {"{configMap: c, env: [{name: A, valueFrom: {}}]}", []string{"valueFrom in spec.env must be exactly one of"}},
		"a variable of no name":  {"{configMap: c, env: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]}", []string{"secretKeyRef and configMapKeyRef in spec.env need a name"}},
		"the key file twice":     {"{configMap: c, secretName: s, env: [{name: GOOGLE_APPLICATION_CREDENTIALS, value: /x}]}", []string{"spec.env must not have GOOGLE_APPLICATION_CREDENTIALS with spec.secretName", "take it out"}},
		"a key of S3 twice":      {"{" + model("") + ", s3: {secretName: s}, env: [{name: AWS_ACCESS_KEY_ID, value: x}]}", []string{"spec.env must not have what spec.s3 sets", "take the other out"}},
		"a region twice":         {"{" + model("") + ", s3: {region: r}, env: [{name: AWS_REGION, value: x}]}", []string{"spec.env must not have what spec.s3 sets"}},
		"a store twice":          {"{" + model("") + ", s3: {endpoint: h}, env: [{name: S3_ENDPOINT, value: x}]}", []string{"spec.env must not have what spec.s3 sets"}},
		"the selector's label":   {"{configMap: c, podLabels: {tfsName: x}}", []string{"spec.podLabels must not have tfsName", "use another key"}},
		"a label of MLKeeper's":  {"{configMap: c, podLabels: {keeper.mlkeeper.dev/controller: x}}", []string{"spec.podLabels must not have tfsName", "use another key"}},
		"a label with spaces":    {"{configMap: c, podLabels: {a b: x}}", []string{"spec.podLabels: a key has letters"}},
		"a label's wild value":   {"{configMap: c, podLabels: {a: x y}}", []string{"spec.podLabels.a"}},
		"an annotation of ours":  {"{configMap: c, podAnnotations: {servapi.dev-state.com/config-hash: x}}", []string{"spec.podAnnotations must not have keys below", "use another key"}},
		"a wild annotation":      {"{configMap: c, podAnnotations: {a..b/c: x}}", []string{"spec.podAnnotations: a key has letters"}},
		"a scheme nobody reads":  {"{models: [{name: m, basePath: 'hdfs://n/m'}]}", []string{"without spec.image each basePath must be", "set spec.image to an image that reads it"}},
		"two kinds of metrics":   {"{configMap: c, autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 5, metrics: [{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 5}}}]}}", []string{"exclude each other"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := cluster.Parse(fmt.Sprintf("apiVersion: servapi.dev-state.com/v1alpha1\nkind: Tfserv\nmetadata: {name: bad, namespace: %s}\nspec: %s\n", ns, bad.spec))
			if err != nil {
				t.Fatal(err)
			}
			err = c.Client.Create(t.Context(), objects[0])
			if !apierrors.IsInvalid(err) {
				_ = c.Client.Delete(t.Context(), objects[0])
				t.Fatalf("accepted, or refused otherwise: %v", err)
			}
			for _, word := range bad.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the refusal does not say %q: %v", word, err)
				}
			}
		})
	}
}

// TestAdmissionAcceptsWhatIsRead: what the rules refuse elsewhere is of use here, and the largest lists stay within what a rule may cost.
func TestAdmissionAcceptsWhatIsRead(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	several := func(n int, item string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(item, i))
		}
		return strings.Join(out, ", ")
	}
	longest := strings.Repeat("a", 200)
	for name, spec := range map[string]string{
		"a scheme that the image reads": "{image: i, models: [{name: m, basePath: 'hdfs://n/m'}]}",
		"what each image reads":         "{models: [{name: a, basePath: /m}, {name: b, basePath: 'gs://b/m'}, {name: c, basePath: 's3://b/m'}, {name: d, basePath: 'file:///m'}]}",
		"keys of another name":          "{image: i, models: [{name: m, basePath: 's3://b/m'}], s3: {imageReadsS3: true, region: r}, env: [{name: AWS_ACCESS_KEY_ID, valueFrom: {secretKeyRef: {name: s, key: user}}}]}",
		"an image's own key file":       "{configMap: c, env: [{name: GOOGLE_APPLICATION_CREDENTIALS, value: /in/the/image.json}, {name: EMPTY}]}",
		"marks":                         "{configMap: c, podLabels: {team: a, example.com/b: ''}, podAnnotations: {example.com/c: 'any text'}}",
		"the largest lists": "{image: i, models: [" + several(100, "{name: m%d, basePath: 'gs://"+strings.Repeat("b", 1000)+"'}") +
			"], env: [" + several(64, "{name: "+longest+"%d, value: x}") + "], podLabels: {" + several(32, longest+".example.com/l%d: x") +
			"}, podAnnotations: {" + several(32, longest+".example.com/l%d: x") + "}, s3: {secretName: s, region: r, endpoint: e}, secretName: s}",
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := cluster.Parse(fmt.Sprintf("apiVersion: servapi.dev-state.com/v1alpha1\nkind: Tfserv\nmetadata: {name: good, namespace: %s}\nspec: %s\n", ns, spec))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Client.Create(t.Context(), objects[0]); err != nil {
				t.Fatal(err)
			}
			_ = c.Client.Delete(t.Context(), objects[0])
		})
	}
}
