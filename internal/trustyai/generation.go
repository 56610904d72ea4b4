package trustyai

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// layout is where the images of one generation listen, and what they serve there.
type layout struct {
	// probes answers /q/health without TLS.
	probes int32
	// http is reachable from other pods without TLS, tls with TLS; tls is zero for none.
	http, tls int32
	// upstream is the port of the whole API on the loopback, where the proxy of the same pod reaches it.
	upstream int32
	// open says that http serves the whole API: metrics, and the root that loggers of KServe post to. Otherwise it serves
	// the probes and the consumer endpoint of ModelMesh, and everything else there is 404.
	open bool
	// late says that nothing listens before the storage is open, which takes as long as copying a volume into a database does.
	late bool
}

// layouts is the table of everything that differs between the generations but their environment (render_env.go).
//
//   - Java: trustyai-explainability up to v0.15.0: Quarkus on 8080.
//   - JavaTLS: v0.16.0 (040c0cd7, 2024-06-19) to v0.28.0, its last: as before, and TLS on 4443 with the certificate under
//     /etc/tls/internal, which application.properties names and without which it does not start.
//   - Python: trustyai-service since aa3f71f of 2026-08-14, read at 4aa44d6: HEALTH_PORT (8080) has the probes and the
//     consumer endpoint, SSL_PORT (4443) has the whole API while there is a certificate under /etc/tls/internal, HTTP_PORT
//     (8081) has it on 127.0.0.1 then; without a certificate it is on 127.0.0.1:8000 and nowhere else. The storage is opened, and a
//     volume copied, while main.py is imported (shared_prometheus_scheduler.py, maria/maria.py).
var layouts = map[v1.ImageGeneration]layout{
	v1.GenerationJava:    {probes: 8080, http: 8080, upstream: 8080, open: true},
	v1.GenerationJavaTLS: {probes: 8080, http: 8080, tls: 4443, upstream: 8080, open: true},
	v1.GenerationPython:  {probes: 8080, http: 8080, tls: 4443, upstream: 8081, late: true},
}

// layoutOf is the layout of a generation. Of an image that is not known it is one that its Services may have as well, since
// they are the same for all generations so far.
func layoutOf(g v1.ImageGeneration) layout {
	if l, known := layouts[g]; known {
		return l
	}
	return layouts[v1.GenerationJavaTLS]
}

// serves says that images of the layout can be exposed so: a Plain service needs the whole API without TLS, a Secured one
// with it.
func (l layout) serves(exposure v1.Exposure) bool {
	if exposure == v1.ExposureSecured {
		return l.tls != 0
	}
	return l.open
}

// imageForm takes an image reference apart: the last segment of the repository, and the tag; a digest is left out.
var imageForm = regexp.MustCompile(`^(?:[^@]*/)?([^/:@]+)(?::([^@]+))?(?:@.*)?$`)

// javaTag is the tag of a release of trustyai-explainability.
var javaTag = regexp.MustCompile(`^v?0\.([0-9]+)\.[0-9]+$`)

// The releases of trustyai-explainability by their second number: the first with TLS, and the last.
const firstJavaTLS, lastJava = 16, 28

// imageGeneration tells the generation of an image by its name; "" where that does not tell. The name is upstream's in
// whatever registry: a mirror keeps it. The tags latest and upstream are those that the workflow build-and-push of
// trustyai-service pushes.
func imageGeneration(image string) v1.ImageGeneration {
	parts := imageForm.FindStringSubmatch(image)
	if parts == nil {
		return ""
	}
	name, tag := parts[1], parts[2]
	if strings.HasPrefix(name, "trustyai-service-python") {
		return v1.GenerationPython
	}
	if name != "trustyai-service" {
		return ""
	}
	if release := javaTag.FindStringSubmatch(tag); release != nil {
		switch minor, err := strconv.Atoi(release[1]); {
		case err != nil || minor > lastJava:
			return ""
		case minor < firstJavaTLS:
			return v1.GenerationJava
		default:
			return v1.GenerationJavaTLS
		}
	}
	if (tag == "latest" || tag == "upstream") && !strings.Contains(image, "@") {
		return v1.GenerationPython
	}
	return ""
}

// Check says what of the settings cannot be used.
func (s Settings) Check() error {
	if _, known := layouts[s.ImageGeneration]; s.ImageGeneration != "" && !known {
		return fmt.Errorf("%q is none of Java, JavaTLS and Python", s.ImageGeneration)
	}
	return nil
}

// image is the image of the service; empty for none.
func (s Settings) image(cr *v1.TrustyAIService) string {
	if cr.Spec.Image != "" {
		return cr.Spec.Image
	}
	return s.Image
}

// generation is the generation of the image of a service: what its spec says, else what the administrator says of the
// default image, else what the name of the image tells; "" for unknown.
func (s Settings) generation(cr *v1.TrustyAIService) v1.ImageGeneration {
	switch {
	case cr.Spec.ImageGeneration != "":
		return cr.Spec.ImageGeneration
	case cr.Spec.Image == "" && s.ImageGeneration != "":
		return s.ImageGeneration
	default:
		return imageGeneration(s.image(cr))
	}
}

// checkGeneration refuses an image that is not known to serve what the exposure needs: its Services, its ServiceMonitor and
// its entries elsewhere would lead nowhere. What runs is left as it is.
func (r *scene) checkGeneration() bool {
	image := r.settings.image(r.cr)
	if image == "" {
		r.problem(plan.Terminal, "ImageNotConfigured", "spec.image", "", "neither the TrustyAIService nor the operator names an image",
			"set spec.image, or start the operator with --trustyai-image")
		return false
	}
	exposure := ExposureOf(r.cr)
	serves := layoutOf(r.facts.Generation).serves(exposure)
	switch {
	case r.facts.Generation == "":
		r.problem(plan.Terminal, "ImageGenerationUnknown", "spec.image", image,
			"the name of the image does not tell which ports it serves on",
			"set spec.imageGeneration to Java (before v0.16.0), JavaTLS (v0.16.0 to v0.28.0) or Python, or for the image of the operator its flag --trustyai-image-generation")
	case !serves && exposure == v1.ExposureSecured:
		r.problem(plan.Terminal, "ExposureNotServed", "spec.exposure", string(exposure),
			fmt.Sprintf("the image %s is of the generation %s, which serves no TLS", image, r.facts.Generation),
			"set spec.exposure to Plain, or spec.image to v0.16.0 or later")
	case !serves:
		r.problem(plan.Terminal, "ExposureNotServed", "spec.exposure", string(exposure),
			fmt.Sprintf("the image %s is of the generation %s, which serves its API to other pods over TLS alone", image, r.facts.Generation),
			"set spec.exposure to Secured, or spec.image to a version up to v0.28.0")
	default:
		return true
	}
	return false
}
