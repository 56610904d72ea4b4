package source

import (
	"net/netip"
	"testing"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestAddresses(t *testing.T) {
	cluster := prefixes("10.96.0.0/12", "fd00:10::/64")
	for _, c := range []struct {
		ip            string
		plain, opened bool // reachable as it is; with the addresses of this test allowed
	}{
		{"93.184.216.34", true, true},
		{"10.0.0.1", true, true},
		{"192.168.1.1", true, true},
		{"2606:2800:220:1::1", true, true},
		{"fd12::1", true, true},
		{"127.0.0.1", false, true},
		{"127.255.0.1", false, true},
		{"::ffff:127.0.0.1", false, true},
		{"::1", false, false},
		{"0.0.0.0", false, false},
		{"0.1.2.3", false, false},
		{"::", false, false},
		{"169.254.169.254", false, false},
		{"169.254.1.1", false, false},
		{"::ffff:169.254.169.254", false, false},
		{"64:ff9b::169.254.169.254", false, false},
		{"64:ff9b::127.0.0.1", false, true},
		{"64:ff9b::8.8.8.8", true, true},
		{"2002:7f00:1::1", false, true},
		{"2002:a9fe:a9fe::1", false, false},
		{"2002:808:808::1", true, true},
		{"::169.254.169.254", false, false},
		{"64:ff9b:1::1", false, false},
		{"2001::1", false, false},
		{"fe80::1", false, false},
		{"fe80::1%eth0", false, false},
		{"febf::1", false, false},
		{"224.0.0.1", false, false},
		{"255.255.255.255", false, false},
		{"ff02::1", false, false},
		{"192.0.0.192", false, false},
		{"100.100.100.200", false, false},
		{"168.63.129.16", false, false},
		{"fd00:ec2::254", false, false},
		{"fd20:ce::254", false, false},
		{"10.96.0.1", false, true},
		{"10.111.255.255", false, true},
		{"10.112.0.0", true, true},
		{"::ffff:10.96.0.1", false, true},
		{"fd00:10::5", false, false},
	} {
		ip := netip.MustParseAddr(c.ip)
		if got := newGuard(nil, cluster).check(ip) == nil; got != c.plain {
			t.Errorf("%s: reachable %t", ip, got)
		}
		allow := append(prefixes("10.96.0.0/16", "::ffff:10.111.0.0/112"), loopback...)
		if got := newGuard(allow, cluster).check(ip) == nil; got != c.opened {
			t.Errorf("%s: reachable %t where some are allowed", ip, got)
		}
	}
}

func TestOwnAddressesAreRefused(t *testing.T) {
	g := newGuard(nil, nil)
	if len(g.deny) == 0 {
		t.Fatal("the addresses of this machine cannot be read")
	}
	for _, p := range g.deny {
		if g.check(p.Addr()) == nil {
			t.Errorf("%s is reachable", p)
		}
	}
}

func TestHosts(t *testing.T) {
	g := newGuard(nil, nil)
	for host, want := range map[string]bool{
		"example.com": true, "localhost": false, "LOCALHOST.": false, "a.localhost": false, "127.0.0.1": false, "::1": false, "2130706433": false, "0x7f000001": false,
		"8.8.8.8": true, "127.1": false, "x.example.1": false, "localhost.example.com": true,
	} {
		if got := g.checkHost(host) == nil; got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
}
