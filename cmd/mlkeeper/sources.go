package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/clusternet"
	watchsource "mlkeeper.dev/internal/engine/watch/source"
	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// sources are the flags of what is fetched.
type sources struct {
	dir               string
	bytes             int64
	limits            source.Limits
	maps, allow, deny []string
	policy            source.Policy
	// cluster is the cluster that the manager runs for, whose addresses are refused; nil for the commands, which fetch from the machine
	// and with the rights of whoever calls them.
	cluster *clusternet.Addresses
	// work is what fetches and renderings share, in all copies of the flags.
	work *sharedWork
	// made is the store that was made with these flags, shared by all controllers and by all copies of the flags.
	made **lazyStore
}

func (s *sources) bind(flags *pflag.FlagSet) {
	s.made, s.work = new(*lazyStore), &sharedWork{}
	flags.StringVar(&s.dir, "source-dir", "", "folder that keeps fetched archives; a temporary one when empty")
	flags.Int64Var(&s.bytes, "source-bytes", 5<<30,
		"how many bytes it keeps and large fetches under way take; what was used longest ago goes first")
	flags.Int64Var(&s.work.bytes, "work-memory", worker.Share+64<<20,
		"how many bytes of memory fetches and renderings take together; each process that renders takes 320 MiB of them, and one runs in any case")
	flags.Int64Var(&s.work.results, "result-memory", 192<<20,
		"how many bytes of memory the results of renderings take that are kept; one namespace has half of them")
	l := &s.limits
	flags.Int64Var(&l.Archive, "source-max-archive", 200<<20, "how many bytes an archive may have, compressed")
	flags.Int64Var(&l.Unpacked, "source-max-unpacked", 1<<30, "how many bytes an archive may unpack to")
	flags.Int64Var(&l.File, "source-max-file", 64<<20, "how many bytes one file of an archive may have")
	flags.Int64Var(&l.Index, "source-max-index", 16<<20, "how many bytes the index of a chart repository may have")
	flags.IntVar(&l.Entries, "source-max-entries", 100_000, "how many files and folders an archive may have")
	flags.Int64Var(&l.Ratio, "source-max-ratio", 100, "how many times larger than an archive what it unpacks to may be; below 16 MiB it does not count")
	flags.IntVar(&l.Redirects, "source-max-redirects", 5, "how many redirects are followed; none if negative")
	flags.DurationVar(&l.Total, "source-timeout", 2*time.Minute, "how long one fetch may take, unpacking included, without what it waits for its turn")
	flags.StringArrayVar(&s.maps, "source-map", nil,
		"FROM=TO: fetch what begins with FROM from TO instead, such as a mirror; repeatable")
	flags.StringSliceVar(&s.allow, "source-allow-cidr", nil,
		"addresses that may be fetched from although they are loopback, link-local, the cluster's or denied")
	flags.StringSliceVar(&s.deny, "source-deny-cidr", nil,
		"addresses that may not be fetched from, besides those of the cluster's Services, pods and nodes")
	flags.BoolVar(&s.policy.AllowHTTP, "source-allow-http", false,
		"fetch over plain http what no digest or commit pins, from other servers than those of --source-map too")
	flags.BoolVar(&s.policy.RequireDigest, "source-require-digest", false, "fetch only what a digest or a commit pins")
}

// options reads the flags.
func (s *sources) options(log logr.Logger) (source.Options, error) {
	out := source.Options{Dir: s.dir, Bytes: s.bytes, Limits: s.limits, Policy: s.policy, Log: log.WithName("source")}
	if out.Workers = s.work.workers(); out.Workers != nil {
		out.Memory = out.Workers.Memory
	}
	var failed error
	for _, text := range s.maps {
		m, err := source.ParseMapping(text)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("--source-map: %w", err))
		}
		out.Map = append(out.Map, m)
	}
	prefixes := func(flag string, texts []string) (list []netip.Prefix) {
		for _, text := range texts {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s %q: write a range such as 10.0.0.0/8", flag, text))
			}
			list = append(list, p)
		}
		return list
	}
	if s.cluster != nil {
		out.Cluster = s.cluster.Prefixes
	}
	out.Allow, out.Deny = prefixes("--source-allow-cidr", s.allow), prefixes("--source-deny-cidr", s.deny)
	return out, failed
}

// sharedWork is what fetches and renderings share.
type sharedWork struct {
	bytes, results int64
	once           sync.Once
	pool           *worker.Pool
	kept           *rendering.Memory
}

// workers are the processes that render, within the memory of all; nil, for those that all share, where there are no flags.
func (w *sharedWork) workers() *worker.Pool {
	if w == nil {
		return nil
	}
	w.prepare()
	return w.pool
}

// memory bounds the results that are kept of all renderings; nil, for no bound, where there are no flags.
func (w *sharedWork) memory() *rendering.Memory {
	if w == nil {
		return nil
	}
	w.prepare()
	return w.kept
}

func (w *sharedWork) prepare() {
	w.once.Do(func() {
		w.pool, w.kept = &worker.Pool{Memory: limit.New(w.bytes, w.bytes)}, rendering.NewMemory(w.results)
	})
}

// store is the one store that the flags describe, since a folder is one store's alone. One that is wrong is an error of
// everything that is fetched.
func (s *sources) store(log logr.Logger) *lazyStore {
	if s.made != nil && *s.made != nil {
		return *s.made
	}
	options, err := s.options(log)
	l := &lazyStore{options: options, err: err, cluster: s.cluster}
	if s.made != nil {
		*s.made = l
	}
	return l
}

// close ends the store, and removes its folder where that is temporary.
func (s *sources) close() {
	if s.made != nil && *s.made != nil {
		(*s.made).close()
	}
}

// refuseCluster has the addresses of a cluster refused by the store that is made with these flags.
func (s *sources) refuseCluster(cfg *rest.Config, log logr.Logger) error {
	client, err := watchsource.NewDynamic(cfg)
	if err != nil {
		return err
	}
	s.cluster = clusternet.New(client, len(s.deny) > 0, log.WithName("source"))
	return nil
}

// reopenAfter is how long after a failure the folder of a store is opened again.
const reopenAfter = 5 * time.Second

// lazyStore opens its folder when something is fetched for the first time, so that a manager without any source needs none. A folder that cannot
// be opened, such as on a volume that is full or not mounted yet, is opened again after a pause.
type lazyStore struct {
	options source.Options
	// cluster is the cluster whose addresses are refused; nil for none.
	cluster *clusternet.Addresses

	mu    sync.Mutex
	store *source.Store
	// err is why it is never opened: the flags are wrong, or it is closed.
	err error
	// failed is why it could not be opened, until when it is opened again.
	failed    error
	again     time.Time
	temporary bool
}

// Fetch implements origin.Fetcher.
func (l *lazyStore) Fetch(ctx context.Context, r source.Request) (*source.Artifact, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	return store.Fetch(ctx, r)
}

// FetchChart implements origin.Fetcher.
func (l *lazyStore) FetchChart(ctx context.Context, r source.ChartRequest) (*source.Artifact, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	return store.FetchChart(ctx, r)
}

// Unpack implements origin.Fetcher.
func (l *lazyStore) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	return store.Unpack(ctx, name, data)
}

func (l *lazyStore) open() (*source.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.store != nil || l.err != nil:
		return l.store, l.err
	case time.Now().Before(l.again):
		return nil, l.failed
	}
	if l.failed = l.openFolder(); l.failed != nil {
		l.again = time.Now().Add(reopenAfter)
		l.options.Log.Error(l.failed, "The folder of --source-dir cannot be opened, and is opened again after a pause", "pause", reopenAfter.String())
	}
	return l.store, l.failed
}

func (l *lazyStore) openFolder() error {
	if l.options.Dir == "" {
		dir, err := os.MkdirTemp("", "mlkeeper-sources-")
		if err != nil {
			return source.FolderError(err)
		}
		l.options.Dir, l.temporary = dir, true
	}
	store, err := source.New(l.options)
	if err != nil {
		return fmt.Errorf("open the folder of --source-dir: %w", err)
	}
	l.store = store
	return nil
}

// close ends the store, if it was opened.
func (l *lazyStore) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil {
		_ = l.store.Close()
	} else if l.err == nil {
		l.err = errors.New("the store of sources is closed")
	}
	if l.cluster != nil {
		l.cluster.Close()
	}
	if l.temporary {
		_ = os.RemoveAll(l.options.Dir)
	}
}
