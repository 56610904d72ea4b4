package egress

import (
	"io"
	"net"
	"sync"
)

// tunnels is a listener whose connections come through the proxy.
type tunnels struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newTunnels(addr net.Addr) *tunnels {
	return &tunnels{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (t *tunnels) add(conn net.Conn) {
	select {
	case t.conns <- conn:
	case <-t.done:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case conn := <-t.conns:
		return conn, nil
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return t.addr }

// pipe copies one direction of a connection, and ends both connections with it.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
