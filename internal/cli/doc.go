// Package cli holds the subcommands of mlkeeper other than the manager: render, diff, status, tree, wait, explain, check, unwire,
// hand-back, rbac and version. They work on all controllers alike, through controller.Any, and import none; what belongs to a
// custom resource whose controller they do not have they find by its labels, inventory and Inventories.
//
// Invariants: only unwire and hand-back write to a cluster (diff asks for dry runs, which are not stored); no command prints the values
// of a Secret unless it is told to; text that comes from a cluster or a file never reaches a terminal with control
// characters in it.
package cli
