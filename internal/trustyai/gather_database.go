package trustyai

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
)

// maxSlices is how many EndpointSlices of a Service are read. Kubernetes keeps up to 100 endpoints in each.
const maxSlices = 20

// databaseAnswer is what the API says against the database: a reason of DBAvailable, empty for nothing. It never holds a value of the Secret.
type databaseAnswer string

// Retry implements controller.Retryable: whatever the answer is, it is asked for again, with growing pauses, while no pod is ready.
func (databaseAnswer) Retry() time.Duration { return controller.RetryPassing }

// askForDatabase asks the API, in the background, whether pods can reach the database, while none of them is ready. A pod that is ready knows
// better, and one that was scaled away needs no database. Nothing is connected to: the address is a tenant's, and from the manager it may be
// another one, or forbidden to the tenant. Other credentials are another question, which is asked at once.
func (s *system) askForDatabase(
	read controller.Reader, cr *v1.TrustyAIService, d *Deployment, data map[string][]byte, digest string,
) (failure string, asked bool) {
	if d == nil || d.Desired == 0 || d.Ready > 0 {
		return "", false
	}
	name := ownService(string(data["databaseService"]), cr.Namespace, s.settings.ClusterDomain)
	if name == "" {
		return "", false
	}
	question := databaseQuestion(cr.Namespace, name, string(data["databasePort"]))
	answer, answered := read.Background("Service of the database as of "+digest, controller.RetryPassing, question).(databaseAnswer)
	return string(answer), !answered
}

// ownService is the name of the Service of the namespace that pods of it reach as a host; empty for any other host. Services of other
// namespaces are none of the tenant's business. The forms are those of the cluster's DNS (kubernetes/dns, docs/specification.md). localhost
// is the pod, which may have a proxy of the database beside the service.
func ownService(host, namespace, clusterDomain string) string {
	name, rest, dotted := strings.Cut(strings.ToLower(host), ".")
	full := namespace + ".svc." + clusterDomain
	ours := !dotted || slices.Contains([]string{namespace, namespace + ".svc", full, full + "."}, rest)
	if !ours || name == "localhost" || len(validation.IsDNS1035Label(name)) > 0 {
		return ""
	}
	return name
}

// databaseQuestion reads the Service, and its EndpointSlices where the Service alone says nothing against the database. What cannot be read,
// such as without the right to, is not judged.
func databaseQuestion(namespace, name, port string) controller.Job {
	return func(ctx context.Context, live controller.Live) any {
		var service *corev1.Service
		u, err := live.Get(ctx, "", gvkService, namespace, name)
		if err != nil {
			return databaseAnswer("")
		}
		if u != nil {
			service = &corev1.Service{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, service) != nil {
				return databaseAnswer("")
			}
		}
		return judgeDatabase(service, port, func() ([]unstructured.Unstructured, error) {
			selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}).String()
			return live.List(ctx, gvkEndpointSlice, namespace, selector, maxSlices)
		})
	}
}

// judgeDatabase says what a Service, nil for none, and its endpoints say against a database at a port of it. Where an ExternalName leads to is
// not known. A headless Service has the ports of its pods, whatever ports it declares.
func judgeDatabase(service *corev1.Service, port string, endpoints func() ([]unstructured.Unstructured, error)) databaseAnswer {
	switch {
	case service == nil:
		return reasonDBServiceNotFound
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return ""
	case service.Spec.ClusterIP != corev1.ClusterIPNone && !hasPort(service, port):
		return reasonDBPortNotFound
	}
	found, err := endpoints()
	if err != nil || len(found) >= maxSlices || slices.ContainsFunc(found, hasReadyEndpoint) {
		return ""
	}
	return reasonDBServiceNotReady
}

// hasPort says that a Service has a port for TCP, or that the text is no number of one.
func hasPort(service *corev1.Service, port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return err != nil || slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return uint64(p.Port) == number && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "")
	})
}

// hasReadyEndpoint says that an EndpointSlice has a ready endpoint. Where it does not say, an endpoint counts as ready (k8s.io/api,
// discovery/v1, EndpointConditions), and an EndpointSlice that cannot be read as one that has some.
func hasReadyEndpoint(u unstructured.Unstructured) bool {
	var slice discoveryv1.EndpointSlice
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &slice) != nil {
		return true
	}
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Conditions.Ready == nil || *e.Conditions.Ready
	})
}
