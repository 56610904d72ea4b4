//go:build kafka || realacm || realkserve

package kserve

import "mlkeeper.dev/test/ports"

// freePorts are ports that nothing listens on, all of them different.
func freePorts(n int) (out []int, err error) {
	for range n {
		port, err := ports.Free()
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}
