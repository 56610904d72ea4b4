// Package ports chooses ports for programs that bind them later.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports are below those that Linux takes for outgoing connections and for listeners that name no port, which could take them before the
// program does, and below those of devclusters.
const first, last = 10000, 20000

// claims keep the ports from the tests of other processes until this process ends.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// Free returns a port of 127.0.0.1 that nothing listens on, and that no other test is given while this process lives.
func Free() (int, error) {
	claims.Lock()
	defer claims.Unlock()
	start := rand.IntN(last - first)
	for i := range last - first {
		port := first + (start+i)%(last-first)
		// The kernel drops an abstract socket with its process.
		claim, err := net.Listen("unix", "@mlkeeper-test-port-"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = claim.Close()
			continue
		}
		claims.held = append(claims.held, claim)
		return port, probe.Close()
	}
	return 0, errors.New("no port is free")
}
