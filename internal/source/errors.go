package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
)

// Class says whether it is of use to try again.
type Class string

const (
	// Terminal errors need a change of the custom resource, its Secret, the source or the operator's flags.
	Terminal Class = "Terminal"
	// Transient errors may pass by themselves: networks, servers that are down, and a disk that is full.
	Transient Class = "Transient"
)

// The reasons of errors, stable across releases.
const (
	// ReasonURIInvalid is given for a URI that cannot be used as it is written.
	ReasonURIInvalid = "URIInvalid"
	// ReasonAuthInvalid is given for credentials, CA bundles, proxies and keys that cannot be used.
	ReasonAuthInvalid = "AuthInvalid"
	// ReasonAddressRefused is given for addresses that fetches must not reach, and for names that do not exist.
	ReasonAddressRefused = "AddressRefused"
	// ReasonAddressesUnknown is given while it is not known which addresses are the cluster's.
	ReasonAddressesUnknown = "AddressesUnknown"
	// ReasonInsecureTransport is given for content over plain http that is not pinned.
	ReasonInsecureTransport = "InsecureTransport"
	// ReasonDigestRequired is given for content that is not pinned where Policy.RequireDigest asks for it.
	ReasonDigestRequired = "DigestRequired"
	// ReasonRefMoves is given for a branch where Request.Fixed asks for a tag or a commit.
	ReasonRefMoves = "RefMoves"
	// ReasonRedirectRefused is given for too many redirects, and for one away from https.
	ReasonRedirectRefused = "RedirectRefused"
	// ReasonTooLarge is given for what goes beyond a limit.
	ReasonTooLarge = "TooLarge"
	// ReasonDigestMismatch is given for content other than the pinned one.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonArchiveInvalid is given for content that cannot be unpacked, or not safely.
	ReasonArchiveInvalid = "ArchiveInvalid"
	// ReasonNotFound is given for what the server does not have: 404, 410, a missing ref or folder.
	ReasonNotFound = "NotFound"
	// ReasonUnauthorized is given for 401 and 403.
	ReasonUnauthorized = "Unauthorized"
	// ReasonRejected is given for other answers that are no content.
	ReasonRejected = "Rejected"
	// ReasonServerError is given for 5xx, 408 and 429.
	ReasonServerError = "ServerError"
	// ReasonUnreachable is given for names that cannot be looked up, connections that fail or break, and time that runs out.
	ReasonUnreachable = "Unreachable"
	// ReasonSignatureMissing is given for a chart without the signature that is asked for, ReasonSignatureInvalid for one that is signed by
	// another key or signed as something else, and ReasonKeysInvalid for keys that cannot be read.
	ReasonSignatureMissing = "SignatureMissing"
	ReasonSignatureInvalid = "SignatureInvalid"
	ReasonKeysInvalid      = "KeysInvalid"
	// ReasonStoreFull is given when what is in use leaves no space.
	ReasonStoreFull = "StoreFull"
	// ReasonStoreFailed is given when the store's disk fails, and after Close.
	ReasonStoreFailed = "StoreFailed"
)

// Error is why something could not be fetched or unpacked. Neither its text nor what it wraps holds a secret.
type Error struct {
	Class Class
	// Reason is one of the Reason constants.
	Reason string
	// Field is the part of the request that is at fault, such as FieldVerify; empty for where the source is.
	Field string
	// Message says what is wrong.
	Message string
	// Remedy says what to do; empty where waiting is all.
	Remedy string
	// cause is a context's error; other causes may quote URLs or servers and are left behind.
	cause error
}

// Error is the message with the remedy.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + ": " + e.Remedy
}

// Unwrap gives context.Canceled or context.DeadlineExceeded where that is the cause.
func (e *Error) Unwrap() error { return e.cause }

// at returns the error with the place it happened at in front, which must hold no secret.
func (e *Error) at(place string) *Error {
	out := *e
	out.Message = place + ": " + e.Message
	return &out
}

func terminal(reason, remedy, format string, args ...any) *Error {
	return &Error{Class: Terminal, Reason: reason, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

func transient(reason, remedy, format string, args ...any) *Error {
	return &Error{Class: Transient, Reason: reason, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// invalid is the error of an archive that cannot be unpacked.
func invalid(format string, args ...any) *Error {
	return terminal(ReasonArchiveInvalid, "publish it again as a gzipped tar", format, args...)
}

// tooLarge names the limit that was reached.
func tooLarge(format string, args ...any) *Error {
	return terminal(ReasonTooLarge, "make it smaller, or ask an administrator to raise the limit", format, args...)
}

// status is the error of an HTTP status that brings no content. Hosts such as GitHub answer 403 to those who ask too often, and
// say so in a header.
func status(code int, header http.Header) *Error {
	text := fmt.Sprintf("the server answered %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusForbidden && tooOften(header):
		return transient(ReasonServerError, "", "%s, since it was asked too often", text)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return terminal(ReasonUnauthorized, "check the Secret with the credentials", "%s", text)
	case code == http.StatusNotFound || code == http.StatusGone:
		return terminal(ReasonNotFound, "check the URI, and whether it needs credentials", "%s", text)
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return transient(ReasonServerError, "", "%s", text)
	}
	return terminal(ReasonRejected, "check the URI", "%s", text)
}

// tooOften says that a server takes no more requests for a while.
func tooOften(header http.Header) bool {
	return header.Get("Retry-After") != "" || header.Get("X-RateLimit-Remaining") == "0" || header.Get("RateLimit-Remaining") == "0"
}

// describe tells an error of the network or the disk in words that hold no secret: the texts of many errors quote URLs
// with their query, or what the server said.
func describe(err error) *Error {
	var known *Error
	var unexpected *plumbing.UnexpectedError
	var permanent *plumbing.PermanentError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &unexpected): // go-git's wrappers do not unwrap
		return describe(unexpected.Err)
	case errors.As(err, &permanent):
		return describe(permanent.Err)
	case errors.Is(err, context.Canceled):
		e := transient(ReasonUnreachable, "", "the fetch was cancelled")
		e.cause = context.Canceled
		return e
	case errors.Is(err, context.DeadlineExceeded):
		e := transient(ReasonUnreachable, "", "the fetch took too long")
		e.cause = context.DeadlineExceeded
		return e
	}
	if disk := new(fs.PathError); errors.As(err, &disk) {
		return diskError(err)
	}
	if link := new(os.LinkError); errors.As(err, &link) {
		return diskError(err)
	}
	return describeNetwork(err)
}

// exchangeFailed is said of what has no better words.
const exchangeFailed = "the exchange with the server failed"

// addCA is what the owner of a custom resource can do about a certificate.
const addCA = "add the CA that signed the server's certificate to the Secret"

// noRoots is the error of an operator that trusts no server at all, which its administrator has to mend.
func noRoots() *Error {
	return transient(ReasonUnreachable,
		"ask an administrator to mount a bundle of them and to set SSL_CERT_FILE to its path, or "+addCA,
		"the operator has no root certificates, so that it trusts no server")
}

func describeNetwork(err error) *Error {
	var (
		name      *net.DNSError
		timeout   net.Error
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		cert      *tls.CertificateVerificationError
		number    syscall.Errno
	)
	switch {
	case errors.As(err, &name):
		return transient(ReasonUnreachable, "check the host in the URI", "the host %q cannot be resolved", name.Name)
	case errors.As(err, &timeout) && timeout.Timeout():
		return transient(ReasonUnreachable, "", "the server did not answer in time")
	case errors.As(err, &authority):
		return transient(ReasonUnreachable, addCA, "the server's certificate is signed by an unknown authority")
	case errors.As(err, &host):
		return transient(ReasonUnreachable, "use a name that the certificate has", "the server's certificate is for another host")
	case errors.As(err, &cert):
		return transient(ReasonUnreachable, addCA, "the server's certificate is not valid")
	case errors.As(err, &number):
		return transient(ReasonUnreachable, "", "the connection failed (%s)", number.Error())
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return transient(ReasonUnreachable, "", "the connection broke off")
	}
	return transient(ReasonUnreachable, "", exchangeFailed)
}

// FolderError is the error of a store whose folder cannot be opened now. It is told to users as one of the store's disk, without the path, which is in
// its text for the log.
func FolderError(err error) error {
	return fmt.Errorf("open the store of sources (%w): %w", err, diskError(err))
}

// diskError is the error of the store's own disk; it leaves out paths, which mean nothing to users.
func diskError(err error) *Error {
	var number syscall.Errno
	errors.As(err, &number)
	switch {
	case number == syscall.ENOSPC || number == syscall.EDQUOT:
		return transient(ReasonStoreFull, "give the operator's volume of sources more space", "the disk of the store is full")
	case number != 0:
		return transient(ReasonStoreFailed, "check the operator's volume of sources", "the disk of the store failed (%s)",
			number.Error())
	}
	return transient(ReasonStoreFailed, "check the operator's volume of sources", "the disk of the store failed")
}
