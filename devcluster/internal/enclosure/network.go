package enclosure

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"mlkeeper.dev/devcluster/internal/component"
)

// furnishNetwork makes the bridge before the first pod would: the API server
// and the name server listen on its address from the start.
func furnishNetwork() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = component.Bridge
	// A bridge without a hardware address of its own changes it with its ports,
	// and neighbours would look for the old one.
	attributes.HardwareAddr = net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 0x00, 0x01}
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make the bridge of the pods: %w; the kernel needs the module bridge", err)
	}
	_, pods, err := net.ParseCIDR(component.PodCIDR)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(component.Gateway), Mask: pods.Mask}}
	if err := netlink.AddrAdd(bridge, address); err != nil {
		return fmt.Errorf("give the bridge its address: %w", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("bring the bridge up: %w", err)
	}
	// A ClusterIP is nowhere; kube-proxy translates it on its way to the bridge.
	// Without a route there is no way, and the API server calls no webhook.
	_, services, err := net.ParseCIDR(component.ServiceCIDR)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: bridge.Attrs().Index, Dst: services, Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("route the addresses of Services: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("forward packets: %w", err)
	}
	return nil
}
