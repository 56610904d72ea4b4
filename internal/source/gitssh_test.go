package source

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/crypto/ssh"
)

// sshKey is a key with its private half as PEM.
func sshKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// serveSSH serves a repository over SSH to one user's key, and returns the address.
func serveSSH(t *testing.T, r *repository, host ssh.Signer, user ssh.PublicKey) string {
	t.Helper()
	config := &ssh.ServerConfig{PublicKeyCallback: func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if m.User() != "git" || string(k.Marshal()) != string(user.Marshal()) {
			return nil, io.ErrUnexpectedEOF
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				_, channels, requests, err := ssh.NewServerConn(conn, config)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				for c := range channels {
					answerSSH(r, c)
				}
			})
		}
	})
	return listener.Addr().String()
}

// answerSSH plays git-upload-pack.
func answerSSH(r *repository, c ssh.NewChannel) {
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer func() { _ = channel.Close() }()
	q, ok := <-requests
	if !ok {
		return
	}
	_ = q.Reply(q.Type == "exec", nil)
	// The payload is the command behind its length.
	if q.Type != "exec" || len(q.Payload) < 4 || string(q.Payload[4:]) != "git-upload-pack '/o/r.git'" {
		_, _ = io.WriteString(channel.Stderr(), "repository not found")
		return
	}
	s := r.session()
	refs, err := s.AdvertisedReferencesContext(context.Background())
	if err != nil || refs.Encode(channel) != nil {
		return
	}
	want := packp.NewUploadPackRequest()
	if want.Decode(channel) != nil {
		return
	}
	if answer, err := s.UploadPack(context.Background(), want); err == nil {
		_ = answer.Encode(channel)
	}
}

func TestGitOverSSH(t *testing.T) {
	r := newRepository(t)
	first, _ := r.sample()
	host, _ := sshKey(t)
	user, private := sshKey(t)
	stranger, other := sshKey(t)
	address := serveSSH(t, r, host, user.PublicKey())
	name, port, _ := net.SplitHostPort(address)
	known := "[" + name + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(host.PublicKey()))
	wrong := "[" + name + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(stranger.PublicKey()))
	s := open(t, nil)
	uri := "ssh://git@" + address + "/o/r.git"
	for _, tail := range []string{"", "?ref=v1", ""} {
		a, err := fetch(t, s, Request{URI: uri + tail, Auth: Auth{SSHKey: private, KnownHosts: []byte(known)}})
		if err != nil {
			t.Fatal(err)
		}
		wantContents(t, a, sampled)
		if a.Digest != first.String() {
			t.Errorf("%+v", a)
		}
	}
	for what, c := range map[string]struct {
		uri    string
		auth   Auth
		class  Class
		reason string
	}{
		"no key":               {uri, Auth{KnownHosts: []byte(known)}, Terminal, ReasonAuthInvalid},
		"a key that is none":   {uri, Auth{SSHKey: []byte("s3cret"), KnownHosts: []byte(known)}, Terminal, ReasonAuthInvalid},
		"no known hosts":       {uri, Auth{SSHKey: private}, Terminal, ReasonAuthInvalid},
		"hosts that are none":  {uri, Auth{SSHKey: private, KnownHosts: []byte("s3cret s3cret s3cret")}, Terminal, ReasonAuthInvalid},
		"another host's key":   {uri, Auth{SSHKey: private, KnownHosts: []byte(wrong)}, Terminal, ReasonUnauthorized},
		"another user's key":   {uri, Auth{SSHKey: other, KnownHosts: []byte(known)}, Terminal, ReasonUnauthorized},
		"another user":         {strings.Replace(uri, "git@", "root@", 1), Auth{SSHKey: private, KnownHosts: []byte(known)}, Terminal, ReasonUnauthorized},
		"another repository":   {uri + "x", Auth{SSHKey: private, KnownHosts: []byte(known)}, Terminal, ReasonNotFound},
		"the cloud's metadata": {"ssh://git@169.254.169.254/o/r.git", Auth{SSHKey: private, KnownHosts: []byte(known)}, Terminal, ReasonAddressRefused},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := fetch(t, s, Request{URI: c.uri, Auth: c.auth})
			wantError(t, err, c.class, c.reason)
		})
	}
	strict := open(t, func(o *Options) { o.Allow = nil })
	at := strings.Replace(known, name, "localhost.example", 1)
	_, err := fetch(t, strict, Request{URI: uri, Auth: Auth{SSHKey: private, KnownHosts: []byte(at)}})
	wantError(t, err, Terminal, ReasonAddressRefused)
}
