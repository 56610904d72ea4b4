//go:build kafka || realacm || realkserve

package kserve

import (
	"errors"
	"net"
)

// freePorts are ports that nothing listens on, all of them different.
func freePorts(n int) (out []int, err error) {
	for range n {
		listener, listenErr := net.Listen("tcp", "127.0.0.1:0")
		if listenErr != nil {
			return nil, errors.Join(err, listenErr)
		}
		defer func() { err = errors.Join(err, listener.Close()) }()
		out = append(out, listener.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}
