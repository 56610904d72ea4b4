package tfserving

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// liveConfig reads the model config that servers read again and again, as it is now.
func (g *gathering) liveConfig(ctx context.Context) error {
	if !polls(g.cr, g.facts) || g.facts.ConfigText == "" {
		return nil
	}
	live, err := g.read.Referenced(ctx, gvkConfigMap, g.cr.Namespace, liveName(g.cr))
	if err != nil || live == nil {
		return err
	}
	_ = json.Unmarshal([]byte(live.GetAnnotations()[leftAnnotation]), &g.left)
	g.liveText, _, _ = unstructured.NestedString(live.Object, "data", configFile(g.cr))
	if config, _, err := modelconfig.ParseNewer(g.liveText); err == nil {
		g.live = config
	}
	return nil
}

// holdLabels leaves a label that moves where it is, as long as not every server has the version that it moves to: TensorFlow Serving
// would refuse the whole config until then. Where there is no pod, nobody can refuse it; one that is not ready may run all the same.
func (g *gathering) holdLabels() {
	if g.liveText == "" || g.facts.Running == nil || g.facts.Running.Total == 0 {
		return
	}
	config, held := g.facts.Config.HoldLabels(g.live, func(model string, version int64) bool {
		return g.facts.Answer != nil && g.facts.Answer.Loaded[LoadedVersion{model, version}]
	})
	if len(held) > 0 && !g.waits(held[0]) {
		g.facts.Held, g.facts.Config, g.facts.ConfigText = held, config, config.String()
	}
}

const (
	// leftAnnotation records, on the ConfigMap that servers read again and again, the models that were taken out of it lately.
	leftAnnotation = keeper.AnnotationPrefix + "left-models"
	// maxLeft bounds them, and kubeletSync is the longest until a kubelet brings a ConfigMap to a pod that was changed: its sync period and the
	// life of what it remembers, a minute each (syncFrequency and configMapAndSecretChangeDetectionStrategy of a KubeletConfiguration).
	maxLeft, kubeletSync = 200, 2 * time.Minute
)

// leftModel is a model that was taken out: a digest of its base path, and when it was seen last, in seconds.
type leftModel struct {
	Path string `json:"path"`
	At   int64  `json:"at"`
}

// nameOf and pathOf are what a model is remembered by, however long its name and path are.
func nameOf(m modelconfig.Model) string { return hashOf(map[string]string{"name": m.Name})[:8] }
func pathOf(m modelconfig.Model) string { return hashOf(map[string]string{"path": m.BasePath})[:8] }

// leaving records what is taken out of the config that servers read, until one of that name is declared again. Without a change of the config
// the record stays as it is, so that time alone causes no write.
func (g *gathering) leaving() {
	if !polls(g.cr, g.facts) || len(g.facts.Problems) > 0 {
		return
	}
	left, declared := map[string]leftModel{}, map[string]bool{}
	for _, m := range g.facts.Config.Models() {
		declared[nameOf(m)] = true
	}
	add := func(name string, m leftModel) {
		if !declared[name] && len(left) < maxLeft {
			left[name] = m
		}
	}
	// What somebody else has written there is about to be repaired: a time that changes with each pass would be another content.
	running := g.facts.Running
	ours := running != nil && running.Hash == configHash(g.cr, g.liveText)
	if ours && g.liveText != "" && g.liveText != g.facts.ConfigText {
		for _, m := range g.live.Models() {
			add(nameOf(m), leftModel{pathOf(m), g.read.Now().Unix()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.left)) {
		if _, again := left[name]; !again && (g.liveText == g.facts.ConfigText || g.mayServe(g.left[name])) {
			add(name, g.left[name])
		}
	}
	if len(left) > 0 {
		text, _ := json.Marshal(left) //nolint:errchkjson // Texts and numbers.
		g.facts.Left = string(text)
	}
}

// mayServe says that a server may have a model still that was taken out: its kubelet may not have brought it the config without it, or it may not
// have read that.
func (g *gathering) mayServe(m leftModel) bool {
	poll := time.Duration(ptr.Deref(g.cr.Spec.ConfigPollSeconds, defaultConfigPoll)) * time.Second
	return g.read.Now().Sub(time.Unix(m.At, 0)) < kubeletSync+poll
}

// restart decides whether servers that read their config again are restarted for the one that is declared now. The pods are replaced once that
// is written: a new one must not start with the one before.
func (g *gathering) restart() {
	running := g.facts.Running
	if !polls(g.cr, g.facts) || running == nil {
		return
	}
	next := running.NextRestart
	if g.needsRestart() {
		// The config may be one that servers were restarted for before.
		next = hashOf(map[string]string{"restart": running.Restart, "live": g.liveText, "declared": g.facts.ConfigText})[:8]
	}
	g.facts.Restart, g.facts.NextRestart = running.Restart, next
	if next != "" && g.liveText == g.facts.ConfigText {
		g.facts.Restart, g.facts.NextRestart = next, ""
	}
}

// needsRestart says that servers which run with the config that MLKeeper wrote last would not come to serve the declared one by reading it: it
// declares a model of theirs with another base path, or they wait for a model that it has no more, or otherwise. A model for which they wait and
// that is declared as before may come yet.
func (g *gathering) needsRestart() bool {
	running := g.facts.Running
	if g.liveText == "" || g.liveText == g.facts.ConfigText || running.Total == 0 || len(g.facts.Problems) > 0 || running.Hash != configHash(g.cr, g.liveText) {
		return false
	}
	paths, policies, before := map[string]string{}, g.facts.Config.Policies(), g.live.Policies()
	for _, m := range g.facts.Config.Models() {
		paths[m.Name] = m.BasePath
	}
	if slices.ContainsFunc(g.facts.Config.Models(), g.cameBack) {
		return true
	}
	return slices.ContainsFunc(g.live.Models(), func(m modelconfig.Model) bool {
		path, declared := paths[m.Name]
		if declared && path != m.BasePath {
			// TensorFlow Serving tells versions apart by their numbers alone: one that it has is not loaded again from another folder
			// (AspiredVersionsManager::ProcessAspiredVersionsRequest in core/aspired_versions_manager.cc).
			return true
		}
		// It waits without limit for a version of each new model, and reads no other config meanwhile, not even the corrected one
		// (ServerCore::ReloadConfig in model_servers/server_core.cc).
		same := declared && reflect.DeepEqual(policies[m.Name], before[m.Name])
		return !same && (running.Ready == 0 || g.unknown(m.Name))
	})
}

// cameBack says that a model was taken out lately and is declared with another base path: a server that has not read the config between would find
// another path for versions that it has.
func (g *gathering) cameBack(m modelconfig.Model) bool {
	left, was := g.left[nameOf(m)]
	return was && left.Path != pathOf(m) && g.mayServe(left)
}

// unknown says that, by what they answered last, a server knows no version of a model.
func (g *gathering) unknown(model string) bool {
	return slices.ContainsFunc(g.cr.Status.Models, func(m v1alpha1.ModelStatus) bool {
		return m.Name == controller.Cut(model, maxModelName) && m.Version == "" && (m.Error == unknownModel || m.Error == noVersion)
	})
}
