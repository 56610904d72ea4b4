package tfserving

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"mlkeeper.dev/internal/address"
)

// The default images: a release of TensorFlow Serving, since "latest" would let replicas differ (defect 8).
const (
	DefaultImage    = "tensorflow/serving:2.20.0"
	DefaultGPUImage = "tensorflow/serving:2.20.0-gpu"
)

// DefaultModelsEvery is how often model servers are asked that have every model available.
const DefaultModelsEvery = 5 * time.Minute

// DefaultClusterDomain is the DNS domain of most clusters.
const DefaultClusterDomain = "cluster.local"

// Settings are what an administrator decides for all Tfservs.
type Settings struct {
	// Image and GPUImage are used where a Tfserv names none; empty means the defaults.
	Image, GPUImage string
	// ClusterDomain is the DNS domain of the cluster; empty means cluster.local.
	ClusterDomain string
	// ModelsEvery is how often model servers are asked that have every model available; zero means the default.
	ModelsEvery time.Duration
	// HTTP asks the model servers; nil means a client with short timeouts that follows no redirect, and reaches pods alone.
	HTTP *http.Client
}

// complete fills in the defaults.
func (s Settings) complete() Settings {
	if s.Image == "" {
		s.Image = DefaultImage
	}
	if s.GPUImage == "" {
		s.GPUImage = DefaultGPUImage
	}
	if s.ClusterDomain == "" {
		s.ClusterDomain = DefaultClusterDomain
	}
	if s.ModelsEvery <= 0 {
		s.ModelsEvery = DefaultModelsEvery
	}
	if s.HTTP == nil {
		s.HTTP = newClient(guarded())
	}
	return s
}

// dial connects to an address.
type dial func(ctx context.Context, network, to string) (net.Conn, error)

// newClient makes a client for servers that anybody may have put into a pod: no proxy, no redirect, no patience, and no
// connection that is kept.
func newClient(to dial) *http.Client {
	return &http.Client{
		Timeout:       2 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: to, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10},
	}
}

// errNoPod is the error of an address that no pod has.
var errNoPod = errors.New("it is the address of no pod")

// guarded connects to what may be a pod: whoever may write the status of one may name any address there, such as the manager's own or that
// of a cloud's metadata.
func guarded() dial {
	return (&net.Dialer{Timeout: time.Second, ControlContext: func(_ context.Context, _, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil || !mayBePods(at.Addr()) {
			return errNoPod
		}
		return nil
	}}).DialContext
}

// mayBePods says that pods may have an address.
func mayBePods(ip netip.Addr) bool {
	ip = address.Plain(ip)
	inner, wraps := address.Embedded(ip)
	return !address.Special(ip) && (!wraps || !address.Special(inner))
}
