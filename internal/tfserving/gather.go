package tfserving

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/modelconfig"
	"mlkeeper.dev/internal/workload"
)

const (
	// configAnnotation and hashAnnotation record on the Deployment which configuration its template uses. The cache keeps
	// annotations of this prefix only.
	configAnnotation = keeper.AnnotationPrefix + "config"
	hashAnnotation   = keeper.AnnotationPrefix + "config-hash"
	// inputsAnnotation records what of users' objects the template follows from, for a manager that has not seen it become Ready.
	inputsAnnotation = keeper.AnnotationPrefix + "inputs"
	// restartAnnotation records on the Deployment the last restart of servers that would not read a corrected config, and nextRestartAnnotation
	// the one that is due once that config is written.
	restartAnnotation     = keeper.AnnotationPrefix + "restart"
	nextRestartAnnotation = keeper.AnnotationPrefix + "next-restart"
	// autoscaledAnnotation records the kind of the autoscaler of ours that has the replicas of the Deployment.
	autoscaledAnnotation = keeper.AnnotationPrefix + "autoscaled"
)

// gathering is one gathering of facts.
type gathering struct {
	settings Settings
	hosts    *hosts
	rolls    *rolls
	endings  *endings
	read     controller.Reader
	cr       *v1alpha1.Tfserv
	facts    Facts
	// of is the track in what is remembered of it, and track the begin of what is asked about it; empty for the stable one.
	of    types.NamespacedName
	track string
	// secrets are the credentials that the pods read once at their start.
	secrets []map[string][]byte
	// liveText is the model config that servers read again and again; empty where there is none. live is what it says; its zero value
	// stands for a text that somebody else has written, and which is about to be replaced.
	liveText string
	live     modelconfig.Config
	// left are the models that were taken out of it lately.
	left map[string]leftModel
}

// Gather does every read that rendering needs.
func (s *system) Gather(ctx context.Context, read controller.Reader, cr *v1alpha1.Tfserv) (Facts, error) {
	g := &gathering{
		settings: s.settings, hosts: &s.hosts, rolls: &s.rolls, endings: &s.endings, read: read, cr: cr, of: client.ObjectKeyFromObject(cr),
	}
	g.facts.Constraints = read.Serves(gvkConstraints)
	g.facts.HTTPRoute, g.facts.GRPCRoute = read.Serves(gvkHTTPRoute), read.Serves(gvkGRPCRoute)
	for _, step := range []func(context.Context) error{g.config, g.credentials, g.s3, g.claim, g.tls, g.liveConfig} {
		if err := step(ctx); err != nil {
			return Facts{}, err
		}
	}
	if len(g.secrets) > 0 {
		g.facts.CredentialsDigest = read.Digest(g.secrets...)
	}
	g.schemes()
	g.pinned()
	g.running()
	if err := g.serving(ctx); err != nil {
		return Facts{}, err
	}
	g.ports()
	g.ask(wantedOf(g.facts.Serving, g.live, promoted(g.cr)))
	g.canary()
	g.ending()
	g.holdLabels()
	g.leaving()
	g.restart()
	g.failures()
	g.autoscalers()
	return g.facts, nil
}

func (g *gathering) problem(class plan.Class, reason, field, value, message, remedy string) {
	g.facts.Problems = append(g.facts.Problems, plan.Problem{
		Class: class, Reason: reason, Field: field, Value: value, Message: message, Remedy: remedy,
	})
}

// config reads the model config of the owner's ConfigMap, or makes that of spec.models.
func (g *gathering) config(ctx context.Context) error {
	if len(g.cr.Spec.Models) > 0 {
		config, err := modelconfig.New(declared(g.cr.Spec.Models))
		if err != nil {
			g.problem(plan.Terminal, reasonConfigInvalid, "spec.models", "", err.Error(), "correct the model; "+keepsRunning)
			return nil
		}
		g.facts.Config, g.facts.ConfigText, g.facts.ConfigOwn = config, config.String(), true
		return nil
	}
	name, file := g.cr.Spec.ConfigMap, configFile(g.cr)
	if name == "" {
		g.problem(plan.Terminal, reasonModelsNotDeclared, "spec.configMap", "", "neither a ConfigMap nor models are declared",
			"name a ConfigMap with a model config in spec.configMap, or declare spec.models")
		return nil
	}
	source, err := g.read.Referenced(ctx, gvkConfigMap, g.cr.Namespace, name)
	if err != nil {
		return err
	}
	if source == nil {
		g.problem(plan.Waiting, reasonConfigMapNotFound, "spec.configMap", name, "there is no ConfigMap of this name in the namespace",
			"create it with the model config under the key "+file)
		return nil
	}
	text, found, err := unstructured.NestedString(source.Object, "data", file)
	if err != nil || !found {
		g.problem(plan.Waiting, reasonConfigKeyNotFound, "spec.configFileName", file, "the ConfigMap "+name+" has no such key",
			"add the model config to the ConfigMap under this key, or name the key that it has")
		return nil
	}
	config, unknown, err := g.parsed(text)
	if err == nil {
		err = g.unusable(config)
	}
	if err != nil {
		g.problem(plan.Terminal, reasonConfigInvalid, "spec.configMap", name+"/"+file, "TensorFlow Serving would refuse it: "+controller.Cut(err.Error(), 512),
			"correct the ConfigMap; "+keepsRunning)
		return nil
	}
	g.facts.Config, g.facts.ConfigText, g.facts.Source, g.facts.Unknown = config, text, text, unknown
	return nil
}

// unusable is an error if the servers of the owner would refuse a model config that others take.
func (g *gathering) unusable(config modelconfig.Config) error {
	if name := config.Logged(); name != "" && g.cr.Spec.Image == "" {
		return fmt.Errorf("model %q has a logging_config, for which the images of TensorFlow Serving have no logger: take it out, or set "+
			"spec.image to an image that has one", name)
	}
	if g.cr.Spec.ConfigReload == v1alpha1.ConfigPoll && !config.Lists() {
		return errors.New("it has no model_config_list, to which servers that have one do not go over: write model_config_list {} for no models")
	}
	return nil
}

const keepsRunning = "servers that run keep the config that they were started with"

// declared turns spec.models into what a config is made of.
func declared(models []v1alpha1.Model) []modelconfig.Declared {
	var out []modelconfig.Declared
	for _, m := range models {
		d := modelconfig.Declared{Model: modelconfig.Model{Name: m.Name, BasePath: m.BasePath}, Labels: m.VersionLabels}
		if p := m.VersionPolicy; p != nil {
			switch {
			case p.All != nil:
				d.Policy.All = true
			case p.Specific != nil:
				d.Policy.Specific = p.Specific.Versions
			case p.Latest != nil:
				d.Policy.Latest = uint32(min(max(p.Latest.NumVersions, 1), 1000)) //nolint:gosec // Bounded here.
			}
		}
		out = append(out, d)
	}
	return out
}

// credentials reads the Secret for Google Cloud Storage.
func (g *gathering) credentials(ctx context.Context) error {
	if !usesSecret(g.cr) {
		return nil
	}
	name, file := secretName(g.cr), g.cr.Spec.SecretFileName
	secret, err := g.read.Referenced(ctx, gvkSecret, g.cr.Namespace, name)
	if err != nil {
		return err
	}
	if secret == nil {
		remedy := "create it with the credentials, or take secretFileName and secretName out for models that need none"
		g.problem(plan.Waiting, reasonSecretNotFound, "spec.secretName", name, "there is no Secret of this name in the namespace", remedy)
		return nil
	}
	data := controller.SecretData(secret)
	matching := matches(data, file)
	switch {
	case file == "" && len(data) == 1, file != "" && len(matching) == 1:
		g.facts.CredentialsFile, data = matching[0], controller.Only(data, matching[0])
	case file == "":
		// Several keys and none named: they are mounted, and the owner's image knows what to do with them.
	case len(matching) == 0:
		g.problem(plan.Waiting, reasonSecretKeyNotFound, "spec.secretFileName", file, "the Secret "+name+" has no such key",
			"add the credentials to the Secret under this key, or name the key that it has")
	default:
		g.problem(plan.Waiting, reasonSecretKeyNotFound, "spec.secretFileName", file,
			"the Secret "+name+" has "+strconv.Itoa(len(matching))+" keys of this form", "name one of them")
	}
	g.secrets = append(g.secrets, data)
	return nil
}

// matches returns the keys that a name or a pattern means, all of them without either.
func matches(data map[string][]byte, pattern string) []string {
	var out []string
	for key := range data {
		if ok, err := path.Match(pattern, key); pattern == "" || key == pattern || err == nil && ok {
			out = append(out, key)
		}
	}
	if slices.Contains(out, pattern) {
		return []string{pattern}
	}
	slices.Sort(out)
	return out
}

// claim looks whether the claim with the models is there.
func (g *gathering) claim(ctx context.Context) error {
	if g.cr.Spec.ModelVolume == nil {
		return nil
	}
	name := g.cr.Spec.ModelVolume.ClaimName
	claim, err := g.read.Referenced(ctx, gvkClaim, g.cr.Namespace, name)
	if err != nil {
		return err
	}
	if claim == nil {
		g.problem(plan.Waiting, reasonClaimNotFound, "spec.modelVolume.claimName", name,
			"there is no PersistentVolumeClaim of this name in the namespace", "create it and put the models onto it")
		return nil
	}
	modes, _, _ := unstructured.NestedStringSlice(claim.Object, "spec", "accessModes")
	several := func(mode string) bool {
		return mode == string(corev1.ReadOnlyMany) || mode == string(corev1.ReadWriteMany)
	}
	g.facts.SingleNode = len(modes) > 0 && !slices.ContainsFunc(modes, several)
	g.facts.SinglePod = g.facts.SingleNode && !slices.Contains(modes, string(corev1.ReadWriteOnce))
	return nil
}

// running reads what is observed of the Deployment.
func (g *gathering) running() {
	child := g.read.Child(gvkDeployment, g.cr.Namespace, g.cr.Name)
	seen := child.Stripped()
	if seen == nil {
		return
	}
	marks := seen.GetAnnotations()
	g.facts.Running = &Running{
		Config: marks[configAnnotation], Hash: marks[hashAnnotation], Template: marks[templateAnnotation], Inputs: marks[inputsAnnotation],
		Restart: marks[restartAnnotation], NextRestart: marks[nextRestartAnnotation], Autoscaled: marks[autoscaledAnnotation],
		Generation: child.Generation, ResourceVersion: child.ResourceVersion,
		Current: child.Health.Status == health.Current, Uncreated: health.Uncreated(seen),
		Rollout: workload.RolloutOf(seen),
	}
}

// ports reads the ports of the Service: a nodePort is to survive a change of the port that it belongs to, and a port a change that a problem holds back.
func (g *gathering) ports() {
	child := g.read.Child(gvkService, g.cr.Namespace, serviceName(g.cr))
	seen := child.Stripped()
	if seen == nil {
		return
	}
	list, _, _ := unstructured.NestedSlice(seen.Object, "spec", "ports")
	for _, item := range list {
		m, _ := item.(map[string]any)
		name, _ := m["name"].(string)
		port, _ := m["port"].(int64)
		nodePort, _ := m["nodePort"].(int64)
		if name == "" || port == 0 {
			continue
		}
		if g.facts.Ports == nil {
			g.facts.Ports = map[string]Port{}
		}
		g.facts.Ports[name] = Port{Port: port, NodePort: nodePort}
	}
}

// autoscalers looks which there are, also while they are being deleted: one of another kind than is declared is to be gone first. The canary
// track has none.
func (g *gathering) autoscalers() {
	g.facts.KEDA = g.read.Serves(gvkScaledObject)
	if autoscaler := g.there(gvkAutoscaler, g.cr.Name); autoscaler != nil {
		g.facts.Autoscaler = true
		if due := scalingFails(autoscaler.Stripped()).Add(unscaledAfter); due.After(g.read.Now()) {
			g.facts.UnscaledAt = due
		}
	}
	g.facts.ScaledObject = g.there(gvkScaledObject, g.cr.Name) != nil
}
