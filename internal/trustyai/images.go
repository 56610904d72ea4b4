package trustyai

// The default images; an administrator sets others with --trustyai-image and --trustyai-proxy-image. The image of the
// service is the release that upstream pinned for Open Data Hub (trustyai-service-operator e3dab81, 2025-06-30), the last of
// its generation and the only one that serves both exposures. The tag latest, which upstream's params.env has had since, moves:
// what is behind it came to serve metrics on other ports in August 2026.
const (
	DefaultImage      = "quay.io/opendatahub/trustyai-service:v0.28.0"
	DefaultProxyImage = "quay.io/opendatahub/odh-kube-rbac-proxy:odh-stable"
)
