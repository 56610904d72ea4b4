// Package egress is the network from the API server to the pods of simulated nodes. The API server sends what it has for a
// Service, a call of an admission or conversion webhook or of an aggregated API, through its egress selector, for which this
// package is the proxy. No container runs, so the proxy answers in the place of a pod, and only where that could answer:
//
//   - An address is that of a Service with this port, and the Service has a ready endpoint that is a pod. Else the
//     connection is refused, as kube-proxy rejects it. What has been connected is asked again at each request.
//   - The certificate is the one in a Secret that the pod mounts, if that is for the name of the Service. Else the server
//     is one that makes its own, as the webhooks of Knative and Istio do, and the certificate is of an authority of this process.
//   - A caBundle is filled in once the server is ready: where it is empty, as cert-manager's cainjector or the server
//     does, with the authority of its certificate; where the server makes its own, also over what was declared.
//   - A caBundle that does not verify the certificate makes the API server refuse, since it is the API server that looks.
//
// A webhook allows everything. One of a MutatingWebhookConfiguration adds an annotation to every object that is created or
// updated, so that whoever writes the object sees a field that it never declared. A conversion changes the apiVersion and
// nothing else. An aggregated API is there, and has no resources.
//
// Not simulated: what the webhook of a third party would refuse or default; headless Services; endpoints that are no
// pods.
package egress
