package ports

import (
	"fmt"
	"net"
	"testing"
)

func TestFreePortsDifferAndCanBeBound(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := Free()
		if err != nil || seen[port] || port < first || port >= last {
			t.Fatalf("port %d after %v: %v", port, seen, err)
		}
		seen[port] = true
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		// What is claimed is given to nobody else, whether it is bound or not.
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
