package trustyai

import (
	"cmp"
	"context"
	"encoding/pem"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// KServe's agent verifies whom it sends payloads to with a file from a ConfigMap in the namespace of the InferenceService. The
// installation names both (inferenceservice-config, logger.caBundle and logger.caCertFile), one pair for the whole cluster. Without a
// caBundle nothing is mounted; the name is the one that OpenShift AI documents, and the file is what the agent reads unless it is told
// otherwise (KServe v0.17.0 pkg/webhook/admission/pod/agent_injector.go, cmd/agent/main.go).
const (
	loggerCA     = "kserve-logger-ca-bundle"
	loggerCAFile = "service-ca.crt"
	// injectCA asks service-ca to fill a ConfigMap, under just that key and with nothing else in it (openshift/service-ca-operator
	// pkg/controller/cabundleinjector/configmap.go).
	injectCA = "service.beta.openshift.io/inject-cabundle"
)

// LoggerCA is what is known of the ConfigMap that KServe's loggers verify the Secured services of a namespace with.
type LoggerCA struct {
	// Keeps says that this custom resource is the one that renders it.
	Keeps bool
	// Injected says that service-ca fills it, else Bundle is what it is to hold.
	Injected bool
	Bundle   string
	// Untrusted says that somebody else's is there, without the certificate authority of this service.
	Untrusted bool
}

// gatherLoggerCA finds out who keeps the ConfigMap, and what belongs in it.
func gatherLoggerCA(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, facts Facts) (LoggerCA, error) {
	users := loggedSecurely(facts.Inference)
	if !slices.Contains(users, cr) {
		return LoggerCA{}, nil
	}
	live, err := read.Referenced(ctx, gvkConfigMap, cr.Namespace, loggerCA)
	if err != nil {
		return LoggerCA{}, err
	}
	out := LoggerCA{Keeps: keepsLoggerCA(live, cr, users[0] == cr)}
	for _, user := range users {
		source, ca := facts.Certs.Source, facts.Certs.CA
		if user != cr {
			if !out.Keeps {
				continue
			}
			if source, ca, err = authorityOf(ctx, read, user, facts.Serves); err != nil {
				return LoggerCA{}, err
			}
		}
		out.Injected = out.Injected || source == CertsServiceCA
		for _, certificate := range certificatesIn(ca) {
			if !strings.Contains(out.Bundle, certificate) {
				out.Bundle += certificate
			}
		}
	}
	if foreign(live) {
		file, _, _ := unstructured.NestedString(live.Object, "data", loggerCAFile)
		theirs := certificatesIn(file)
		out.Untrusted = !out.Injected && slices.ContainsFunc(certificatesIn(out.Bundle), func(one string) bool { return !slices.Contains(theirs, one) })
	}
	return out, nil
}

// keepsLoggerCA says that a custom resource renders the ConfigMap. One is enough for the namespace: the one that made it, and the oldest
// that needs it makes it, also where somebody has spoilt the marks that say whose it is. Somebody else's is left as it is, and so is that of a service
// that has gone, until the garbage collector deletes it.
func keepsLoggerCA(live *unstructured.Unstructured, cr *v1.TrustyAIService, oldest bool) bool {
	if live == nil {
		return oldest
	}
	switch ofNamespace := strings.TrimSuffix(ownerID(cr), cr.Name); {
	case foreign(live):
		return false
	case stackOf(cr).Marked(live):
		return true
	case strings.HasPrefix(live.GetAnnotations()[keeper.OwnerAnnotation], ofNamespace):
		return false
	default:
		return oldest
	}
}

// foreign says that an object is there, and that MLKeeper did not make it.
func foreign(live *unstructured.Unstructured) bool {
	return live != nil && live.GetAnnotations()[keeper.OwnerAnnotation] == "" && live.GetLabels()[keeper.ControllerLabel] == ""
}

// certificatesIn are the certificates of a text in PEM, each alone.
func certificatesIn(text string) []string {
	var out []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		if block.Type == "CERTIFICATE" {
			out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
		}
	}
}

// authorityOf is where another service has its certificates from, and the authority that it is verified with.
func authorityOf(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, serves Serves) (CertSource, string, error) {
	secret, err := read.Referenced(ctx, gvkSecret, cr.Namespace, namesOf(cr).tlsSecret)
	if err != nil {
		return "", "", err
	}
	return certSource(cr, serves, secret), string(controller.SecretData(secret)[corev1.ServiceAccountRootCAKey]), nil
}

// loggedSecurely are the custom resources of the namespace, oldest first, that KServe's loggers would send payloads to over TLS.
func loggedSecurely(inference Inference) []*v1.TrustyAIService {
	secured := services(inference.Services, func(cr *v1.TrustyAIService) bool {
		return ExposureOf(cr) == v1.ExposureSecured
	})
	return slices.DeleteFunc(secured, func(cr *v1.TrustyAIService) bool {
		return !slices.ContainsFunc(inference.Targets[WireKServe], func(target *unstructured.Unstructured) bool {
			selected, err := selects(cr, target.GetLabels())
			return err == nil && selected && !optedOut(target) && kserveModeOf(target).hasLogger()
		})
	})
}

// loggerCA renders the ConfigMap.
func (r *scene) loggerCA() {
	ca := r.facts.LoggerCA
	if ca.Untrusted {
		r.warn("the ConfigMap %s is not MLKeeper's, and its %s lacks the certificate authority of this service, so KServe's loggers "+
			"cannot send to it: add it, or delete the ConfigMap", loggerCA, loggerCAFile)
	}
	awaits := r.lacks(cmp.Or(r.facts.Certs.AwaitsCA, r.facts.Certs.AwaitsLeaf))
	if !ca.Keeps || !ca.Injected && ca.Bundle == "" && awaits == "" {
		return
	}
	bundle := &corev1.ConfigMap{ObjectMeta: r.meta(loggerCA, r.labels())}
	if ca.Injected {
		bundle.Annotations = map[string]string{injectCA: "true"}
	} else {
		bundle.Data = map[string]string{loggerCAFile: ca.Bundle}
	}
	o := plan.Typed(gvkConfigMap, bundle)
	o.Hold = awaits
	r.add(o)
}
