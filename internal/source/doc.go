// Package source fetches the archives of manifests that custom resources name, and keeps them unpacked on disk, once per
// content. It reads gzipped tars over HTTP, git repositories and OCI artifacts, and unpacks archives that come inline.
//
// Everything here is hostile: the URIs, the servers, what they redirect to and what they send. Limits bound size, time,
// entries and redirects; addresses are checked when they are connected to; no link is ever created or followed; and
// nothing is written outside the store's folder. Messages name hosts and paths, but never credentials, the query of a URL
// or what a server said.
//
// The package writes to no cluster and reads no Secret: its callers bring credentials and decide who may use them. A
// tree is found by its content, so a caller must open only identifiers that it got from Fetch or Unpack itself, never one
// that a user wrote.
package source
