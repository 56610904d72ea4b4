// Package acmruntime stands in for ONAP's ACM runtime, policy-clamp-runtime-acm 9.1.0: it commissions, primes, instantiates and gives
// every order that its REST API has, supervises participants, and takes from them what the original takes. It shares nothing with the
// product: messages, states and the Kafka client are its own, written from the sources of policy/clamp (tag 9.1.0; branch london and
// commit 5662a4a14 of master for what these say differently) and judged by the recordings in test/testdata/acm-9.1.0 and
// acm-master.
//
// It is stricter than the original in one way: what a participant says wrongly is kept as a fault, where the original logs it and goes
// on. See Runtime.Faults.
package acmruntime
