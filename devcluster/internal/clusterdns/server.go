package clusterdns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mlkeeper.dev/devcluster/internal/health"
)

// idle is how long a TCP connection may be silent.
const idle = 10 * time.Second

// Main is the entry point of the name server; it returns when ctx ends.
func Main(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("cluster-dns", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	listen := flags.String("listen", "127.0.0.1:53", "address on which questions are answered, by UDP and TCP")
	healthAddress := flags.String("health", "127.0.0.1:0", "address of the health endpoint")
	domain := flags.String("domain", "cluster.local", "domain of the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	zone, err := watched(ctx, *kubeconfig, *domain)
	if err != nil {
		return err
	}
	packets, err := net.ListenPacket("udp", *listen)
	if err != nil {
		return err
	}
	streams, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	checks, err := net.Listen("tcp", *healthAddress)
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() { failed <- servePackets(packets, zone) }()
	go func() { failed <- serveStreams(streams, zone) }()
	go func() { failed <- health.Serve(checks) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// watched returns a zone that follows the cluster, once it knows all of it: a
// name that is merely not known yet must not be denied.
func watched(ctx context.Context, kubeconfig, domain string) (Zone, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return Zone{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Zone{}, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Lister()
	endpoints := factory.Discovery().V1().EndpointSlices().Lister()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return Zone{}, fmt.Errorf("listing %s: %w", kind, context.Cause(ctx))
		}
	}
	return Zone{
		Domain: domain,
		Service: func(namespace, name string) *corev1.Service {
			// The only error of a lister is that there is none.
			svc, _ := services.Services(namespace).Get(name)
			return svc
		},
		Slices: func(namespace, service string) []*discoveryv1.EndpointSlice {
			slices, _ := endpoints.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{
				discoveryv1.LabelServiceName: service,
			}))
			return slices
		},
	}, nil
}

// servePackets answers datagrams. What is no query is dropped in silence, so
// that two servers can never talk each other to death.
func servePackets(conn net.PacketConn, zone Zone) error {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		response, err := Respond(zone, buffer[:n])
		if err == nil {
			response, err = Truncate(response)
		}
		if err == nil {
			// A client that is gone asks nobody again.
			_, _ = conn.WriteTo(response, from)
		}
	}
}

func serveStreams(listener net.Listener, zone Zone) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for serveOne(conn, zone) == nil {
				continue
			}
		}()
	}
}

// serveOne answers one query of a connection; each message has its length before
// it.
func serveOne(conn net.Conn, zone Zone) error {
	if err := conn.SetDeadline(time.Now().Add(idle)); err != nil {
		return err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	response, err := Respond(zone, query)
	if err != nil {
		return err
	}
	if len(response) > 1<<16-1 {
		return errors.New("the answer is longer than a message can be")
	}
	binary.BigEndian.PutUint16(size[:], uint16(len(response)))
	_, err = conn.Write(append(size[:], response...))
	return err
}
