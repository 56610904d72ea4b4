package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// maxVisitors bounds the tokens that are remembered at once, and maxTokens those of one user: who can have many tokens, as who may create
	// those of ServiceAccounts can, locks nobody else out.
	maxVisitors = 64
	maxTokens   = 4
	// maxLogins bounds the tokens that are tried at once, since each is a request to the API server.
	maxLogins = 4
	// forgetAfter is how long a user is remembered who asks for nothing.
	forgetAfter = 10 * time.Minute
)

// ErrUnauthorized is among the errors of a Source, and of a Login, whose credentials the API server does not take, or no longer.
var ErrUnauthorized = errors.New("the API server does not accept the credentials: log in again")

// Login returns whose a bearer token is, by the name that the API server has for the user, and what there is to show with its rights.
type Login func(ctx context.Context, token string) (user string, source Source, err error)

// visitor is who asks: what there is to show with their rights, and what they look at.
type visitor struct {
	source Source
	feeds  *feeds

	mu      sync.Mutex
	streams int
}

func newVisitor(ctx context.Context, source Source) *visitor {
	return &visitor{source: source, feeds: &feeds{ctx: ctx, open: map[string]*openFeed{}}}
}

// enter counts a stream.
func (v *visitor) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.streams >= maxStreams {
		return false
	}
	v.streams++
	return true
}

func (v *visitor) exit() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.streams--
}

// idle says that the visitor looks at nothing.
func (v *visitor) idle() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.streams == 0
}

// visitors are users who are known by their own bearer tokens of the cluster. No user sees what was read with the rights of another.
type visitors struct {
	ctx   context.Context
	login Login
	// logins has an element for each token that is being tried.
	logins chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]*knownVisitor
}

// knownVisitor is one of them.
type knownVisitor struct {
	*visitor
	// account is whose token it is.
	account string
	used    time.Time
	cancel  context.CancelFunc
}

func newVisitors(ctx context.Context, login Login) *visitors {
	return &visitors{ctx: ctx, login: login, logins: make(chan struct{}, maxLogins), known: map[[sha256.Size]byte]*knownVisitor{}}
}

// of returns the visitor of a token, which the API server is asked about the first time.
func (all *visitors) of(ctx context.Context, token string) (*visitor, error) {
	if token == "" {
		// Without a token the API server would answer as it does to anybody.
		return nil, ErrUnauthorized
	}
	key := sha256.Sum256([]byte(token))
	if v := all.find(key); v != nil {
		return v, nil
	}
	select {
	case all.logins <- struct{}{}:
		defer func() { <-all.logins }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	user, source, err := all.login(ctx, token)
	if err != nil {
		return nil, err
	}
	return all.add(key, accountOf(user), source)
}

// accountOf is what the tokens of a user count for. Those of ServiceAccounts count for their namespace, in which one user may create any
// number of them. Their names are those of Kubernetes' own users (kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin).
func accountOf(user string) string {
	const prefix = "system:serviceaccount:"
	if rest, found := strings.CutPrefix(user, prefix); found {
		namespace, _, _ := strings.Cut(rest, ":")
		return prefix + namespace
	}
	return user
}

// find returns a visitor who is known, and forgets those who have not asked for long.
func (all *visitors) find(key [sha256.Size]byte) *visitor {
	all.mu.Lock()
	defer all.mu.Unlock()
	if one := all.known[key]; one != nil {
		one.used = time.Now()
	}
	for key, one := range all.known {
		if one.idle() && time.Since(one.used) > forgetAfter {
			all.drop(key)
		}
	}
	if one := all.known[key]; one != nil {
		return one.visitor
	}
	return nil
}

// add remembers a visitor, in place of the one who has not asked for longest where there are too many, of the same account or of all.
func (all *visitors) add(key [sha256.Size]byte, account string, source Source) (*visitor, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if one := all.known[key]; one != nil {
		return one.visitor, nil
	}
	own := func(one *knownVisitor) bool { return one.account == account }
	if !all.room(maxTokens, own) {
		return nil, fmt.Errorf("more than %d tokens of %s look at the console: close some of its pages", maxTokens, account)
	}
	if !all.room(maxVisitors, func(*knownVisitor) bool { return true }) {
		return nil, fmt.Errorf("more than %d tokens look at the console: try again later", maxVisitors)
	}
	ctx, cancel := context.WithCancel(all.ctx)
	one := &knownVisitor{visitor: newVisitor(ctx, source), account: account, used: time.Now(), cancel: cancel}
	all.known[key] = one
	return one.visitor, nil
}

// room makes room for one more of some visitors, of whom there may be a number, and says whether there is.
func (all *visitors) room(limit int, of func(*knownVisitor) bool) bool {
	count := 0
	var oldest *knownVisitor
	var its [sha256.Size]byte
	for key, one := range all.known {
		if !of(one) {
			continue
		}
		count++
		if one.idle() && (oldest == nil || one.used.Before(oldest.used)) {
			oldest, its = one, key
		}
	}
	if count < limit {
		return true
	}
	if oldest != nil {
		all.drop(its)
	}
	return oldest != nil
}

// forget forgets a visitor whose token is not accepted any more.
func (all *visitors) forget(v *visitor) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for key, one := range all.known {
		if one.visitor == v {
			all.drop(key)
		}
	}
}

// drop ends what a visitor looks at.
func (all *visitors) drop(key [sha256.Size]byte) {
	all.known[key].cancel()
	delete(all.known, key)
}
