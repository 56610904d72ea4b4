// Package component knows the processes that make up a devcluster: what each
// one is called, how its command line is rendered, how its health is asked, and
// how the multi-call binary becomes it.
//
// Rendering is pure (a Spec in, arguments out), so that it is tested without a
// process. Everything listens on the loopback address and nothing else, but for
// what pods of a real node must reach, in the network namespace of that node.
package component
