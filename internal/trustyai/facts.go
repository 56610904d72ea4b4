package trustyai

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/workload"
)

// Settings are what the operator is told about the controller.
type Settings struct {
	// Image is the image of the TrustyAI service where a custom resource names none.
	Image string
	// ImageGeneration says what Image is, where its name does not tell.
	ImageGeneration v1.ImageGeneration
	// ProxyImage is the image of kube-rbac-proxy in front of a Secured service.
	ProxyImage string
	// UntrustedMetrics says that Prometheus believes no service, and sends it no token, in the ADR's shape either.
	UntrustedMetrics bool
	// OperatorNamespace is the namespace of the operator; nothing is ever made there.
	OperatorNamespace string
	// ClusterDomain is the DNS domain of the cluster; the default is cluster.local.
	ClusterDomain string
	// Version is the value of the app.kubernetes.io/version label in upstream's shape; the default is the version of
	// upstream that the shape was taken from.
	Version string
	// ProgressDeadline is how many seconds a rollout may go without progress before it counts as failed, and a migration
	// with it; zero leaves it to Kubernetes, which gives it ten minutes.
	ProgressDeadline int32
	// DryRun says that nothing is written, so that what is generated counts as stored.
	DryRun bool
}

// Facts are everything that rendering needs beyond the custom resource.
type Facts struct {
	// Now is when the facts were gathered; it is used for deadlines only.
	Now time.Time
	// Generation is what the image is; empty where that is not known.
	Generation v1.ImageGeneration
	// First is the name of the older custom resource in the ADR's shape that holds the ADR's names in the namespace.
	First string
	// Serves tells which optional APIs are served.
	Serves Serves
	// Volume is the PersistentVolume that spec.storage.pv names; nil when it names none, or nothing is known to be wrong
	// with it.
	Volume *Volume
	// VolumeAt is when the PersistentVolume is to be looked at again; zero for no deadline.
	VolumeAt time.Time
	// Closed says that the NetworkPolicy of a Secured service exists, or is about to where nothing is written.
	Closed bool
	// Claim is the claim of the service, or the one that its spec names; nil while there is none.
	Claim *Claim
	// Sharer is the name of an older custom resource whose pods use the claim of this one; empty for none.
	Sharer string
	// Deployment is the Deployment as observed before this reconcile's writes; nil while there is none.
	Deployment *Deployment
	// Database tells of the Secret with the credentials; zero when the service needs no database.
	Database Database
	// TrustedCA says that the ConfigMap odh-trusted-ca-bundle is there and filled by OpenShift.
	TrustedCA bool
	// UpstreamBinding says that the ClusterRoleBinding of the original operator is there and refers to the custom resource.
	UpstreamBinding bool
	// Certs are the certificates of a Secured service; zero when it is Plain.
	Certs Certs
	// GatewayCA is the authority, in PEM, that a Gateway verifies the proxy with; empty where the spec names none, or it is not known.
	GatewayCA string
	// LoggerCA tells of the ConfigMap that KServe's loggers verify the service with; zero when none sends to it over TLS.
	LoggerCA LoggerCA
	// Running is the format of the pods that run, or of the first ones.
	Running v1.StorageFormat
	// Migration is the migration as stored in the status, which decides what is rendered now; Next is what will be
	// stored by this reconcile.
	Migration, Next *v1.MigrationStatus
	// Inference is what is known of ModelMesh and the InferenceServices of the namespace.
	Inference Inference
}

// Serves tells which optional APIs the cluster serves.
type Serves struct {
	// ServiceCA is OpenShift's service-ca, CertManager is cert-manager, Constraints are OpenShift's security context
	// constraints.
	ServiceCA, CertManager, Route, ServiceMonitor, HTTPRoute, Constraints bool
}

// Volume is what is known of a PersistentVolume.
type Volume struct {
	Name string
	// Missing says that it does not exist.
	Missing bool
	// Class and Capacity are its storage class and its size.
	Class, Capacity string
	// ClaimNamespace, ClaimName and ClaimUID tell which claim it is bound to, or reserved for.
	ClaimNamespace, ClaimName, ClaimUID string
}

// Claim is what is known of the claim of the service.
type Claim struct {
	UID string
	// Size is the size that was asked for last.
	Size string
	// Ours says that it belongs to the custom resource: MLKeeper wrote it, or the original operator did.
	Ours bool
	// Phase is its phase; it is known of one that the spec names, since the others are children.
	Phase string
}

// Deployment is what is known of the Deployment of the service.
type Deployment struct {
	workload.Rollout
	// Template says which template it runs; empty for a Deployment that MLKeeper has not written yet.
	Template Template
	// Format is the format that a Deployment of the original operator runs with.
	Format v1.StorageFormat
	// AdoptedPods is what the pods of the original operator were adopted with; nil for pods of MLKeeper's own template.
	AdoptedPods *AdoptedPods
	// Selector is the selector that cannot be changed any more (invariant 8); nil for one that MLKeeper made.
	Selector map[string]string
	// Serves is what its pods were made to serve; nil where nothing tells, as before it was recorded.
	Serves *Served
}

// Served is what pods serve, as far as what leads to them follows from it.
type Served struct {
	Exposure   v1.Exposure        `json:"exposure"`
	Generation v1.ImageGeneration `json:"generation,omitempty"`
	// Secret is the name of the Secret with the certificate of the proxy; empty for a Plain service.
	Secret string `json:"secret,omitempty"`
	// Trusted says that the image is the administrator's, so that Prometheus may believe it.
	Trusted bool `json:"trusted,omitempty"`
}

// decodeServed is what an annotation records; nil where it records nothing that MLKeeper writes.
func decodeServed(text string) *Served {
	out := decoded[Served](text)
	if out == nil || len(out.Secret) > validation.DNS1123SubdomainMaxLength || layouts[out.Generation] == (layout{}) || (out.Secret != "") != (out.Exposure == v1.ExposureSecured) ||
		out.Exposure != v1.ExposureSecured && out.Exposure != v1.ExposurePlain {
		return nil
	}
	return out
}

// declaredServed is what the pods of the spec serve.
func declaredServed(cr *v1.TrustyAIService, generation v1.ImageGeneration) Served {
	return Served{Exposure: ExposureOf(cr), Generation: generation, Secret: declaredSecret(cr)}
}

// declaredSecret is the Secret with the certificate of the pods of the spec; empty for a Plain service.
func declaredSecret(cr *v1.TrustyAIService) string {
	if ExposureOf(cr) == v1.ExposureSecured {
		return namesOf(cr).tlsSecret
	}
	return ""
}

// served is what the pods serve to which everything leads: those that run, as long as nothing replaces them, else those of the spec. Where the
// Deployment has no record, the status tells.
func (f Facts) served(cr *v1.TrustyAIService) Served {
	generation := cmp.Or(cr.Status.ImageGeneration, f.Generation)
	switch d := f.Deployment; {
	case d == nil:
	case d.Serves != nil:
		return *d.Serves
	case cr.Status.Exposure == v1.ExposureSecured:
		return Served{Exposure: v1.ExposureSecured, Generation: generation, Secret: cmp.Or(cr.Status.TLSSecretName, namesOf(cr).tlsSecret)}
	case cr.Status.Exposure == v1.ExposurePlain:
		return Served{Exposure: v1.ExposurePlain, Generation: generation}
	}
	return declaredServed(cr, f.Generation)
}

// AdoptedPods is what the pods of the original operator follow from. As long as it stays as it was when they were
// adopted, they keep running (invariant 8).
type AdoptedPods struct {
	// Generation is that of the custom resource.
	Generation int64 `json:"generation"`
	// Image and Proxy are the images that MLKeeper would run.
	Image string `json:"image"`
	Proxy string `json:"proxy,omitempty"`
	// Database and Certs are the digests of what the pods read once at their start; empty while there was nothing.
	Database string `json:"database,omitempty"`
	Certs    string `json:"certs,omitempty"`
	// Runs is what their image is, which is the original operator's and not MLKeeper's; empty where its name does not tell.
	Runs v1.ImageGeneration `json:"runs,omitempty"`
}

// holds says that nothing changed since, and returns what is to be compared with next: what was absent at first counts
// from when it came.
func (t *AdoptedPods) holds(now AdoptedPods) (AdoptedPods, bool) {
	if t == nil {
		return AdoptedPods{}, false
	}
	then := *t
	now.Runs = then.Runs
	if then == (AdoptedPods{Runs: then.Runs}) {
		return now, true
	}
	then.Database, now.Database = sameDigest(then.Database, now.Database)
	then.Certs, now.Certs = sameDigest(then.Certs, now.Certs)
	return then, then == now
}

// sameDigest makes two digests equal where one is not known: what was not recorded, and what only the operator can compute.
func sameDigest(then, now string) (string, string) {
	switch {
	case then == "":
		return now, now
	case now == digest.Redacted:
		return then, then
	}
	return then, now
}

// Database is what is known of the Secret with the credentials of the database, without any value of it.
type Database struct {
	// Secret is the name of the Secret; empty when no database is needed.
	Secret string
	// Found says that the Secret exists.
	Found bool
	// Missing are the mandatory keys that are missing or empty, sorted.
	Missing []string
	// Generation says that the Secret has the key databaseGeneration.
	Generation bool
	// CA says that the Secret <name>-db-ca exists, and Unsigned that it lacks the certificate that the connection is verified with.
	CA, Unsigned bool
	// Digest is a keyed digest of the values that the pods read, so that a rotation rolls them (invariant 16).
	Digest string
	// Failure is what the API says against the database, as a reason of DBAvailable, while no pod is ready; empty where it says nothing.
	Failure string
	// Asked says that the API was asked for that and has not answered yet.
	Asked bool
}

// usable says that pods can be started with the credentials.
func (d Database) usable() bool { return d.Found && len(d.Missing) == 0 && !d.Unsigned }

// CertSource is where the certificates of a Secured service come from.
type CertSource string

// The sources, in the order in which they are tried when none is chosen yet.
const (
	CertsUser        CertSource = "Secret"
	CertsServiceCA   CertSource = "ServiceCA"
	CertsCertManager CertSource = "CertManager"
	CertsOwn         CertSource = "OwnCA"
)

// Certs are the certificates of a Secured service.
type Certs struct {
	Source CertSource
	// CA is the certificate, in PEM, that a reencrypt Route verifies the proxy with; empty where the platform knows it. It is
	// read from a Secret.
	CA string
	// Digest is a keyed digest of what the pods mount, so that a renewal rolls them; empty while there is nothing. It is of
	// what was read from the Secrets, never of what was generated: what is not stored yet may become another.
	Digest string
	// Own are the Secrets of the operator's own CA, as they are to be.
	Own []OwnSecret
	// AwaitsCA and AwaitsLeaf say which Secret has to be stored before the CA, or the digest, is known; empty when it is.
	AwaitsCA, AwaitsLeaf string
	// RenewAt is when the operator's own certificates are renewed.
	RenewAt time.Time
	// StandsAt is when a certificate that was made again is used; zero if all are used.
	StandsAt time.Time
	// WrittenAt is when the last of the certificates was written that others make.
	WrittenAt time.Time
	// ExpiresAt is when the first of the certificates expires that others renew; zero where that cannot be read.
	ExpiresAt time.Time
	// Foreign are the Secrets of others under the names of those that cert-manager or service-ca would make.
	Foreign []string
	// Missing and MissingKeys tell that the user's Secret is absent or lacks keys.
	Missing     bool
	MissingKeys []string
}

// withoutAuthority says that there is a certificate, and that what it is verified with is known neither to MLKeeper nor to the platform.
func (c Certs) withoutAuthority() bool {
	return c.Source != CertsServiceCA && c.Digest != "" && c.CA == "" && c.AwaitsCA == ""
}

// OwnSecret is a kubernetes.io/tls Secret of the operator's own CA.
type OwnSecret struct {
	Name          string
	Cert, Key, CA []byte
	// First says that the Secret is not there yet: one that was made meanwhile is left as it is. Made says that it holds another certificate.
	First, Made bool
}

// Inference is what is known of ModelMesh and of the InferenceServices of the namespace.
type Inference struct {
	// Services are the custom resources of the namespace, this one included.
	Services []client.Object
	// Targets are the objects that are wired, or could be, by wire.
	Targets map[string][]*unstructured.Unstructured
}
