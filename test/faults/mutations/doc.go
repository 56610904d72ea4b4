// Package mutations holds mutations, and finds out which of them the fault campaigns of package faults, or the tests that a bug
// names, catch: a test that is green says nothing until it is known what would have turned it red.
//
// A bug is a patch to product code in the folder bugs, small and of the kind that a good engineer makes on a bad day.
// README.md tells how to run the mutation tests and how to add a mutation.
package mutations
