// Package standin plays third-party controllers that a devcluster does not run.
//
// It is a stand-in, not an implementation: it looks at an object and writes the
// status that the real controller would write for a healthy one. A Route is admitted,
// unless an older one has its host.
// On OpenShift, Namespaces get their range of users and groups, and Services that
// ask for it a certificate of service-ca. cert-manager's issuers of the types
// selfSigned and ca issue Certificates, with a key pair in the Secret; until their
// own Secret is there neither is Ready, and an issuer of another type never is.
// An InferenceService is
// more: webhooks give it defaults and refuse what KServe refuses, a serving
// runtime is looked for, a Deployment, or a Knative Service, is made of both, and
// its status follows from theirs and from what the pods tell, since what KServe
// copies from them misleads those who take it for the service's own. Its tests
// hold it against a recording of KServe's own controller (testdata/kserve.json,
// which make test-kserve makes).
// A ScaledObject of KEDA gets the HorizontalPodAutoscaler that KEDA makes, is refused
// where KEDA's webhook refuses it, and scales to zero and back; what its triggers would
// measure, an annotation says.
// A kind is picked up when its CRD is established, and dropped when the CRD goes.
// The webhooks are registered at the start, whatever kinds there are. The process is
// healthy once the API server calls them, so that nothing escapes them in a cluster
// that is reported ready.
//
// An object annotated with devcluster.mlkeeper.dev/stand-in: "off" is left
// alone, so that a test can drive its status by hand. It can be deleted all the same:
// the finalizer that was put on it goes.
package standin
