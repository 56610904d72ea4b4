package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/devcluster/internal/selfsigned"
)

// byAddress is the index of Services by their ClusterIPs.
const byAddress = "address"

// pods finds the pods behind Services.
type pods struct {
	client   kubernetes.Interface
	services corelisters.ServiceLister
	indexer  cache.Indexer
	slices   discoverylisters.EndpointSliceLister
	factory  informers.SharedInformerFactory

	// mu guards made, the certificates of servers that make their own, by the names of their Services.
	mu   sync.Mutex
	made map[string]*serving
}

// serving is the certificate of a server, and what verifies it.
type serving struct {
	certificate *tls.Certificate
	authority   []byte
	// own says that the server has made it itself.
	own bool
}

func newPods(client kubernetes.Interface) (*pods, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services()
	err := services.Informer().AddIndexers(cache.Indexers{byAddress: func(obj any) ([]string, error) {
		if s, ok := obj.(*corev1.Service); ok {
			return s.Spec.ClusterIPs, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, err
	}
	return &pods{
		client: client, factory: factory, services: services.Lister(), indexer: services.Informer().GetIndexer(),
		slices: factory.Discovery().V1().EndpointSlices().Lister(), made: map[string]*serving{},
	}, nil
}

// at is the Service at an address and port.
func (p *pods) at(address string) (*corev1.Service, int32, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, 0, fmt.Errorf("port %q: %w", text, err)
	}
	found, err := p.indexer.ByIndex(byAddress, host)
	if err != nil {
		return nil, 0, err
	}
	for _, obj := range found {
		if s, ok := obj.(*corev1.Service); ok {
			return s, int32(port), nil
		}
	}
	return nil, 0, fmt.Errorf("no Service has the address %s", host)
}

// servingAt is what answers at the address of a Service.
func (p *pods) servingAt(ctx context.Context, address string) (*serving, error) {
	s, port, err := p.at(address)
	if err != nil {
		return nil, err
	}
	return p.serving(ctx, s, port)
}

// errNotReady says that no pod answers for a Service.
var errNotReady = errors.New("connection refused: the Service has no ready endpoint")

// serving is what answers for a port of a Service.
func (p *pods) serving(ctx context.Context, s *corev1.Service, port int32) (*serving, error) {
	name, err := p.ready(s, port)
	if err != nil {
		return nil, err
	}
	pod, err := p.client.CoreV1().Pods(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	mounted, err := p.mounted(ctx, pod, dnsName(s.Namespace, s.Name))
	if mounted != nil || err != nil {
		return mounted, err
	}
	return p.own(s.Namespace, s.Name)
}

// dnsName is the name by which the API server calls a Service.
func dnsName(namespace, name string) string { return name + "." + namespace + ".svc" }

// ready is the name of a pod that is ready and has the port.
func (p *pods) ready(s *corev1.Service, port int32) (string, error) {
	i := slices.IndexFunc(s.Spec.Ports, func(one corev1.ServicePort) bool { return one.Port == port })
	if i < 0 {
		return "", fmt.Errorf("the Service %s/%s has no port %d", s.Namespace, s.Name, port)
	}
	list, err := p.slices.EndpointSlices(s.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name}))
	if err != nil {
		return "", err
	}
	for _, slice := range list {
		has := slices.ContainsFunc(slice.Ports, func(one discoveryv1.EndpointPort) bool {
			return one.Name != nil && *one.Name == s.Spec.Ports[i].Name && one.Port != nil
		})
		if !has {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			isReady := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			if isReady && endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod" {
				return endpoint.TargetRef.Name, nil
			}
		}
	}
	return "", fmt.Errorf("%s/%s: %w", s.Namespace, s.Name, errNotReady)
}

// mounted is the certificate for a name that a pod has in a volume; nil where it has none.
func (p *pods) mounted(ctx context.Context, pod *corev1.Pod, name string) (*serving, error) {
	for _, secret := range secretsOf(pod) {
		s, err := p.client.CoreV1().Secrets(pod.Namespace).Get(ctx, secret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if out := pairIn(s.Data, name); out != nil {
			return out, nil
		}
	}
	return nil, nil
}

// secretsOf are the Secrets that a pod has in volumes.
func secretsOf(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			out = append(out, v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				out = append(out, source.Secret.Name)
			}
		}
	}
	return out
}

// pairIn is the certificate for a name in the data of a Secret, under whatever keys; nil where there is none.
func pairIn(data map[string][]byte, name string) *serving {
	keys := slices.Sorted(maps.Keys(data))
	for _, certificate := range keys {
		if !bytes.Contains(data[certificate], []byte("BEGIN CERTIFICATE")) {
			continue
		}
		for _, key := range keys {
			pair, err := tls.X509KeyPair(data[certificate], data[key])
			if err != nil || pair.Leaf.VerifyHostname(name) != nil {
				continue
			}
			out := &serving{certificate: &pair, authority: data[certificate]}
			if ca := data["ca.crt"]; len(ca) > 0 {
				out.authority = ca
			}
			return out
		}
	}
	return nil
}

// own is the certificate that the server behind a Service has made itself.
func (p *pods) own(namespace, name string) (*serving, error) {
	dns := dnsName(namespace, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if out := p.made[dns]; out != nil {
		return out, nil
	}
	certificate, authority, err := selfsigned.Server([]string{dns})
	if err != nil {
		return nil, err
	}
	p.made[dns] = &serving{certificate: certificate, authority: authority, own: true}
	return p.made[dns], nil
}

// verifies says that a bundle verifies a certificate for a name, as the API server does.
func (s *serving) verifies(bundle []byte, name string) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return false
	}
	leaf, err := x509.ParseCertificate(s.certificate.Certificate[0])
	if err != nil {
		return false
	}
	others := x509.NewCertPool()
	for _, der := range s.certificate.Certificate[1:] {
		if one, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(one)
		}
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: others})
	return err == nil
}

// answers says why no pod answers for a Service, on any of its ports.
func (p *pods) answers(namespace, name string) error {
	s, err := p.services.Services(namespace).Get(name)
	if err != nil {
		return err
	}
	err = errNotReady
	for _, port := range s.Spec.Ports {
		if _, err = p.ready(s, port.Port); err == nil {
			return nil
		}
	}
	return err
}
