// Package cli holds the subcommands of mlkeeper other than the manager: render, status, unwire, rbac and version. They
// work on all rooms alike, through room.Any, and import none.
//
// Invariants: only unwire writes to a cluster; no command prints the values of a Secret unless it is told to; text that
// comes from a cluster or a file never reaches a terminal with control characters in it.
package cli
