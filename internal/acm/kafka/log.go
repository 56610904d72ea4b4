package kafka

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog is the log of a client of Kafka: what it tries again by itself, such as a connection that is refused or credentials that are
// not taken, is told by nothing else. The client tries several times a second, so that each kind of message comes once in quietly.
type clientLog struct {
	log logr.Logger
	mu  sync.Mutex
	// said is when each message came last. Messages are constant texts of the client, and so are bounded.
	said map[string]time.Time
}

// quietly is how long a message of a client is not repeated.
const quietly = time.Minute

func newClientLog(log logr.Logger) *clientLog {
	return &clientLog{log: log, said: map[string]time.Time{}}
}

// Level implements kgo.Logger.
func (*clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l *clientLog) Log(_ kgo.LogLevel, message string, pairs ...any) {
	l.mu.Lock()
	last, before := l.said[message]
	now := time.Now()
	tell := !before || now.Sub(last) >= quietly
	if tell {
		l.said[message] = now
	}
	l.mu.Unlock()
	if tell {
		l.log.Info("the Kafka client: "+message, pairs...)
	}
}
