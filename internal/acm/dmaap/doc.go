// Package dmaap carries ACM messages over the DMaaP Message Router of ONAP (London and Montreal), by HTTP.
//
// The router counts a record as delivered when it has answered, so that a crash between the answer and the cluster loses what
// the answer held. One record is asked for at a time, so that it is never more than one, which the runtime shows as a TIMEOUT.
package dmaap
