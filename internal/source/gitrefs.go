package source

import (
	"bytes"
	"io"
	"slices"
	"strconv"
)

const (
	// maxRefs bounds a git server's list of refs, in bytes.
	maxRefs = 8 << 20
	// maxPreamble bounds what a git server sends before a pack, in bytes: the shallow commits and the acknowledgements, of which go-git keeps
	// each one. A fetch of one commit has one of each.
	maxPreamble = 64 << 10
	// lengthOfPacket is that of the number which begins a packet of git's protocol, and maxPacket that of the largest packet.
	lengthOfPacket, maxPacket = 4, 65520
)

// tooManyRefs is the error of a list of refs that is too long.
func tooManyRefs() *Error {
	return terminal(ReasonTooLarge, "name the archive that the server has of the ref, such as https://HOST/REPOSITORY/archive/REF.tar.gz",
		"the git server lists refs of more than %d bytes", maxRefs)
}

// longPreamble is the error of a server that does not come to the pack.
func longPreamble() *Error {
	return terminal(ReasonRejected, "check that the URI is a git repository", "the git server sent more than %d bytes before the pack", maxPreamble)
}

// refNames are the names that a ref may have in the list of a server, the one that is meant first. A tag comes before a branch.
func refNames(ref string) []string { return []string{ref, "refs/tags/" + ref, "refs/heads/" + ref} }

// refList is a git server's list of refs without those that nobody looks for: go-git keeps each one in memory, several times as large as it
// was sent. The first one stays, since it has the capabilities.
type refList struct {
	in     io.Reader
	wanted []string
	// begun says that the first ref was read.
	begun bool
	// left is what was not handed on yet of the packet that is read.
	left []byte
}

// Read implements io.Reader.
func (l *refList) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// next reads a packet. What is none is handed on, so that go-git refuses it.
func (l *refList) next() error {
	packet := make([]byte, lengthOfPacket)
	if _, err := io.ReadFull(l.in, packet); err != nil {
		return err
	}
	length, err := strconv.ParseUint(string(packet), 16, 32)
	if err != nil || length <= lengthOfPacket || length > maxPacket {
		l.left = packet
		return nil
	}
	packet = append(packet, make([]byte, length-lengthOfPacket)...)
	if _, err := io.ReadFull(l.in, packet[lengthOfPacket:]); err != nil {
		return err
	}
	if l.needs(packet[lengthOfPacket:]) {
		l.left = packet
	}
	return nil
}

// needs says that a line is the first ref or comes before it, is one that is looked for, or is the error of a server.
func (l *refList) needs(line []byte) bool {
	if !l.begun {
		l.begun = bytes.IndexByte(line, 0) >= 0
		return true
	}
	_, name, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	return bytes.HasPrefix(line, []byte("ERR ")) || slices.Contains(l.wanted, string(name))
}

// refsBody is a list of refs as the body of an answer.
type refsBody struct {
	refList
	io.Closer
}
