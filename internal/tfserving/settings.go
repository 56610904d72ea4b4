package tfserving

import (
	"net"
	"net/http"
	"time"
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
	// HTTP asks the model servers; nil means a client with short timeouts that follows no redirect.
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
		s.HTTP = newClient()
	}
	return s
}

// newClient makes a client for servers that anybody may have put into a pod: no proxy, no redirect, no patience, and no
// connection that is kept.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       2 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:       (&net.Dialer{Timeout: time.Second}).DialContext,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		},
	}
}
