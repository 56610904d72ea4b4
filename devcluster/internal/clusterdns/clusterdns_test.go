package clusterdns

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// example is a cluster with a Service of each kind in the namespace ns.
func example() Zone {
	services := map[string]*corev1.Service{
		"web":      {Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd00::7"}}},
		"pods":     {Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
		"all-pods": {Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true}},
		"alias":    {Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.ns.svc.cluster.local"}},
		"new":      {},
	}
	for name, svc := range services {
		svc.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: name}
	}
	yes, no, first := true, false, "Pod-0"
	slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"10.244.0.9"}, Hostname: &first, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
		{Addresses: []string{"10.244.0.8"}},
		{Addresses: []string{"10.244.0.5"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
	}}
	return Zone{
		Domain: "cluster.local",
		Service: func(namespace, name string) *corev1.Service {
			if namespace != "ns" {
				return nil
			}
			return services[name]
		},
		Slices: func(_, service string) []*discoveryv1.EndpointSlice {
			if service == "pods" || service == "all-pods" {
				// An endpoint may be in two slices while it moves.
				return []*discoveryv1.EndpointSlice{slice, slice}
			}
			return nil
		},
	}
}

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func TestLookup(t *testing.T) {
	for name, want := range map[string]Answer{
		"web.ns.svc.cluster.local.":          {Exists: true, Addresses: addresses("10.96.0.7", "fd00::7")},
		"WEB.ns.svc.Cluster.Local":           {Exists: true, Addresses: addresses("10.96.0.7", "fd00::7")},
		"pods.ns.svc.cluster.local.":         {Exists: true, Addresses: addresses("10.244.0.8", "10.244.0.9")},
		"all-pods.ns.svc.cluster.local.":     {Exists: true, Addresses: addresses("10.244.0.5", "10.244.0.8", "10.244.0.9")},
		"pod-0.pods.ns.svc.cluster.local.":   {Exists: true, Addresses: addresses("10.244.0.9")},
		"alias.ns.svc.cluster.local.":        {Exists: true, Alias: "web.ns.svc.cluster.local"},
		"new.ns.svc.cluster.local.":          {Exists: true},
		"svc.cluster.local.":                 {Exists: true},
		"cluster.local.":                     {Exists: true},
		"pod-1.pods.ns.svc.cluster.local.":   {},
		"pod-0.web.ns.svc.cluster.local.":    {},
		"web.other.svc.cluster.local.":       {},
		"absent.ns.svc.cluster.local.":       {},
		"ns.svc.cluster.local.":              {},
		"a.b.c.d.svc.cluster.local.":         {},
		"web.ns.svc.":                        {},
		"example.test.":                      {},
		"web.ns.svc.cluster.local.ns.other.": {},
		".":                                  {},
	} {
		if got := example().Lookup(name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// ask packs a question, has it answered and unpacks the answer.
func ask(t *testing.T, z Zone, name string, kind dnsmessage.Type) dnsmessage.Message {
	t.Helper()
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	raw, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	raw, err = Respond(z, raw)
	if err != nil {
		t.Fatal(err)
	}
	var out dnsmessage.Message
	if err := out.Unpack(raw); err != nil {
		t.Fatal(err)
	}
	if out.ID != 7 || !out.Response || !out.RecursionDesired || len(out.Questions) != 1 {
		t.Errorf("header: %+v", out.Header)
	}
	return out
}

func TestRecordsFitTheQuestion(t *testing.T) {
	const web = "web.ns.svc.cluster.local."
	for _, tc := range []struct {
		name  string
		kind  dnsmessage.Type
		rcode dnsmessage.RCode
		want  []string
	}{
		{web, dnsmessage.TypeA, dnsmessage.RCodeSuccess, []string{"A 10.96.0.7"}},
		{web, dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, []string{"AAAA fd00::7"}},
		// A name that exists must not be denied for want of the type: resolvers ask
		// for both families, and one denial hides the other answer.
		{"pods.ns.svc.cluster.local.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, nil},
		{web, dnsmessage.TypeMX, dnsmessage.RCodeSuccess, nil},
		{"alias.ns.svc.cluster.local.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, []string{"CNAME " + web, "A 10.96.0.7"}},
		{"absent.ns.svc.cluster.local.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil},
	} {
		out := ask(t, example(), tc.name, tc.kind)
		var got []string
		for _, r := range out.Answers {
			switch b := r.Body.(type) {
			case *dnsmessage.AResource:
				got = append(got, "A "+netip.AddrFrom4(b.A).String())
			case *dnsmessage.AAAAResource:
				got = append(got, "AAAA "+netip.AddrFrom16(b.AAAA).String())
			case *dnsmessage.CNAMEResource:
				got = append(got, "CNAME "+b.CNAME.String())
			}
		}
		if out.RCode != tc.rcode || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s %s: got %s %v, want %s %v", tc.name, tc.kind, out.RCode, got, tc.rcode, tc.want)
		}
	}
}

func TestLongAnswersAreTruncated(t *testing.T) {
	z := example()
	slice := &discoveryv1.EndpointSlice{}
	for i := range 100 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.1.%d", i)}})
	}
	z.Slices = func(string, string) []*discoveryv1.EndpointSlice { return []*discoveryv1.EndpointSlice{slice} }
	full := ask(t, z, "pods.ns.svc.cluster.local.", dnsmessage.TypeA)
	if len(full.Answers) != 100 {
		t.Fatalf("%d records", len(full.Answers))
	}
	raw, err := full.Pack()
	if err != nil {
		t.Fatal(err)
	}
	short, err := Truncate(raw)
	if err != nil {
		t.Fatal(err)
	}
	var out dnsmessage.Message
	if err := out.Unpack(short); err != nil || len(short) > udpSize || !out.Truncated || out.ID != full.ID {
		t.Errorf("%d bytes, %+v, %v", len(short), out.Header, err)
	}
}

func TestWhatIsNoQueryIsNotAnswered(t *testing.T) {
	response, err := (&dnsmessage.Message{Header: dnsmessage.Header{Response: true}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for what, raw := range map[string][]byte{"nothing": nil, "noise": []byte("noise"), "a response": response} {
		if got, err := Respond(example(), raw); err == nil {
			t.Errorf("%s is answered: %v", what, got)
		}
	}
}
