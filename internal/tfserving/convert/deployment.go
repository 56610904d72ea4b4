package convert

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// What the image's entrypoint serves where nothing else is said (tensorflow_serving/tools/docker/Dockerfile).
const (
	imageModel, imageModelPath = "model", "/models"
	imageGRPC, imageREST       = 8500, 8501
	serverBinary               = "tensorflow_model_server"
	gcsVariable                = "GOOGLE_APPLICATION_CREDENTIALS"
)

var podPath = []string{"spec", "template", "spec"}

// below is a path below that of the pod.
func below(fields ...string) []string { return append(slices.Clone(podPath), fields...) }

// server is what the arguments and the environment of a Deployment's container say.
type server struct {
	name, base, config, monitoring, batching, tls string
	// own says that the command is the server's own, and not the image's entrypoint.
	own bool
	env map[string]string
}

// deployment converts one of TensorFlow Serving.
func (c *conversion) deployment() {
	at, found := c.serverContainer()
	if !found {
		c.fail("spec.template.spec.containers", "none runs TensorFlow Serving: no image and no command has its name, and no argument a model")
		return
	}
	labels := c.selector()
	if n, ok := c.number("spec", "replicas"); ok {
		c.out.Spec.Replicas = ptr.To(c.within("spec.replicas", n))
	}
	c.strategy()
	c.own([]string{"spec"}, "minReadySeconds", "progressDeadlineSeconds", "revisionHistoryLimit")
	s := c.command(at)
	if c.failed {
		return
	}
	c.models(s, at)
	c.credentials(s, at)
	c.folders(at)
	c.tls(s, at)
	c.container(at...)
	c.containerPorts(at)
	c.pod(podPath...)
	c.service(labels)
	c.autoscaler()
	c.disruption(labels)
	if c.out.Spec.Image == "" {
		c.fail(join(append(at, "image")), "is missing")
	}
	if c.options.Suffix == "" {
		c.warn("metadata.name", "the Tfserv makes a Deployment of the same name, and reports ResourceConflict while this one exists: give it "+
			"another name with --suffix, or delete this one first")
	}
}

// serverContainer is the path of the container that runs the server.
func (c *conversion) serverContainer() ([]string, bool) {
	list := below("containers")
	for i := range c.left.length(list...) {
		at := append(slices.Clone(list), strconv.Itoa(i))
		v, _ := c.left.peek(at...)
		container, _ := v.(map[string]any)
		image, _ := container["image"].(string)
		words := []string{image}
		for _, field := range []string{"command", "args"} {
			given, _ := container[field].([]any)
			for _, word := range given {
				text, _ := word.(string)
				words = append(words, text)
			}
		}
		if slices.ContainsFunc(words, func(w string) bool {
			return strings.Contains(w, "tensorflow/serving") || strings.Contains(w, "tensorflow-serving") || strings.Contains(w, serverBinary) ||
				strings.HasPrefix(w, "--model_base_path=") || strings.HasPrefix(w, "--model_config_file=")
		}) {
			return at, true
		}
	}
	return nil, false
}

// selector takes out what tells the pods of the Deployment apart, for which a Tfserv has a label of its own, and returns their labels. Those by which
// anything selects the old pods are not given to the new ones: both would be counted, evicted and sent requests as if they were the same.
func (c *conversion) selector() map[string]string {
	labels, _ := decode[map[string]string](c, "spec", "template", "metadata", "labels")
	selectedBy := map[string]bool{}
	if labels != nil {
		selectedBy = c.selectedBy(*labels)
	}
	c.left.drop("spec", "selector")
	c.left.drop("spec", "template", "metadata", "creationTimestamp")
	c.podAnnotations("spec", "template", "metadata", "annotations")
	if labels == nil || len(*labels) == 0 {
		return nil
	}
	c.podLabels("spec.template.metadata.labels", *labels, selectedBy)
	c.note("spec.template.metadata.labels", "the new pods have the label tfsName=%s, and none by which the old ones are selected (%s): what selects the "+
		"old ones by it has to change", c.out.Name, strings.Join(slices.Sorted(maps.Keys(selectedBy)), ", "))
	return *labels
}

// selectedBy are the labels by which the Deployment, a Service or a PodDisruptionBudget among the objects selects its pods.
func (c *conversion) selectedBy(labels map[string]string) map[string]bool {
	out := map[string]bool{}
	add := func(object map[string]any, always bool, path ...string) {
		selector, _, _ := unstructured.NestedStringMap(object, path...)
		for key := range selector {
			if always || within(selector, labels) {
				out[key] = true
			}
		}
	}
	add(c.left.object, true, "spec", "selector", "matchLabels")
	expressions, _ := c.left.peek("spec", "selector", "matchExpressions")
	list, _ := expressions.([]any)
	for _, item := range list {
		expression, _ := item.(map[string]any)
		if key, _ := expression["key"].(string); key != "" {
			out[key] = true
		}
	}
	for _, u := range c.others {
		switch {
		case u.GetNamespace() != c.out.Namespace:
		case u.GetKind() == "Service":
			add(u.Object, false, "spec", "selector")
		case u.GetKind() == "PodDisruptionBudget":
			add(u.Object, false, "spec", "selector", "matchLabels")
		}
	}
	return out
}

// command reads the flags of the server.
func (c *conversion) command(at []string) *server {
	s := &server{env: c.variables(append(slices.Clone(at), "env"), "MODEL_NAME", "MODEL_BASE_PATH", gcsVariable)}
	field := append(slices.Clone(at), "command")
	flags := c.common()
	for name, to := range map[string]*string{
		"model_name": &s.name, "model_base_path": &s.base, "model_config_file": &s.config,
		"monitoring_config_file": &s.monitoring, "batching_parameters_file": &s.batching, "ssl_config_file": &s.tls,
	} {
		flags[name] = func(value string) bool {
			*to = value
			return true
		}
	}
	if c.left.length(field...) > 0 {
		first := c.text(append(slices.Clone(field), "0")...)
		if path.Base(first) != serverBinary {
			c.fail(join(field), "%q is not %s: what a script starts is not known here; write the flags of the server into args", first, serverBinary)
			return s
		}
		s.own = true
		c.arguments(field, flags)
	}
	c.arguments(append(slices.Clone(at), "args"), flags)
	c.perModelBatching(join(append(slices.Clone(at), "args")))
	c.out.Spec.GrpcPort = cmp.Or(c.out.Spec.GrpcPort, ptr.To(int32(imageGRPC)))
	c.out.Spec.RestPort = cmp.Or(c.out.Spec.RestPort, ptr.To(int32(imageREST)))
	return s
}

// containerPorts takes out the ports of the container, which those of the flags are in a Tfserv.
func (c *conversion) containerPorts(at []string) {
	list := append(slices.Clone(at), "ports")
	for i := range c.left.length(list...) {
		for _, field := range []string{"name", "containerPort", "protocol"} {
			c.left.drop(append(slices.Clone(list), strconv.Itoa(i), field)...)
		}
	}
}

// models converts what is served.
func (c *conversion) models(s *server, at []string) {
	args := join(append(slices.Clone(at), "args"))
	switch {
	case s.config != "":
		c.modelConfig(s.config, at)
	case s.base != "" || s.env["MODEL_NAME"] != "" || s.env["MODEL_BASE_PATH"] != "" || !s.own:
		name := cmp.Or(s.name, s.env["MODEL_NAME"], imageModel)
		if s.own {
			name = cmp.Or(s.name, "default")
		}
		base := cmp.Or(s.base, path.Join(cmp.Or(s.env["MODEL_BASE_PATH"], imageModelPath), name))
		if s.base == "" && len(s.env) == 0 {
			c.warn(args, "name no model: the image serves %s at %s unless it says otherwise itself; check spec.models", name, base)
		}
		c.out.Spec.Models = []v1alpha1.Model{{Name: name, BasePath: base}}
		if strings.HasPrefix(base, "s3://") {
			c.s3(args)
		}
		c.volume(base, at)
	default:
		c.fail(args, "name no model: neither --model_base_path nor --model_config_file is there")
	}
	c.monitoringFile(s.monitoring, at)
	c.batchingFile(s.batching, at)
}

// modelConfig converts a model config in a ConfigMap.
func (c *conversion) modelConfig(file string, at []string) {
	field := join(append(slices.Clone(at), "args"))
	v, mount := c.mounted(file, at)
	if v == nil || v.ConfigMap == nil || v.ConfigMap.Name == "" {
		c.fail(field, "--model_config_file=%s is in no volume that names a ConfigMap: write the models into spec.models", file)
		return
	}
	key, folder := mountedKey(file, mount, v.ConfigMap.Items)
	if path.Join(folder, key) != path.Clean(file) {
		c.note(field, "the file is at another path in the new pods, under the name of its key")
	}
	c.out.Spec.ConfigMap, c.out.Spec.ConfigFileName, c.out.Spec.ConfigFileLocation = v.ConfigMap.Name, key, folder
	config := c.other("ConfigMap", v.ConfigMap.Name)
	if config == nil {
		c.warn(field, "the ConfigMap %s is not among the objects, so that its models, and the volumes that these need, are not known",
			v.ConfigMap.Name)
		return
	}
	c.used[config] = true
	text, _, _ := unstructured.NestedString(config.Object, "data", key)
	// A Deployment is converted with its image, which the operator takes for one that may be newer.
	parsed, unknown, err := modelconfig.ParseNewer(text)
	if err != nil {
		c.fail(field, "the model config in ConfigMap %s: %v", v.ConfigMap.Name, err)
		return
	}
	if unknown != "" {
		c.warn(field, "the model config in ConfigMap %s has a field that MLKeeper does not know, and does not check: %s", v.ConfigMap.Name, unknown)
	}
	for _, m := range parsed.Models() {
		if strings.HasPrefix(m.BasePath, "s3://") && c.out.Spec.S3 == nil {
			c.s3(field)
		}
		c.volume(m.BasePath, at)
	}
	if unknown != "" && c.out.Spec.S3 != nil {
		c.fail(field, "MLKeeper prints a model config anew for models that it downloads, and would drop that field: take it out")
	}
}

// volume converts the volume that has a base path.
func (c *conversion) volume(base string, at []string) {
	if !path.IsAbs(base) {
		return
	}
	v, mount := c.mounted(base, at)
	switch {
	case v == nil:
		if c.out.Spec.ModelVolume == nil {
			c.warn(join(append(slices.Clone(at), "volumeMounts")), "%s is in no volume: the image has to have the model", base)
		}
	case v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName == "":
		c.fail(join(below("volumes")), "%s is in the volume %s, which names no PersistentVolumeClaim: put the models onto one, or into gs:// or s3://",
			base, v.Name)
	default:
		volume := v1alpha1.ModelVolumeSpec{
			ClaimName: v.PersistentVolumeClaim.ClaimName, MountPath: path.Clean(mount.MountPath), SubPath: mount.SubPath,
		}
		if other := cmp.Or(c.out.Spec.ModelVolume, &volume); *other != volume {
			c.fail(join(below("volumes")), "the models are on two volumes, at %s and at %s, and a Tfserv has one: put them onto one", other.MountPath,
				volume.MountPath)
		}
		c.out.Spec.ModelVolume = &volume
	}
}

// credentials converts the Secret for Google Cloud Storage.
func (c *conversion) credentials(s *server, at []string) {
	file := s.env[gcsVariable]
	if file == "" {
		return
	}
	v, mount := c.mounted(file, at)
	if v == nil || v.Secret == nil || v.Secret.SecretName == "" {
		c.fail(join(append(slices.Clone(at), "env")), "%s=%s is in no volume that names a Secret", gcsVariable, file)
		return
	}
	key, folder := mountedKey(file, mount, v.Secret.Items)
	c.out.Spec.SecretName, c.out.Spec.SecretFileName, c.out.Spec.SecretFileLocation = v.Secret.SecretName, key, folder
}

// folders leaves the folder of the model config, and of the credentials, to MLKeeper where something else is mounted there, or where it is the
// root: the file was mounted alone. The server is told of either by MLKeeper.
func (c *conversion) folders(at []string) {
	taken := map[string]bool{"/": true}
	if v := c.out.Spec.ModelVolume; v != nil {
		taken[v.MountPath] = true
	}
	for _, folder := range []*string{&c.out.Spec.ConfigFileLocation, &c.out.Spec.SecretFileLocation} {
		if taken[*folder] {
			c.note(join(append(slices.Clone(at), "volumeMounts")), "a file was mounted alone in %s, and is in a folder of its own in the new pods", *folder)
			*folder = ""
		}
		taken[*folder] = *folder != ""
	}
}

// mountedKey is the key of a ConfigMap or Secret that is at a path, and the folder in which it is mounted under its own name.
func mountedKey(file string, mount *corev1.VolumeMount, items []corev1.KeyToPath) (key, folder string) {
	key, folder = strings.TrimPrefix(strings.TrimPrefix(file, mount.MountPath), "/"), path.Clean(mount.MountPath)
	if mount.SubPath != "" {
		key, folder = mount.SubPath, path.Dir(folder)
	}
	for _, item := range items {
		if item.Path == key {
			key = item.Key
			break
		}
	}
	return key, folder
}

// mounted is the volume with a file or folder, with its mount, which are taken out.
func (c *conversion) mounted(file string, at []string) (*corev1.Volume, *corev1.VolumeMount) {
	mounts := append(slices.Clone(at), "volumeMounts")
	best := -1
	var mount corev1.VolumeMount
	for i := range c.left.length(mounts...) {
		one, ok := peekAs[corev1.VolumeMount](c, append(slices.Clone(mounts), strconv.Itoa(i))...)
		if !ok {
			continue
		}
		folder := path.Clean(one.MountPath)
		if (file == folder || strings.HasPrefix(file, folder+"/")) && (best < 0 || len(one.MountPath) > len(mount.MountPath)) {
			best, mount = i, *one
		}
	}
	if best < 0 {
		return nil, nil
	}
	for i := range c.left.length(below("volumes")...) {
		v, ok := peekAs[corev1.Volume](c, below("volumes", strconv.Itoa(i))...)
		if ok && v.Name == mount.Name {
			c.takenMounts = append(c.takenMounts, append(slices.Clone(mounts), strconv.Itoa(best)), below("volumes", strconv.Itoa(i)))
			return v, &mount
		}
	}
	return nil, nil
}

// peekAs reads a field as a type of the API and leaves it.
func peekAs[T any](c *conversion, at ...string) (*T, bool) {
	v, found := c.left.peek(at...)
	if !found {
		return nil, false
	}
	copied := conversion{result: &Result{}, left: rest{map[string]any{"v": v}}}
	return decode[T](&copied, "v")
}
