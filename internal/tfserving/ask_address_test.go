package tfserving

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNoPodNamesAnotherAddress: whoever may write the status of a pod has the manager ask what it names, with the rights of its network.
func TestNoPodNamesAnotherAddress(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		says("7 AVAILABLE")(w, r)
	}))
	defer server.Close()
	_, port := listensAt(t, server)
	client := Settings{}.complete().HTTP
	for _, host := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::127.0.0.1", "0.0.0.0"} {
		got := queryModel(t.Context(), client, host, port, wanted{name: "m"})
		if got.answered || asked.Load() > 0 {
			t.Errorf("%s is asked: %+v", host, got)
		}
	}
	if got := queryModel(t.Context(), newClient(nil), "127.0.0.1", port, wanted{name: "m"}); !got.answered {
		t.Errorf("without the guard nobody answers: %+v", got)
	}
	for ip, want := range map[string]bool{
		"10.244.0.7": true, "fd00:10:244::7": true, "2001:db8::7": true, "240.0.0.7": true, "100.64.0.7": true,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "64:ff9b::169.254.169.254": false, "fe80::1": false, "224.0.0.1": false,
		"255.255.255.255": false, "ff02::1": false, "::": false, "::1": false, "fd00:ec2::254": false,
	} {
		if mayBePods(netip.MustParseAddr(ip)) != want {
			t.Errorf("%s is of pods: %t", ip, !want)
		}
	}
}

// TestPodsWithoutAnAddressOfAKubeletAreNotAsked, such as one that is on no node. One that has a node for itself has the node's address, as on EKS
// Fargate.
func TestPodsWithoutAnAddressOfAKubeletAreNotAsked(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	client := newClient(nil)
	client.Transport = tripper(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		asked = append(asked, r.URL.Hostname())
		mu.Unlock()
		w := httptest.NewRecorder()
		says("7 AVAILABLE")(w, r)
		return w.Result(), nil
	})
	change := func(value string, path ...string) unstructured.Unstructured {
		out := pod("10.0.0.1", true, false)
		if err := unstructured.SetNestedField(out.Object, value, path...); err != nil {
			t.Fatal(err)
		}
		return out
	}
	answerOf(t, client, pods{
		change("", "spec", "nodeName"), change("metadata.google.internal", "status", "podIP"), change("10.0.0.1", "status", "hostIP"),
		change("10.0.0.2", "status", "podIP"),
	}, "m")
	// The servers are asked side by side.
	slices.Sort(asked)
	if got := strings.Join(asked, " "); got != "10.0.0.1 10.0.0.2" {
		t.Errorf("asked are %s", got)
	}
}
