package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"mlkeeper.dev/internal/source"
)

// sources are the flags of what is fetched.
type sources struct {
	dir               string
	bytes, maxArchive int64
	maps, allow, deny []string
}

func (s *sources) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.dir, "source-dir", "", "folder that keeps fetched archives; a temporary one when empty")
	flags.Int64Var(&s.bytes, "source-bytes", 4<<30, "how many bytes it keeps; what was used longest ago goes first")
	flags.Int64Var(&s.maxArchive, "source-max-archive", 200<<20, "how many bytes an archive may have, compressed")
	flags.StringArrayVar(&s.maps, "source-map", nil,
		"FROM=TO: fetch what begins with FROM from TO instead, such as a mirror; repeatable")
	flags.StringSliceVar(&s.allow, "source-allow-cidr", nil,
		"addresses that may be fetched from although they are loopback, link-local or denied")
	flags.StringSliceVar(&s.deny, "source-deny-cidr", nil,
		"addresses that may not be fetched from: the ranges of the cluster's Services and pods")
}

// options reads the flags.
func (s *sources) options(log logr.Logger) (source.Options, error) {
	out := source.Options{Dir: s.dir, Bytes: s.bytes, Limits: source.Limits{Archive: s.maxArchive}, Log: log.WithName("source")}
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
	out.Allow, out.Deny = prefixes("--source-allow-cidr", s.allow), prefixes("--source-deny-cidr", s.deny)
	return out, failed
}

// lazyStore opens its folder when something is fetched for the first time, so that a manager without any source needs
// none.
type lazyStore struct {
	options source.Options

	once  sync.Once
	store *source.Store
	err   error
}

// Fetch implements kubeflow.Fetcher.
func (l *lazyStore) Fetch(ctx context.Context, r source.Request) (*source.Artifact, error) {
	l.once.Do(func() {
		if l.options.Dir == "" {
			if l.options.Dir, l.err = os.MkdirTemp("", "mlkeeper-sources-"); l.err != nil {
				return
			}
		}
		l.store, l.err = source.New(l.options)
	})
	if l.err != nil {
		return nil, fmt.Errorf("open the folder of --source-dir: %w", l.err)
	}
	return l.store.Fetch(ctx, r)
}
