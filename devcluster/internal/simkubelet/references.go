package simkubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/util/format"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// reader is what of the cluster a kubelet reads.
type reader struct {
	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	secrets    corelisters.SecretLister
	configMaps corelisters.ConfigMapLister
	claims     corelisters.PersistentVolumeClaimLister
	accounts   corelisters.ServiceAccountLister
}

// isTrue is the value of a field that is false by default.
func isTrue(b *bool) bool { return b != nil && *b }

// secret is the names of a Secret's keys, and nil for an optional one that is missing.
func (r reader) secret(namespace, name string, optional *bool) (map[string]bool, error) {
	s, err := r.secrets.Secrets(namespace).Get(name)
	if err != nil {
		if isTrue(optional) {
			return nil, nil
		}
		// pkg/kubelet/secret/secret_manager.go, NewWatchingSecretManager, names the resource in the singular.
		return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
	}
	keys := map[string]bool{}
	for key := range s.Data {
		keys[key] = true
	}
	return keys, nil
}

// configMap is the names of a ConfigMap's keys, with those of binary data if they count.
func (r reader) configMap(namespace, name string, optional *bool, binary bool) (map[string]bool, error) {
	c, err := r.configMaps.ConfigMaps(namespace).Get(name)
	if err != nil {
		if isTrue(optional) {
			return nil, nil
		}
		return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
	}
	keys := map[string]bool{}
	for key := range c.Data {
		keys[key] = true
	}
	if binary {
		for key := range c.BinaryData {
			keys[key] = true
		}
	}
	return keys, nil
}

// environment says why the environment of a container cannot be made: pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables.
func (r reader) environment(namespace string, c *corev1.Container) error {
	for _, from := range c.EnvFrom {
		var err error
		switch {
		case from.ConfigMapRef != nil:
			_, err = r.configMap(namespace, from.ConfigMapRef.Name, from.ConfigMapRef.Optional, false)
		case from.SecretRef != nil:
			_, err = r.secret(namespace, from.SecretRef.Name, from.SecretRef.Optional)
		}
		if err != nil {
			return err
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		// An explicit value wins over where it may come from.
		if from == nil || c.Env[i].Value != "" {
			continue
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			keys, err := r.configMap(namespace, ref.Name, ref.Optional, false)
			if err != nil {
				return err
			}
			if !keys[ref.Key] && !isTrue(ref.Optional) {
				return fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, namespace, ref.Name)
			}
		}
		if ref := from.SecretKeyRef; ref != nil {
			keys, err := r.secret(namespace, ref.Name, ref.Optional)
			if err != nil {
				return err
			}
			if !keys[ref.Key] && !isTrue(ref.Optional) {
				return fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, namespace, ref.Name)
			}
		}
	}
	return nil
}

// config says why a container cannot be configured: its environment, and pkg/kubelet/kuberuntime/security_context_others.go,
// verifyRunAsNonRoot, as far as no image is asked.
func (r reader) config(pod *corev1.Pod, c *corev1.Container) error {
	if err := r.environment(pod.Namespace, c); err != nil {
		return err
	}
	var nonRoot *bool
	var user *int64
	if s := pod.Spec.SecurityContext; s != nil {
		nonRoot, user = s.RunAsNonRoot, s.RunAsUser
	}
	if s := c.SecurityContext; s != nil {
		if s.RunAsNonRoot != nil {
			nonRoot = s.RunAsNonRoot
		}
		if s.RunAsUser != nil {
			user = s.RunAsUser
		}
	}
	if isTrue(nonRoot) && user != nil && *user == 0 {
		return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", format.Pod(pod), c.Name)
	}
	return nil
}

// volumes are the messages of the events about the volumes of a pod that cannot be set up.
func (r reader) volumes(pod *corev1.Pod) []string {
	var messages []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if err := r.claim(pod, v); err != nil {
			// pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount.
			messages = append(messages, fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], "+
				"unattached volumes=[], failed to process volumes=[%s]: %v", v.Name, v.Name, err))
			continue
		}
		if err := r.volume(pod, v); err != nil {
			// pkg/volume/util/operationexecutor/operation_generator.go, GenerateMountVolumeFunc.
			messages = append(messages, fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", v.Name, err))
		}
	}
	return messages
}

// claimOf is the name of the claim of a volume: pkg/volume/util names those of generic ephemeral volumes as their controller does.
func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// claim says why the claim of a volume cannot be used: pkg/kubelet/volumemanager/populator, getPVCExtractPV.
func (r reader) claim(pod *corev1.Pod, v *corev1.Volume) error {
	name := claimOf(pod, v)
	if name == "" {
		return nil
	}
	claim, err := r.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	switch {
	case err != nil:
		err = fmt.Errorf("failed to fetch PVC from API server: %w",
			apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name))
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, volumeutil.PVCProtectionFinalizer):
		err = errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		err = errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		err = errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	if err != nil {
		return fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	return nil
}

// volume says why a volume that is made of API objects cannot be set up: pkg/volume/secret, configmap, projected and csi.
func (r reader) volume(pod *corev1.Pod, v *corev1.Volume) error {
	switch {
	case v.Secret != nil:
		return r.secretItems(pod.Namespace, v.Secret.SecretName, v.Secret.Optional, v.Secret.Items)
	case v.ConfigMap != nil:
		return r.configMapItems(pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Optional, v.ConfigMap.Items)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		_, err := r.secret(pod.Namespace, v.CSI.NodePublishSecretRef.Name, nil)
		return err
	case v.Projected != nil:
		var errs []error
		for _, s := range v.Projected.Sources {
			switch {
			case s.Secret != nil:
				errs = append(errs, r.secretItems(pod.Namespace, s.Secret.Name, s.Secret.Optional, s.Secret.Items))
			case s.ConfigMap != nil:
				errs = append(errs, r.configMapItems(pod.Namespace, s.ConfigMap.Name, s.ConfigMap.Optional, s.ConfigMap.Items))
			case s.ServiceAccountToken != nil:
				errs = append(errs, r.token(pod))
			}
		}
		// Its text has each message once.
		return utilerrors.NewAggregate(errs)
	}
	return nil
}

func (r reader) secretItems(namespace, name string, optional *bool, items []corev1.KeyToPath) error {
	keys, err := r.secret(namespace, name, optional)
	if err != nil {
		return err
	}
	return missingItem(keys, items, optional, "references non-existent secret key: ")
}

func (r reader) configMapItems(namespace, name string, optional *bool, items []corev1.KeyToPath) error {
	keys, err := r.configMap(namespace, name, optional, true)
	if err != nil {
		return err
	}
	return missingItem(keys, items, optional, "configmap references non-existent config key: ")
}

func missingItem(keys map[string]bool, items []corev1.KeyToPath, optional *bool, message string) error {
	for _, item := range items {
		if !keys[item.Key] && !isTrue(optional) {
			return errors.New(message + item.Key)
		}
	}
	return nil
}

// token says why there is no token for a pod: pkg/kubelet/token/token_manager.go asks the API server for it.
func (r reader) token(pod *corev1.Pod) error {
	name := pod.Spec.ServiceAccountName
	if _, err := r.accounts.ServiceAccounts(pod.Namespace).Get(name); err != nil {
		return fmt.Errorf("failed to fetch token: %w", apierrors.NewNotFound(corev1.Resource("serviceaccounts"), name))
	}
	return nil
}

// pullSecrets is the message about missing image pull secrets, or empty: pkg/kubelet/kubelet_pods.go, getPullSecretsForPod.
func (r reader) pullSecrets(pod *corev1.Pod) string {
	var missing []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		if _, err := r.secrets.Secrets(pod.Namespace).Get(ref.Name); err != nil {
			missing = append(missing, ref.Name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.",
		strings.Join(missing, ", "))
}
