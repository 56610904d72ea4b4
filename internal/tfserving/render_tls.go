package tfserving

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/workload"
)

const (
	// madeTLSVolume holds the SSLConfig that is made of a Secret of the type kubernetes.io/tls.
	madeTLSVolume = "tfs-tls-made-volume"
	madeTLSPath   = "/var/tfserving-tls-made"
	tlsInit       = "tfs-tls"
)

// makeTLS prints a SSLConfig: each line of a PEM as a string with its line break, of which a text proto makes one. It needs no right to write
// Secrets, and leaves the key where only the pod has it.
var makeTLS = fmt.Sprintf(`set -eu
umask 077
print() { echo "$1:"; sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' "%[1]s/$2"; echo; }
{ print server_key %[2]s; print server_cert %[3]s; } >%[4]s
`, tlsPath, corev1.TLSPrivateKeyKey, corev1.TLSCertKey, join(madeTLSPath, defaultTLSKey))

// tls is the TLS of the gRPC API; nil for none.
func (r *renderer) tls() *v1alpha1.ServerTLSSpec {
	if r.cr.Spec.Server == nil {
		return nil
	}
	return r.cr.Spec.Server.TLS
}

// tlsFile is the file with the SSLConfig.
func (r *renderer) tlsFile() string {
	if r.facts.TLSPair {
		return join(madeTLSPath, defaultTLSKey)
	}
	return join(tlsPath, cmp.Or(r.tls().Key, defaultTLSKey))
}

// tlsInit renders the init container that makes the SSLConfig, of the image that is there anyway. It asks for what the server asks for, so that
// the pod needs no more, and a quota has what it wants.
func (r *renderer) tlsInit() []corev1.Container {
	if r.tls() == nil || !r.facts.TLSPair {
		return nil
	}
	c := corev1.Container{
		Name:                     tlsInit,
		Image:                    r.image(),
		ImagePullPolicy:          cmp.Or(r.cr.Spec.ImagePullPolicy, corev1.PullIfNotPresent),
		Command:                  []string{"/bin/sh", "-c", makeTLS},
		VolumeMounts:             []corev1.VolumeMount{tlsMount(), {Name: madeTLSVolume, MountPath: madeTLSPath}},
		SecurityContext:          r.cr.Spec.SecurityContext,
		TerminationMessagePolicy: r.lastWords(),
	}
	if c.SecurityContext == nil {
		c.SecurityContext = workload.RestrictedContainer()
	}
	if r.cr.Spec.Resources != nil {
		c.Resources = *r.cr.Spec.Resources.DeepCopy()
	}
	return []corev1.Container{c}
}

func tlsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: tlsVolume, MountPath: tlsPath, ReadOnly: true}
}

// tlsMounts are the mounts of the server.
func (r *renderer) tlsMounts() []corev1.VolumeMount {
	switch {
	case r.tls() == nil:
		return nil
	case r.facts.TLSPair:
		return []corev1.VolumeMount{{Name: madeTLSVolume, MountPath: madeTLSPath, ReadOnly: true}}
	}
	return []corev1.VolumeMount{tlsMount()}
}

func (r *renderer) tlsVolumes() []corev1.Volume {
	if r.tls() == nil {
		return nil
	}
	out := []corev1.Volume{{Name: tlsVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: r.tls().SecretName},
	}}}
	if r.facts.TLSPair {
		// In memory, so that the key is on no disk.
		out = append(out, corev1.Volume{Name: madeTLSVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
		}})
	}
	return out
}
