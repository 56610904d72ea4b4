// Package health turns one observed object into a health: whether it does what it declares, is on its way, or needs
// somebody's hand.
//
// The package owns the rules and nothing else. It is pure: it has no client, no clock (see Result.At) and no memory, and it never
// changes the object it is given, so the same object always has the same health. It never decides what to do about a
// health; gates, status and events belong to the engine.
//
// The vocabulary is that of kstatus (github.com/fluxcd/cli-utils, pkg/kstatus), and the tests hold the rules against that
// library wherever both agree on the meaning. The library is not called in production because its messages carry
// counters, its pod rule reads the wall clock and asserts types which a hostile object can break, and it takes several
// states for current which are not: a failed Pod, an OnDelete StatefulSet without a single ready Pod, a load balancer
// without an address.
//
// Rules for built-in kinds were read from the controllers of Kubernetes 1.36 and the API types of k8s.io/api 0.37. For
// everything else, custom.go documents one generic order, and one small table of the kinds whose controllers always
// report a condition.
//
// A value of the wrong type reads as absent. A status or a list of conditions of the wrong type makes the health Unknown.
package health
