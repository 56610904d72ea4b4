// Package standin plays third-party controllers that a devcluster does not run.
//
// It is a stand-in, not an implementation: it looks at an object and writes the
// status that the real controller would write for a healthy one. A Route is
// admitted, a cert-manager Certificate becomes Ready. An InferenceService is
// more: a Deployment, or a Knative Service, is made of it as KServe does, and its
// status follows from theirs, since what KServe copies from them misleads those
// who take it for the service's own.
// KWOK's stages cannot do this simply, because they want every CRD to exist when
// KWOK starts; here a kind is picked up when its CRD is established, and dropped
// when the CRD goes.
//
// An object annotated with devcluster.mlkeeper.dev/stand-in: "off" is left
// alone, so that a test can drive its status by hand.
package standin
