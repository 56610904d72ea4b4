package trustyai

import (
	"cmp"
	"context"
	"encoding/pem"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// Injected says that service-ca fills it, else Bundle is what it is to hold. Of a custom resource that does not render it, both are of the
	// certificate authority of its service alone.
	Injected bool
	Bundle   string
	// Unverified says that nobody has the authority of this service: its certificate came without one.
	Unverified bool
	// Incomplete says that Bundle lacks the authority of service-ca, which signs the certificate of a service, since that is not known.
	Incomplete bool
	// Untrusted says that it lacks the certificate authority of this service, and that this custom resource does not add it.
	Untrusted bool
	// Absent says that there is none, and Filled that service-ca fills the one that is there.
	Absent, Filled bool
	// Keeper is the custom resource that is to add it, and Left says that it was deleted; empty where the ConfigMap is not MLKeeper's.
	Keeper string
	Left   bool
	// Replaces says that pods are to get another certificate, and Mixed that those that run have theirs from service-ca.
	Replaces, Mixed bool
}

// gatherLoggerCA finds out who keeps the ConfigMap, and what belongs in it.
func (s *system) gatherLoggerCA(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, facts Facts) (LoggerCA, error) {
	users := loggedSecurely(facts.Inference)
	if !slices.Contains(users, cr) {
		return LoggerCA{}, nil
	}
	live, err := read.Referenced(ctx, gvkConfigMap, cr.Namespace, loggerCA)
	if err != nil {
		return LoggerCA{}, err
	}
	certs := facts.Certs
	out := LoggerCA{Keeps: keepsLoggerCA(live, cr, users, facts.Inference.Services), Injected: true, Unverified: certs.withoutAuthority() && !foreign(live)}
	ofServiceCA := false
	for _, user := range users {
		source, ca, before := certs.Source, certs.CA, facts.served(cr).Secret
		if user != cr {
			before = user.Status.TLSSecretName
			if !out.Keeps {
				continue
			}
			if source, ca, err = authorityOf(ctx, read, user, facts.Serves); err != nil {
				return LoggerCA{}, err
			}
		}
		if err = out.trustReplaced(ctx, read, user, before); err != nil {
			return LoggerCA{}, err
		}
		// It replaces all that a ConfigMap holds, so that it fills none that another authority has to be in.
		out.Injected = out.Injected && source == CertsServiceCA
		ofServiceCA = ofServiceCA || source == CertsServiceCA
		out.trust(ca)
	}
	if ofServiceCA && (!out.Keeps || !out.Injected) {
		ca, err := authorityOfServiceCA(ctx, read, cr.Namespace)
		if err != nil {
			return LoggerCA{}, err
		}
		out.trust(ca)
		out.Incomplete = len(certificatesIn(ca)) == 0
	}
	if !out.Keeps && (live != nil || !s.settings.DryRun) {
		out.untrusted(live, cr, users, facts.Inference.Services)
	}
	return out, nil
}

// trustReplaced adds the authority of pods that are to get their certificate from another Secret. One of service-ca goes with no other in a ConfigMap.
func (ca *LoggerCA) trustReplaced(ctx context.Context, read controller.Reader, user *v1.TrustyAIService, before string) error {
	if before == "" || before == declaredSecret(user) {
		return nil
	}
	secret, err := read.Referenced(ctx, gvkSecret, user.Namespace, before)
	ca.trust(string(controller.SecretData(secret)[corev1.ServiceAccountRootCAKey]))
	ca.Replaces = ca.Replaces || secret != nil
	ca.Mixed = ca.Mixed || secret != nil && ofServiceCA(secret)
	return err
}

// trust adds the certificates of an authority.
func (ca *LoggerCA) trust(authority string) {
	for _, certificate := range certificatesIn(authority) {
		if !strings.Contains(ca.Bundle, certificate) {
			ca.Bundle += certificate
		}
	}
}

// untrusted looks for the certificate authority of a custom resource in a ConfigMap that it does not keep, and for who is to add it.
func (ca *LoggerCA) untrusted(live *unstructured.Unstructured, cr *v1.TrustyAIService, users []*v1.TrustyAIService, alive []client.Object) {
	ca.Absent = live == nil
	var theirs []string
	if live != nil {
		file, _, _ := unstructured.NestedString(live.Object, "data", loggerCAFile)
		theirs, ca.Filled = certificatesIn(file), live.GetAnnotations()[injectCA] == "true"
	}
	switch {
	case ca.Injected && ca.Filled:
	case ca.Incomplete:
		// Users may have copied the authority of service-ca into one of their own.
		ca.Untrusted = !foreign(live)
	default:
		ca.Untrusted = slices.ContainsFunc(certificatesIn(ca.Bundle), func(one string) bool { return !slices.Contains(theirs, one) })
	}
	made, is := madeFor(live, cr)
	switch {
	case live == nil:
		ca.Keeper = maker(users).Name
	case is:
		ca.Keeper, ca.Left = made, !exists(alive, made)
	case !foreign(live):
		ca.Keeper = users[0].Name
	}
}

// keepsLoggerCA says that a custom resource renders the ConfigMap. One is enough for the namespace: the one that made it, and the oldest
// that needs it makes it, also where somebody has spoilt the marks that say whose it is. Somebody else's is left as it is, and so is that of a service
// that has gone, until the garbage collector deletes it. One that nothing deletes is adopted with the annotation that the engine asks for then too
// (internal/engine/owner_references.go, abandoned).
func keepsLoggerCA(live *unstructured.Unstructured, cr *v1.TrustyAIService, users []*v1.TrustyAIService, alive []client.Object) bool {
	if live == nil {
		return maker(users) == cr
	}
	made, is := madeFor(live, cr)
	switch {
	case foreign(live):
		return false
	case stackOf(cr).Marked(live):
		return true
	case is && (exists(alive, made) || metav1.GetControllerOf(live) != nil):
		return false
	case is:
		i := slices.IndexFunc(users, func(user *v1.TrustyAIService) bool {
			return user.Annotations[keeper.AdoptAnnotation] == "true" && !suspended(user)
		})
		return i >= 0 && users[i] == cr
	default:
		return users[0] == cr
	}
}

// madeFor is the custom resource of the namespace that the annotation of an object says it was made for.
func madeFor(live *unstructured.Unstructured, cr *v1.TrustyAIService) (name string, is bool) {
	if live == nil {
		return "", false
	}
	return strings.CutPrefix(live.GetAnnotations()[keeper.OwnerAnnotation], strings.TrimSuffix(ownerID(cr), cr.Name))
}

// exists says that one of some custom resources has a name.
func exists(alive []client.Object, name string) bool {
	return slices.ContainsFunc(alive, func(o client.Object) bool { return o.GetName() == name })
}

// maker is the custom resource that makes the ConfigMap where there is none: the oldest, but one that is suspended writes nothing.
func maker(users []*v1.TrustyAIService) *v1.TrustyAIService {
	i := slices.IndexFunc(users, func(user *v1.TrustyAIService) bool { return !suspended(user) })
	return users[max(i, 0)]
}

// suspended says that nothing of a custom resource is written.
func suspended(cr *v1.TrustyAIService) bool {
	return cr.Annotations[keeper.SuspendAnnotation] == "true"
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
	secured := services(inference.Services, isOrWasSecured)
	return slices.DeleteFunc(secured, func(cr *v1.TrustyAIService) bool {
		return !slices.ContainsFunc(inference.Targets[WireKServe], func(target *unstructured.Unstructured) bool {
			selected, err := selects(cr, target.GetLabels())
			return err == nil && selected && !optedOut(target) && kserveModeOf(target).hasLogger()
		})
	})
}

// untrustedByLoggers warns of a ConfigMap that KServe's loggers cannot verify the service with.
func (r *scene) untrustedByLoggers() {
	ca := r.facts.LoggerCA
	var whose, remedy string
	switch {
	case !ca.Untrusted:
		return
	case ca.Absent:
		r.warn("the ConfigMap %s does not exist: the TrustyAIService %s is to make it, without which KServe's loggers cannot send to this service; "+
			"see the status of %s", loggerCA, ca.Keeper, ca.Keeper)
		return
	case ca.Filled && ca.Keeper != "" && !ca.Left:
		whose, remedy = "is filled by OpenShift's service-ca", "the TrustyAIService "+ca.Keeper+" is to write all authorities into it instead; see its status"
	case ca.Filled:
		whose, remedy = "is filled by OpenShift's service-ca", "use the certificates of service-ca for this service too"
	case ca.Keeper == "":
		whose, remedy = "is not MLKeeper's", "add it, or delete the ConfigMap"
	case ca.Left:
		whose, remedy = "is of the TrustyAIService "+ca.Keeper+", which was deleted", "delete the ConfigMap, which MLKeeper then makes anew"
	default:
		whose, remedy = "is kept by the TrustyAIService "+ca.Keeper,
			"see the status of "+ca.Keeper+", and resume it if it is suspended, or delete the ConfigMap, which MLKeeper then makes anew"
	}
	r.warn("the ConfigMap %s %s, and its %s lacks the certificate authority of this service, so KServe's loggers cannot send to it: %s",
		loggerCA, whose, loggerCAFile, remedy)
}

// loggerCA renders the ConfigMap.
func (r *scene) loggerCA() {
	r.untrustedByLoggers()
	ca := r.facts.LoggerCA
	if ca.Unverified {
		r.warn("the Secret %s has no ca.crt with a certificate, so that the ConfigMap %s lacks the authority of this service and KServe's loggers cannot send "+
			"to it: add the certificate of the issuer as ca.crt", r.names.tlsSecret, loggerCA)
	}
	if ca.Keeps && ca.Incomplete {
		r.warn("the ConfigMap %s has no certificate in %s, so that %s lacks the authority of OpenShift's service-ca and KServe's loggers cannot send to the "+
			"services that have their certificates from it: restore it", serviceCABundle, serviceCAKey, loggerCA)
	}
	awaits := r.lacks(cmp.Or(r.facts.Certs.AwaitsCA, r.facts.Certs.AwaitsLeaf))
	if ca.Mixed || ca.Replaces && ca.Injected {
		awaits = "the pods with another certificate authority to be replaced"
	}
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
