package seldon

import (
	"context"
	"errors"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// gatherURL finds where Seldon Deploy is reached: through Istio's ingress gateway with routing, else at the LoadBalancer of its
// Service, else at the Service.
//
// The gateway may be in another namespace: its address is told to whoever may read the custom resource, so it is read with the rights of a
// user. Where the user may not read it, the address inside the cluster is all that he may know. A right that the operator lacks is a
// warning: it concerns nothing but the address.
func (s *system) gatherURL(
	ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, given values, user string,
) (url, warning string, err error) {
	inside := "http://" + deployService + "." + cr.Namespace + ".svc." + s.settings.ClusterDomain + uiPath
	namespace, name := cr.Namespace, deployService
	if cr.Spec.Enable.Routing {
		namespace = textIn(given, "ingressGateway.ingressNamespace", ingressNamespace)
		name = textIn(given, "ingressGateway.seldonIngressService", ingressService)
	} else if kind, _ := lookupValue(given, "service.type"); kind != "LoadBalancer" {
		return inside, "", nil
	}
	service, err := gatewayService(ctx, read, user, cr.Namespace, namespace, name)
	var problem plan.Problem
	switch {
	case errors.As(err, new(controller.UserRefused)):
		return inside, "", nil
	case errors.As(err, &problem) && problem.Class == plan.Blocked:
		return inside, "status.url is the address inside the cluster: " + problem.Error(), nil
	case err != nil:
		return "", "", err
	}
	if address := balancer(service); address != "" {
		return "http://" + address + uiPath, "", nil
	}
	return inside, "", nil
}

// gatewayService reads the Service of a gateway. Reading one opens a watch on its namespace, so there has to be one: users name as many as
// they like.
func gatewayService(
	ctx context.Context, read controller.Reader, user, own, namespace, name string,
) (*unstructured.Unstructured, error) {
	if namespace != own {
		if there, err := read.Referenced(ctx, gvkNamespace, "", namespace); there == nil || err != nil {
			return nil, err
		}
	}
	return read.ReferencedAs(ctx, user, gvkService, namespace, name)
}

// balancer is the address that a LoadBalancer was given.
func balancer(service *unstructured.Unstructured) string {
	if service == nil {
		return ""
	}
	points, _, _ := unstructured.NestedSlice(service.Object, "status", "loadBalancer", "ingress")
	for _, point := range points {
		p, _ := point.(map[string]any)
		if host, _ := p["hostname"].(string); host != "" {
			return host
		}
		if ip, _ := p["ip"].(string); ip != "" {
			if parsed := net.ParseIP(ip); parsed != nil && strings.Contains(ip, ":") {
				return "[" + ip + "]"
			}
			return ip
		}
	}
	return ""
}
