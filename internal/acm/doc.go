// Package acm is the participant's side of the protocol of ONAP CLAMP automation composition management (ACM): the messages
// of every runtime from London to the current master, and what a participant decides about them.
//
// It owns decoding (lenient, since each release adds fields), the superset envelopes that every release accepts, and the pure
// state machine Handle: (state, message) to effects. It knows no broker, no cluster and no clock: the transports are in kafka/
// and dmaap/, and who stores and sends what is decided here is package participant.
//
// Facts cite the ACM participant protocol of onap/policy-clamp, branches london to master.
package acm
