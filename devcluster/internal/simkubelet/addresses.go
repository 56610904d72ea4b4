package simkubelet

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// nextIP is an address that no pod has, which the pod under the key has from now on; empty where the range is used up. Addresses
// are given in turn, as the plugin host-local of the CNI does, so that one that was given back rests for a while.
func (k *kubelet) nextIP(key string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ip := k.after(k.lastIP); ; ip = k.after(ip) {
		if _, used := k.addresses[ip]; !used {
			k.addresses[ip], k.lastIP = key, ip
			return ip.String()
		}
		if ip == k.lastIP {
			return ""
		}
	}
}

// after is the next address of the range. Its first and its last are those of the network and of the broadcast.
func (k *kubelet) after(ip netip.Addr) netip.Addr {
	if next := ip.Next(); k.podRange.Contains(next) && k.podRange.Contains(next.Next()) {
		return next
	}
	return k.podRange.Addr().Next()
}

// release gives back the address of a pod.
func (k *kubelet) release(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ip, holder := range k.addresses {
		if holder == key {
			delete(k.addresses, ip)
		}
	}
}

// reserve keeps the address that a pod got before this process started, and makes nextIP go on after the highest of these.
func (k *kubelet) reserve(key string, p *corev1.Pod) {
	ip, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil || !k.podRange.Contains(ip) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses[ip] = key
	if k.lastIP.Less(ip) {
		k.lastIP = ip
	}
}
