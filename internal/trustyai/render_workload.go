package trustyai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

const (
	// templateAnnotation records on the Deployment which template it runs, and selectorAnnotation the selector that was
	// adopted from upstream (invariant 8). The cache keeps annotations of this prefix only.
	templateAnnotation = keeper.AnnotationPrefix + "template"
	selectorAnnotation = keeper.AnnotationPrefix + "selector"
	// servesAnnotation records what the pods were made to serve.
	servesAnnotation = keeper.AnnotationPrefix + "serves"
	// adoptedWithAnnotation records what the pods of the original operator were adopted with.
	adoptedWithAnnotation = keeper.AnnotationPrefix + "adopted-with"
	// credentialsAnnotation and certificatesAnnotation carry keyed digests of what the pods read once at their start, so
	// that a rotation rolls them (invariant 16).
	credentialsAnnotation  = "trustyai.opendatahub.io/credentials-digest"
	certificatesAnnotation = "trustyai.opendatahub.io/certificates-digest"

	serviceContainer = "trustyai-service"
	dataVolume       = "volume"
	databaseCAVolume = "db-ca-cert"
	trustedCA        = "odh-trusted-ca-bundle"
	proxyConfigMount = "kube-rbac-proxy-config"

	// fileGroup owns the files of the volume where no security context constraints of OpenShift choose a group.
	fileGroup = 1001
)

// workload renders the Deployment, unless a problem keeps its pods from starting: then a Deployment that runs is left
// as it is, and none is created.
func (r *scene) workload(ok bool) *plan.Object {
	schedule, valid := r.schedule()
	ok = ok && valid
	image := r.settings.image(r.cr)
	if r.securesPods && r.settings.ProxyImage == "" {
		r.problem(plan.Terminal, "ProxyImageNotConfigured", "spec.exposure", string(v1.ExposureSecured),
			"a Secured service needs the image of kube-rbac-proxy, and the operator names none",
			"start the operator with --trustyai-proxy-image, or set spec.exposure to Plain")
		ok = false
	}
	// No check may hide another: each adds its own problem.
	ok = r.checkFolder() && ok
	ok = r.checkDatabase() && ok
	ok = r.checkWriters() && ok
	ok = r.checkShared() && ok
	env, valid := r.environment(schedule)
	if ok = valid && ok; !ok {
		return nil
	}
	labels := r.labels()
	selector := r.podSelector()
	meta := r.meta(r.names.base, labels)
	meta.Annotations = map[string]string{templateAnnotation: string(r.template), servesAnnotation: encoded(r.serves())}
	// Without the version, which changes with a release of the operator and would restart every pod.
	podLabels := r.podSelector()
	if d := r.facts.Deployment; d != nil && len(d.Selector) > 0 {
		selector = d.Selector
		maps.Copy(podLabels, selector)
		meta.Annotations[selectorAnnotation] = encoded(selector)
	}
	var deadline *int32
	if r.settings.ProgressDeadline > 0 {
		deadline = pointer(r.settings.ProgressDeadline)
	}
	o := plan.Typed(gvkDeployment, &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:                r.replicas(),
			Selector:                selectorOf(selector),
			Strategy:                r.strategy(),
			ProgressDeadlineSeconds: deadline,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: r.podAnnotations()},
				Spec:       r.pod(image, env),
			},
		},
	})
	if then, holds := r.adoptedPods(); holds {
		// The template stays as the original operator wrote it, and so do its pods (invariant 8).
		o.Partial = true
		unstructured.RemoveNestedField(o.Desired.Object, "spec", "template")
		annotations := o.Desired.GetAnnotations()
		annotations[adoptedWithAnnotation] = encoded(then)
		o.Desired.SetAnnotations(annotations)
	}
	if r.securesPods {
		o.Hold = cmp.Or(r.lacks(r.facts.Certs.AwaitsLeaf), r.open())
	}
	r.add(o)
	return &o
}

// serves is what is recorded of the pods of the spec.
func (r *scene) serves() Served {
	out := declaredServed(r.cr, r.facts.Generation)
	out.Trusted = r.own()
	return out
}

// adoptedPods says whether the pods of the original operator keep running, and what is recorded for that: until the spec,
// an image or what they read at their start changes.
func (r *scene) adoptedPods() (then AdoptedPods, holds bool) {
	if r.facts.Deployment == nil || r.template != templateFor(r.facts.Running) || r.facts.Next != nil {
		return AdoptedPods{}, false
	}
	now := AdoptedPods{Generation: r.cr.Generation, Image: r.settings.image(r.cr)}
	if r.securesPods {
		now.Proxy, now.Certs = r.settings.ProxyImage, r.facts.Certs.Digest
	}
	if usesDatabase(r.template) {
		now.Database = r.facts.Database.Digest
	}
	return r.facts.Deployment.AdoptedPods.holds(now)
}

// encoded is what is recorded on the Deployment, as JSON with sorted keys.
func encoded(what any) string {
	raw, err := json.Marshal(what)
	if err != nil {
		panic(fmt.Sprintf("bug: %T does not encode: %v", what, err))
	}
	return string(raw)
}

// strategy says how pods are replaced. The service guards its files within one process only: two processes on one folder
// lose rows, and leave rows that no longer belong together. So the pod that has the volume is gone before the next one
// starts, which RollingUpdate does not wait for even with maxSurge 0. Pods on a database start before the old ones stop.
func (r *scene) strategy() appsv1.DeploymentStrategy {
	if usesVolume(r.template) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: pointer(intstr.FromInt32(1)), MaxUnavailable: pointer(intstr.FromInt32(0)),
		},
	}
}

// replicas is the number of pods: what the spec says, and at most one while a migration still has the volume.
func (r *scene) replicas() *int32 {
	n := int32(1)
	if r.cr.Spec.Replicas != nil {
		n = *r.cr.Spec.Replicas
	}
	if usesVolume(r.template) {
		n = min(n, 1)
	}
	return &n
}

// checkWriters refuses more than one pod on a volume. The schema does so too; this is for a custom resource that was
// stored before it did.
func (r *scene) checkWriters() bool {
	n := r.cr.Spec.Replicas
	if n == nil || *n <= 1 || r.cr.Spec.Storage.Format != v1.StoragePVC || !usesVolume(r.template) {
		return true
	}
	r.problem(plan.Terminal, "ReplicasShareVolume", "spec.replicas", strconv.FormatInt(int64(*n), 10),
		"the service keeps files on a volume, which only one pod may write to; the pods that run are left as they are",
		"set spec.replicas to 1, or spec.storage.format to DATABASE")
	return false
}

// checkFolder checks where the volume is mounted.
func (r *scene) checkFolder() bool {
	const field = "spec.storage.folder"
	if !usesVolume(r.template) {
		return true
	}
	folder := r.cr.Spec.Storage.Folder
	switch {
	case folder == "":
		r.problem(plan.Terminal, "FolderMissing", field, "", "the folder of the files is needed while they are used or copied",
			"set the absolute path where the volume is mounted, such as /inputs")
	case !strings.HasPrefix(folder, "/") || strings.Contains(folder, ":") || strings.Contains(folder, "..") || strings.ContainsAny(folder, "\n\r\x00"):
		r.problem(plan.Terminal, "InvalidFolder", field, quote(folder), "is not an absolute path without ':' or '..'",
			"set an absolute path such as /inputs")
	default:
		return true
	}
	return false
}

// checkDatabase checks the credentials of the database, without ever naming a value of them. Pods are not started
// without: those that run keep running.
func (r *scene) checkDatabase() bool {
	const field = "spec.storage.databaseConfigurations"
	needed := usesDatabase(r.template)
	waits := r.facts.Next != nil && r.facts.Next.Phase == v1.MigrationPending
	if !needed && !waits {
		return true
	}
	db := r.facts.Database
	switch {
	case !db.Found:
		r.problem(plan.Waiting, reasonDBCredentialsNotFound, field, r.names.databaseSecret, "there is no Secret of this name in the namespace",
			"create the Secret with the keys "+strings.Join(mandatoryKeys, ", "))
	case len(db.Missing) > 0:
		r.problem(plan.Waiting, reasonDBCredentialsError, field, r.names.databaseSecret,
			"the Secret lacks a value for "+strings.Join(db.Missing, ", "), "add the missing keys to the Secret")
	case db.Unsigned:
		r.problem(plan.Waiting, reasonDBCredentialsError, "metadata.name", r.cr.Name,
			"the Secret "+r.names.databaseCA+", by which the connection to the database is verified, has no ca.crt", "add ca.crt to the Secret, or delete it")
	default:
		if !db.Generation {
			r.warn("the Secret %s has no key databaseGeneration: the service neither creates nor updates its tables", r.names.databaseSecret)
		}
		return true
	}
	return !needed
}

func (r *scene) podAnnotations() map[string]string {
	out := map[string]string{}
	if !ADRShape(r.cr) {
		maps.Copy(out, scrapeAnnotations(r.securesPods, r.layout))
	}
	if usesDatabase(r.template) && r.facts.Database.Digest != "" {
		out[credentialsAnnotation] = r.facts.Database.Digest
	}
	if r.securesPods && r.facts.Certs.Digest != "" {
		out[certificatesAnnotation] = r.facts.Certs.Digest
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// pod renders the pod: within the restricted Pod Security Standard, with the sidecar of a Secured service.
func (r *scene) pod(image string, env []corev1.EnvVar) corev1.PodSpec {
	pod := corev1.PodSpec{
		Containers:        []corev1.Container{r.service(image, env)},
		Volumes:           r.volumes(),
		ImagePullSecrets:  r.cr.Spec.ImagePullSecrets,
		SecurityContext:   r.podSecurity(),
		PriorityClassName: r.cr.Spec.PriorityClassName,
	}
	workload.Schedule(&pod, r.cr.Spec.Scheduling)
	if r.securesPods {
		pod.ServiceAccountName = r.names.proxyAccount
		pod.Containers = append(pod.Containers, r.proxy())
	} else {
		pod.ServiceAccountName = "default"
		pod.AutomountServiceAccountToken = pointer(false)
	}
	return pod
}

// podSecurity is the security context of the pod.
func (r *scene) podSecurity() *corev1.PodSecurityContext {
	if own := r.cr.Spec.PodSecurityContext; own != nil {
		return own.DeepCopy()
	}
	out := workload.RestrictedPod()
	// On OpenShift the constraints choose the group, and refuse any other.
	if usesVolume(r.template) && !r.facts.Serves.Constraints {
		out.FSGroup = pointer(int64(fileGroup))
		out.FSGroupChangePolicy = pointer(corev1.FSGroupChangeOnRootMismatch)
	}
	return out
}

// containerSecurity is what the restricted Pod Security Standard asks of a container, also where the pod has another context than ours.
func containerSecurity() *corev1.SecurityContext {
	out, pod := workload.RestrictedContainer(), workload.RestrictedPod()
	out.RunAsNonRoot, out.SeccompProfile = pod.RunAsNonRoot, pod.SeccompProfile
	return out
}

// service renders the container of the service (trustyai-service-operator HEAD 11c335b).
func (r *scene) service(image string, env []corev1.EnvVar) corev1.Container {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(r.layout.probes), Scheme: corev1.URISchemeHTTP}},
			InitialDelaySeconds: 10, PeriodSeconds: 5, TimeoutSeconds: 2,
		}
	}
	c := corev1.Container{
		Name:            serviceContainer,
		Image:           image,
		ImagePullPolicy: r.cr.Spec.ImagePullPolicy,
		Env:             env,
		Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: r.layout.http, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe:  probe("/q/health/ready"),
		LivenessProbe:   probe("/q/health/live"),
		SecurityContext: containerSecurity(),
	}
	if r.layout.late {
		c.StartupProbe = r.startup(probe("/q/health/live"))
	}
	if res := r.cr.Spec.Resources; res != nil {
		c.Resources = *res.DeepCopy()
	}
	if r.securesPods {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: "service-https", ContainerPort: r.layout.tls, Protocol: corev1.ProtocolTCP})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: r.internalVolume(), MountPath: "/etc/tls/internal", ReadOnly: true})
	}
	if usesVolume(r.template) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: dataVolume, MountPath: r.cr.Spec.Storage.Folder})
	}
	if usesDatabase(r.template) && r.facts.Database.CA {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: databaseCAVolume, MountPath: "/etc/tls/db", ReadOnly: true})
	}
	return c
}

// defaultDeadline is how many seconds a Deployment's rollout may go without progress where nobody says so.
const defaultDeadline = 600

// startup keeps the liveness probe from ending a service that does not listen yet, for as long as the Deployment waits for it. A service that
// is ended while it copies copies the same rows again after its restart.
func (r *scene) startup(probe *corev1.Probe) *corev1.Probe {
	deadline := r.settings.ProgressDeadline
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	probe.InitialDelaySeconds = 0
	probe.FailureThreshold = deadline/probe.PeriodSeconds + 1
	return probe
}

// tlsVolume and internalVolume are upstream's names of the volumes with the certificates. They don't follow the name of a
// user's Secret, which may be no legal name of a volume.
func (r *scene) tlsVolume() string      { return r.names.base + "-tls" }
func (r *scene) internalVolume() string { return r.names.base + "-internal" }

func (r *scene) volumes() []corev1.Volume {
	secret := func(volume, name string) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: pointer(int32(0o644))},
		}}
	}
	configMap := func(volume, name string) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, DefaultMode: pointer(int32(0o644)),
		}}}
	}
	var out []corev1.Volume
	if usesVolume(r.template) {
		out = append(out, corev1.Volume{Name: dataVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: r.names.pvc},
		}})
	}
	if r.securesPods {
		out = append(out, secret(r.tlsVolume(), r.names.tlsSecret), secret(r.internalVolume(), r.names.internalSecret),
			configMap(proxyConfigMount, r.names.proxyConfig))
		if r.facts.TrustedCA {
			out = append(out, configMap(trustedCA, trustedCA))
		}
	}
	if usesDatabase(r.template) && r.facts.Database.CA {
		out = append(out, secret(databaseCAVolume, r.names.databaseCA))
	}
	return out
}
