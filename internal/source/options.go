package source

import (
	"context"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// Options say where a Store keeps what it fetches, and what it may fetch. Only Dir is required.
type Options struct {
	// Dir is the folder of the store, used by one process at a time. Private archives lie in it: keep it to the operator.
	Dir string
	// Bytes bounds what the unpacked trees and large fetches under way take on disk; 5 GiB by default. What was used longest ago is
	// dropped first, but nothing that is open. Each fetch may take 16 MiB more, so that small ones wait for nobody.
	Bytes int64
	// Memory is what fetches share with whatever else takes memory; a limit of this store alone by default.
	Memory *limit.Limit
	// Lists bounds what the lists of all open trees take in memory, in bytes, of which each namespace may have one half; what does not fit is
	// refused for now. ListsOfRun bounds what those take that are opened Together. By default one list within the Limits fits, at least 32 MiB,
	// and twice that for all.
	Lists, ListsOfRun int64
	// Workers are the processes that read the indexes of chart repositories; those that all share who name none by default.
	Workers *worker.Pool
	// Limits bound every single fetch.
	Limits Limits
	// Map sends fetches elsewhere, such as to a mirror.
	Map []Mapping
	// Allow are the addresses that may be reached although they would be refused.
	Allow []netip.Prefix
	// Deny are addresses that are refused besides the usual ones.
	Deny []netip.Prefix
	// Cluster returns the addresses of the cluster's Services, pods and nodes as they are now, which are refused too. While it fails, nothing
	// is fetched. It is nil where there is no cluster that trusts whoever fetches.
	Cluster func(context.Context) ([]netip.Prefix, error)
	// Policy says how sources must be reached and pinned.
	Policy Policy
	// Key keys the digests of credentials and URIs by which the store remembers sources (invariant 16). Without it the store makes
	// one and keeps it in its folder.
	Key []byte
	// Clock tells when a tree was used last; the real one by default.
	Clock clock.PassiveClock
	// Log tells of trees that are dropped.
	Log logr.Logger
}

// Limits bound one fetch. Zero means the default.
type Limits struct {
	// Archive bounds the compressed bytes, as they are sent; 200 MiB by default.
	Archive int64
	// Unpacked bounds the bytes that an archive unpacks to, padding included; 1 GiB by default.
	Unpacked int64
	// File bounds the bytes of one file, and of one object of git, which is held in memory; 64 MiB by default.
	File int64
	// Index bounds the index of a chart repository, in bytes, which is held in memory; 16 MiB by default. Those of the largest public
	// repositories have 10 MiB.
	Index int64
	// Entries bounds the files, folders and what is skipped, counted together; 100 000 by default.
	Entries int
	// Path bounds the length of the path of an entry, in bytes; 1 024 by default.
	Path int
	// Ratio bounds how many times larger than its archive a tree may be; 100 by default. Whole Kubeflows are at about
	// 10. It does not count below 16 MiB, where a bomb does no harm.
	Ratio int64
	// Redirects bounds the redirects that are followed; 5 by default, none if negative.
	Redirects int
	// Total is how long one fetch may take, unpacking included, without what it waits for its turn; two minutes by default.
	Total time.Duration
	// Dial is how long connecting may take, and the TLS handshake again; ten seconds by default.
	Dial time.Duration
	// Header is how long a server may take to begin its answer, and then for each 16 KiB of it; 30 seconds by default, since forges pack
	// archives when they are asked for.
	Header time.Duration
}

const (
	// ratioGrace is the size below which the ratio does not count.
	ratioGrace = 16 << 20
	// memoryOfStore is what the fetches of a store may hold at once that shares its memory with nobody, in bytes.
	memoryOfStore = 256 << 20
	// memoryOfIndexes is what indexes of chart repositories may take at once. It is none of the memory for which a worker waits that reads one:
	// several of them would wait for each other.
	memoryOfIndexes = 64 << 20
	// maxDepth bounds the folders within folders, so that no entry makes the store walk far.
	maxDepth = 64
	// maxName is the longest name of a file that Linux has.
	maxName = 255
)

func orDefault[T int | int64 | time.Duration](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

func (o *Options) setDefaults() {
	orDefault(&o.Bytes, 5<<30)
	l := &o.Limits
	orDefault(&l.Archive, 200<<20)
	orDefault(&l.Unpacked, 1<<30)
	orDefault(&l.File, 64<<20)
	orDefault(&l.Index, 16<<20)
	orDefault(&l.Entries, 100_000)
	orDefault(&l.Path, 1024)
	orDefault(&l.Ratio, 100)
	orDefault(&l.Redirects, 5)
	orDefault(&l.Total, 2*time.Minute)
	orDefault(&l.Dial, 10*time.Second)
	orDefault(&l.Header, 30*time.Second)
	orDefault(&o.ListsOfRun, max(memoryOfRun, maxPaths+int64(l.Entries)*memoryOfNode))
	orDefault(&o.Lists, 2*o.ListsOfRun)
	if o.Memory == nil {
		o.Memory = limit.New(memoryOfStore, memoryOfStore)
	}
	if o.Workers == nil {
		o.Workers = worker.Default
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

// unpacked is how many bytes an archive of a size may unpack to.
func (l Limits) unpacked(archive int64) int64 {
	if archive > l.Unpacked/l.Ratio {
		return l.Unpacked
	}
	return min(l.Unpacked, max(ratioGrace, archive*l.Ratio))
}

// Request is what to fetch.
type Request struct {
	// URI is written by a user; ParseURI says what it may be.
	URI string
	// Digest is the sha256 of the archive in hexadecimal. It must agree with one in the URI; empty where only the URI
	// pins the content, or nothing does.
	Digest string
	Auth   Auth
	// File says that the URI names one file over HTTP, which is kept as it is: FileName in the tree.
	File bool
	// Fixed refuses the branches of a git repository, its default branch too. Tags and commits stay.
	Fixed bool
	// Before allows what the source gave the last time, if it cannot be asked now: Artifact.Stale then says why.
	Before bool
	// verify asks for a signature of an artifact in a registry.
	verify *Verify
}

// Auth is what a Secret holds for a source. Credentials are sent only to the origin of the (mapped) URI, only over TLS or
// SSH, and not after a redirect has left that origin; a registry's own token service also gets them, as the protocol
// of registries has it.
type Auth struct {
	// Username and Password are for HTTP's basic authentication, and for registries.
	Username, Password string
	// Token is a bearer token, used in place of the password.
	Token string
	// CA holds further certificate authorities as PEM.
	CA []byte
	// Proxy is the URL of an HTTP proxy, http or https, that may hold a user and a password. It is a destination like any
	// other and must have an allowed address. It resolves the names of hosts itself, so what they resolve to cannot be
	// checked here.
	Proxy string
	// SSHKey is a private key as PEM without a passphrase, and KnownHosts the keys of servers as in ~/.ssh/known_hosts.
	// Both are required for git over SSH.
	SSHKey, KnownHosts []byte
}

// credentials says that there is something to keep secret from other hosts.
func (a Auth) credentials() bool { return a.Username != "" || a.Password != "" || a.Token != "" }
