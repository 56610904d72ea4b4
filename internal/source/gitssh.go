package source

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// sshServer is git-upload-pack at the other end of an SSH connection. go-git's own transport for SSH reads ~/.ssh/config,
// takes a proxy from the environment and dials without a check of the address.
type sshServer struct {
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	release func() bool
	// refs are the names that are looked for in the list of refs, and most bounds the pack, in bytes.
	refs []string
	most int64
}

// dialSSH connects, with the server's key and the user's checked, and starts git-upload-pack.
func (s *Store) dialSSH(ctx context.Context, f *flight) (*sshServer, error) {
	address := net.JoinHostPort(f.uri.address.Hostname(), "22")
	if port := f.uri.address.Port(); port != "" {
		address = net.JoinHostPort(f.uri.address.Hostname(), port)
	}
	config, err := sshConfig(f, address)
	if err != nil {
		return nil, err
	}
	config.Timeout = s.options.Limits.Dial
	addresses, err := s.guarded(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := addresses.dialer(s.options.Limits.Dial).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, describe(err)
	}
	// Nothing in the protocol of SSH listens to a context: closing the connection ends every read and write.
	out := &sshServer{
		release: context.AfterFunc(ctx, func() { _ = conn.Close() }), refs: refNames(f.uri.Ref), most: s.options.Limits.Archive,
	}
	// More than a pack of the largest size and its refs take, encrypted.
	limit := 2*s.options.Limits.Archive + 2*maxRefs
	counted := &countedConn{Conn: conn, bounded: bounded{
		ctx: ctx, r: conn, left: limit, err: tooLarge("the server sent more than %d bytes", limit),
	}}
	connection, channels, requests, err := ssh.NewClientConn(counted, address, config)
	if err != nil {
		out.release()
		_ = conn.Close()
		return nil, sshError(ctx, err)
	}
	out.client = ssh.NewClient(connection, channels, requests)
	if err := out.start(f.uri.address.Path); err != nil {
		_ = out.Close()
		return nil, sshError(ctx, err)
	}
	return out, nil
}

// countedConn bounds what a server sends.
type countedConn struct {
	net.Conn
	bounded bounded
}

func (c *countedConn) Read(p []byte) (int, error) { return c.bounded.Read(p) }

// sshConfig makes the configuration of a connection. The keys of servers are required: without them anybody on the way
// could serve the manifests.
func sshConfig(f *flight, address string) (*ssh.ClientConfig, error) {
	if f.auth.Proxy != "" {
		return nil, terminal(ReasonAuthInvalid, "use git over https", "a proxy is for http and https, not for SSH")
	}
	key, err := ssh.ParsePrivateKey(f.auth.SSHKey)
	if err != nil {
		return nil, terminal(ReasonAuthInvalid, "put a private key without a passphrase into the Secret",
			"there is no usable SSH key")
	}
	// The parser of known hosts reads files only.
	name := filepath.Join(f.work, "known_hosts")
	if err := os.WriteFile(name, f.auth.KnownHosts, 0o600); err != nil {
		return nil, diskError(err)
	}
	hosts, err := knownhosts.NewDB(name)
	if err != nil || len(hosts.HostKeyAlgorithms(address)) == 0 {
		return nil, terminal(ReasonAuthInvalid, "put what ssh-keyscan says of it into the Secret",
			"the known hosts have no key of %s", address)
	}
	return &ssh.ClientConfig{
		User:              f.uri.address.User.Username(),
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback:   hosts.HostKeyCallback(),
		HostKeyAlgorithms: hosts.HostKeyAlgorithms(address),
	}, nil
}

func (c *sshServer) start(path string) error {
	var err error
	if c.session, err = c.client.NewSession(); err != nil {
		return err
	}
	if c.in, err = c.session.StdinPipe(); err != nil {
		return err
	}
	if c.out, err = c.session.StdoutPipe(); err != nil {
		return err
	}
	// ParseURI lets no quote into the path.
	return c.session.Start("git-upload-pack '" + path + "'")
}

// AdvertisedReferencesContext reads the refs, which the server sends first.
func (c *sshServer) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	list := &bounded{ctx: ctx, r: c.out, left: maxRefs, err: tooManyRefs()}
	if err := refs.Decode(&refList{in: list, wanted: c.refs}); err != nil {
		return nil, err
	}
	if refs.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// UploadPack asks for a pack.
func (c *sshServer) UploadPack(ctx context.Context, r *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := r.UploadRequest.Encode(c.in); err != nil {
		return nil, err
	}
	if err := r.UploadHaves.Encode(c.in, true); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c.in, "0009done\n"); err != nil {
		return nil, err
	}
	res := packp.NewUploadPackResponse(r)
	answer := &bounded{ctx: ctx, r: c.out, left: maxPreamble, err: longPreamble()}
	if err := res.Decode(io.NopCloser(answer)); err != nil {
		return nil, err
	}
	answer.left, answer.err = c.most, tooLarge("the pack has more than %d bytes", c.most)
	return res, nil
}

// Close ends the session and the connection.
func (c *sshServer) Close() error {
	c.release()
	if c.session != nil {
		_ = c.session.Close()
	}
	return c.client.Close()
}

// sshError tells a login that failed from a connection that did. The library has texts only for the first.
func sshError(ctx context.Context, err error) *Error {
	switch text := err.Error(); {
	case ctx.Err() != nil:
		return describe(ctx.Err())
	case strings.Contains(text, "unable to authenticate"):
		return terminal(ReasonUnauthorized, "check the SSH key in the Secret", "the server does not accept the key")
	case strings.Contains(text, "knownhosts:"):
		return terminal(ReasonUnauthorized, "check the known hosts in the Secret",
			"the server has another key than the known hosts say")
	case errors.Is(err, packp.ErrEmptyInput):
		// What is wrong is said beside the protocol, in the server's own words.
		return terminal(ReasonNotFound, "check the URI and the rights of the SSH key", "the server gives no repository")
	}
	return describe(err)
}
