package source

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/net/dns/dnsmessage"
)

// nameserver answers a lookup of a name that begins with "is." with an address, of one that begins with "broken." with a failure, and of
// others that they do not exist.
func nameserver(t *testing.T, address [4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil {
				continue
			}
			q := m.Questions[0]
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
			switch {
			case strings.HasPrefix(q.Name.String(), "broken."):
				m.RCode = dnsmessage.RCodeServerFailure
			case strings.HasPrefix(q.Name.String(), "is."):
				m.RCode = dnsmessage.RCodeSuccess
				if q.Type == dnsmessage.TypeA {
					m.Answers = []dnsmessage.Resource{{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}, Body: &dnsmessage.AResource{A: address},
					}}
				}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestStatusesDoNotTellWhichServicesThereAre: of a name, a refused address and its absence look alike. A nameserver that fails says nothing
// about the name.
func TestStatusesDoNotTellWhichServicesThereAre(t *testing.T) {
	d := newGuard(nil, prefixes("10.96.0.0/12")).dialer(time.Second)
	d.Resolver = nameserver(t, [4]byte{10, 96, 0, 7})
	told := map[string]*Error{}
	for _, host := range []string{"is.prod.svc", "is-not.prod.svc", "broken.example"} {
		_, err := d.DialContext(t.Context(), "tcp", host+".:443")
		if err == nil {
			t.Fatalf("%s is connected to", host)
		}
		told[host] = describe(err)
	}
	there, absent := told["is.prod.svc"], told["is-not.prod.svc"]
	wantError(t, there, Terminal, ReasonAddressRefused)
	if there.Class != absent.Class || there.Reason != absent.Reason || there.Remedy != absent.Remedy ||
		strings.ReplaceAll(there.Message, "is.prod", "") != strings.ReplaceAll(absent.Message, "is-not.prod", "") {
		t.Errorf("of what there is: %v, of what there is not: %v", there, absent)
	}
	wantError(t, told["broken.example"], Transient, ReasonUnreachable)
}

// TestTheClustersAddressesAreRefused: those that it has now, in the URI, behind a redirect and as a proxy.
func TestTheClustersAddressesAreRefused(t *testing.T) {
	var now []netip.Prefix
	var failed error
	// A connection to the machine itself takes less on a busy machine too.
	limits := Limits{Dial: 500 * time.Millisecond, Total: 5 * time.Second}
	cluster := func(context.Context) ([]netip.Prefix, error) {
		if failed != nil {
			return nil, failed
		}
		return now, nil
	}
	s := open(t, func(o *Options) { o.Cluster, o.Limits = cluster, limits })
	allowing := open(t, func(o *Options) {
		o.Cluster, o.Limits, o.Allow = cluster, limits, append(prefixes("10.43.0.5/32"), loopback...)
	})
	away := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://10.43.0.5/y", http.StatusFound)
	})
	host, _ := sshKey(t)
	_, private := sshKey(t)
	known := []byte("10.43.0.5 " + string(ssh.MarshalAuthorizedKey(host.PublicKey())))
	requests := []Request{
		{URI: "http://10.43.0.5/x"},
		{URI: "git::http://10.43.0.5/x"},
		{URI: "http://[::ffff:10.43.0.5]/x"},
		{URI: away.URL + "/x"},
		{URI: "git::ssh://git@10.43.0.5/o/r.git", Auth: Auth{SSHKey: private, KnownHosts: known}},
		{URI: "http://a.example/x", Auth: Auth{Proxy: "http://10.43.0.5:3128"}},
	}
	reason := func(s *Store, r Request) string {
		_, err := fetch(t, s, r)
		if e := new(Error); errors.As(err, &e) {
			return e.Reason
		}
		return ""
	}
	for _, r := range requests {
		if got := reason(s, r); got == ReasonAddressRefused {
			t.Errorf("%+v is refused, though the cluster has no such address", r)
		}
	}
	// A node with its range of pods joins.
	now = prefixes("10.42.0.0/16", "10.43.0.0/16")
	for _, r := range requests {
		if got := reason(s, r); got != ReasonAddressRefused {
			t.Errorf("%+v: %q", r, got)
		}
		if got := reason(allowing, r); got == ReasonAddressRefused {
			t.Errorf("%+v is refused, though it is allowed", r)
		}
	}
	// A cluster whose Nodes name no ranges of pods: all private addresses, but for those that are allowed.
	now = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
	for _, r := range append(requests, Request{URI: "https://172.31.0.1/x"}, Request{URI: "http://[fd00::1]/x"}) {
		if got := reason(s, r); got != ReasonAddressRefused {
			t.Errorf("%+v: %q", r, got)
		}
	}
	if got := reason(allowing, requests[0]); got == ReasonAddressRefused {
		t.Errorf("%+v is refused, though it is allowed", requests[0])
	}
	now = nil
	// What is not known to be outside the cluster is not fetched.
	failed = errors.New("the operator may not list and watch nodes")
	archive := serve(t, false, static(forge(t)))
	_, err := fetch(t, s, Request{URI: archive.URL})
	wantError(t, err, Transient, ReasonAddressesUnknown)
	if !strings.Contains(err.Error(), failed.Error()) {
		t.Errorf("does not say which right is missing: %v", err)
	}
	failed = nil
	if _, err := fetch(t, s, Request{URI: archive.URL}); err != nil {
		t.Error(err)
	}
}
