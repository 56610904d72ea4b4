// Package address tells the addresses that nothing of another machine's is behind, or much that trusts whoever reaches it. It resolves and
// connects to nothing.
package address

import "net/netip"

// special are addresses that neither an archive nor a pod is at.
var special = parsed(
	"0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128", // this machine
	"169.254.0.0/16", "fe80::/10", "fec0::/10", // link-local, where clouds keep their metadata
	"224.0.0.0/4", "255.255.255.255/32", "ff00::/8", // multicast and broadcast
	"192.0.0.0/24",                // IETF's own, and Oracle's metadata
	"100.100.100.200/32",          // Alibaba's metadata
	"168.63.129.16/32",            // Azure's platform
	"fd00:ec2::/32",               // AWS's metadata
	"fd20:ce::/32",                // Google's metadata
	"64:ff9b:1::/48", "2001::/32", // IPv4 behind a translator whose layout is not known, and Teredo
)

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96")
)

func parsed(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// Plain is an address in the form that addresses are compared in: a mapped IPv4 address is an IPv4 address.
func Plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// Special says that a plain address is this machine's or of its link, of many, or one at which clouds serve what trusts their machines.
func Special(ip netip.Addr) bool { return Contains(special, ip) }

// Contains says that an address is in one of some ranges.
func Contains(list []netip.Prefix, ip netip.Addr) bool {
	for _, p := range list {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// Embedded is the IPv4 address that an IPv6 address is translated to on its way.
func Embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compatible.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
