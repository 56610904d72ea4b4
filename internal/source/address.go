package source

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"mlkeeper.dev/internal/address"
)

// guard decides which addresses may be reached.
type guard struct{ allow, deny []netip.Prefix }

// reserved are addresses that some networks give to pods, and that no archive is served from.
var reserved = netip.MustParsePrefix("240.0.0.0/4")

// guarded is the guard of one fetch: it refuses the addresses of the cluster as they are now, too.
func (s *Store) guarded(ctx context.Context) (guard, error) {
	g := s.guard
	if s.options.Cluster == nil {
		return g, nil
	}
	more, err := s.options.Cluster(ctx)
	if err != nil {
		return guard{}, transient(ReasonAddressesUnknown, "ask an administrator to grant that; mlkeeper rbac prints the roles",
			"the addresses of the cluster's Services, pods and nodes, which sources are not fetched from, are not known: %v", err)
	}
	g.deny = slices.Clip(g.deny)
	for _, p := range more {
		g.deny = append(g.deny, plain(p))
	}
	return g, nil
}

// newGuard adds the machine's own addresses to those that are denied: what listens in this pod is behind them too.
func newGuard(allow, deny []netip.Prefix) guard {
	g := guard{}
	for _, p := range allow {
		g.allow = append(g.allow, plain(p))
	}
	for _, p := range deny {
		g.deny = append(g.deny, plain(p))
	}
	// Without the list of interfaces there is nothing to add; the addresses above are refused all the same.
	own, _ := net.InterfaceAddrs()
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			g.deny = append(g.deny, netip.PrefixFrom(p.Addr().Unmap(), p.Addr().Unmap().BitLen()))
		}
	}
	return g
}

// plain turns a prefix of mapped IPv4 addresses into one of IPv4 addresses, the form that addresses are compared in.
func plain(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// check refuses an address, with the IPv4 address that it stands for, unless it is allowed.
func (g guard) check(ip netip.Addr) error {
	ip = address.Plain(ip)
	if address.Contains(g.allow, ip) {
		return nil
	}
	inner, wraps := address.Embedded(ip)
	if address.Special(ip) || reserved.Contains(ip) || address.Contains(g.deny, ip) || (wraps && g.check(inner) != nil) {
		return terminal(ReasonAddressRefused, "use a public server, or ask an administrator for --source-allow-cidr",
			"the address %s is not to be reached by fetches", ip)
	}
	return nil
}

// checkHost refuses a host that is an address, or this machine by name. Other names are checked when they have been
// resolved; behind a proxy this is the only check.
func (g guard) checkHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.check(ip)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return g.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case lastLabel.MatchString(name):
		return terminal(ReasonAddressRefused, "write the address with four decimal numbers", "the host %q is a number", host)
	}
	return nil
}

// refusedName is the error of a host without an address that may be fetched from. It is the same for one that does not exist, so that
// nobody learns by the names of Services which ones there are.
func refusedName(host string) *Error {
	return terminal(ReasonAddressRefused, "correct the host, or ask an administrator for --source-allow-cidr",
		"the host %q does not exist, or is at an address that sources are not fetched from", host)
}

// dialer makes the connections of a guard.
type dialer struct{ net.Dialer }

// DialContext connects to an address that is not refused.
func (d *dialer) DialContext(ctx context.Context, network, to string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, to)
	host, _, _ := net.SplitHostPort(to)
	if _, literal := netip.ParseAddr(host); err == nil || literal == nil {
		return conn, err
	}
	var refused *Error
	var name *net.DNSError
	if errors.As(err, &refused) || errors.As(err, &name) && name.IsNotFound {
		return nil, refusedName(host)
	}
	return nil, err
}

// dialer checks the address of every connection after the name was resolved and right before it is connected to, so a
// name that resolves to something else the second time gains nothing.
func (g guard) dialer(timeout time.Duration) *dialer {
	return &dialer{net.Dialer{
		Timeout: timeout,
		ControlContext: func(_ context.Context, _, addressed string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(addressed)
			if err != nil {
				return terminal(ReasonAddressRefused, "check the URI", "the connection goes to no address")
			}
			return g.check(to.Addr())
		},
	}}
}
