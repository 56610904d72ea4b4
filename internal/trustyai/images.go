package trustyai

// The default images; an administrator sets others with --trustyai-image and --trustyai-proxy-image. The image of the
// service is the release that upstream pinned for Open Data Hub (trustyai-service-operator e3dab81, 2025-06-30), the last of
// its generation and the only one that serves both exposures. The tag latest, which upstream's params.env has had since, moves:
// what is behind it came to serve metrics on other ports in August 2026.
//
// The proxy has no releases, and its tag odh-stable moves. The digest is the one that Open Data Hub's operator gives
// those that it installs (its manifests-config.yaml at 0c0c991, 2026-08-21). Registries ignore the tag beside it, which tells a reader what
// it is.
const (
	DefaultImage      = "quay.io/opendatahub/trustyai-service:v0.28.0"
	DefaultProxyImage = "quay.io/opendatahub/odh-kube-rbac-proxy:odh-stable@sha256:c19ed97828e4e5e736334b3ea340ba92a5d0c95f7b21080c6fd7ccf6d36836af"
)
