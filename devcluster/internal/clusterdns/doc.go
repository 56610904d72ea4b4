// Package clusterdns is a stand-in for the name server of a cluster, which
// would be CoreDNS. It answers what pods ask for in order to find Services:
// addresses of Services, of the endpoints of headless ones, and of pods with a
// hostname in these. Everything else does not exist: it asks no other server,
// so a pod cannot find anything outside the cluster by name.
//
// Answering is pure (a question and a Zone in, an answer out); the server keeps
// the Zone from watches.
package clusterdns
