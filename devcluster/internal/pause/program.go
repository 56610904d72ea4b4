// Package pause makes the program that holds the namespaces of a pod, without a
// registry and without a compiler.
//
// Such a program only has to wait. As a Go program it would be
// megabytes, and as a mode of this binary two hundred; the kernel needs no more
// than a header and one system call, so that is what the program is.
package pause

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	headerSize = 64
	entrySize  = 56
	// loadAddress is where linkers put the first page of a program.
	loadAddress = 0x400000
)

// machine is what differs between architectures.
type machine struct {
	// id is the machine's number in the ELF header.
	id uint16
	// code waits for signals in an endless loop.
	code []byte
}

var machines = map[string]machine{
	"amd64": {62, []byte{
		0xb8, 34, 0, 0, 0, // mov eax, 34 (pause)
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the mov
	}},
	// There is no pause on arm64: ppoll of nothing, without a timeout, is one.
	"arm64": {183, []byte{
		0x00, 0x00, 0x80, 0xd2, // mov x0, 0
		0x01, 0x00, 0x80, 0xd2, // mov x1, 0
		0x02, 0x00, 0x80, 0xd2, // mov x2, 0
		0x03, 0x00, 0x80, 0xd2, // mov x3, 0
		0x28, 0x09, 0x80, 0xd2, // mov x8, 73 (ppoll)
		0x01, 0x00, 0x00, 0xd4, // svc 0
		0xfa, 0xff, 0xff, 0x17, // b to the first mov
	}},
}

// Program returns a static executable for an architecture that waits until it
// is killed. It ends at no signal: a pod's first process gets only those that it
// asks for, and the runtime kills it in the end.
func Program(arch string) ([]byte, error) {
	m, known := machines[arch]
	if !known {
		return nil, fmt.Errorf("there is no pause program for %s; add its machine code to package pause", arch)
	}
	const start = headerSize + entrySize
	size := uint64(start + len(m.code))
	var out bytes.Buffer
	out.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	for _, field := range []any{
		uint16(2), m.id, uint32(1), // An executable.
		uint64(loadAddress + start), uint64(headerSize), uint64(0), // Entry, program headers, no sections.
		uint32(0), uint16(headerSize), uint16(entrySize), uint16(1), uint16(0), uint16(0), uint16(0),
		// The only segment: the whole file, to be read and executed.
		uint32(1), uint32(5), uint64(0), uint64(loadAddress), uint64(loadAddress), size, size, uint64(0x1000),
	} {
		if err := binary.Write(&out, binary.LittleEndian, field); err != nil {
			return nil, err
		}
	}
	out.Write(m.code)
	return out.Bytes(), nil
}
