package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"mlkeeper.dev/devcluster/internal/component"
)

// Ports come from below the range from which Linux takes the source ports of
// outgoing connections: a component that is stopped for a while could otherwise
// find its port in use when it is started again.
const (
	firstPort = 20000
	lastPort  = 32000
)

// portPool picks free ports and keeps them reserved against other clusters.
type portPool struct{ held []net.Listener }

// reserve claims a port among devclusters with an abstract socket, which the
// kernel drops with the process: there is nothing to clean up. It then checks
// that nobody else listens on the port.
func (p *portPool) reserve(port int) error {
	claim, err := net.Listen("unix", "@devcluster-port-"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("port %d belongs to another devcluster; choose another one, or none to have a free one chosen", port)
	}
	probe, err := net.Listen("tcp", net.JoinHostPort(component.Loopback, strconv.Itoa(port)))
	if err != nil {
		_ = claim.Close()
		return fmt.Errorf("port %d is in use; choose another one, or none to have a free one chosen: %w", port, err)
	}
	_ = probe.Close()
	p.held = append(p.held, claim)
	return nil
}

// pick reserves any free port.
func (p *portPool) pick() (int, error) {
	start := rand.IntN(lastPort - firstPort)
	for i := range lastPort - firstPort {
		port := firstPort + (start+i)%(lastPort-firstPort)
		if p.reserve(port) == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d; stop a cluster with `devcluster down`", firstPort, lastPort)
}

// assign fills in every port: the wanted one for the API server if there is
// one, then those of the cluster's last run while they are free, else new ones.
func (p *portPool) assign(wanted int, last component.Ports, realNode bool) (component.Ports, error) {
	ports := last
	if wanted != 0 {
		if err := p.reserve(wanted); err != nil {
			return ports, err
		}
		ports.APIServer = wanted
	}
	for _, port := range ports.Needed(realNode) {
		if *port == wanted && wanted != 0 {
			continue
		}
		if *port != 0 && p.reserve(*port) == nil {
			continue
		}
		var err error
		if *port, err = p.pick(); err != nil {
			return ports, err
		}
	}
	return ports, nil
}

// release gives the reservations up.
func (p *portPool) release() {
	for _, l := range p.held {
		_ = l.Close()
	}
	p.held = nil
}
