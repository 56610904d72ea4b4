// Package acmruntime is a small ACM runtime for tests and the demo: it commissions, primes, instantiates, deploys and undeploys
// automation compositions with the messages of the real one, in the form of London or of the current master. It is no
// replacement for ONAP's: it keeps nothing, checks little, and times out what a test says is late.
package acmruntime
