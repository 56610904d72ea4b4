// Package kserve is the controller of CompositionElement: the InferenceServices that elements of ONAP automation compositions
// declare, as the Kserve participant of policy/clamp made them, without its defects.
//
// Invariants:
//   - The controller knows nothing of messages and brokers: what is ordered is in the spec, and how it ended goes into the status.
//     Package participant writes the one and tells the runtime of the other.
//   - Nothing but InferenceServices is ever rendered, whatever a payload holds, and only for namespaces that take orders, unless the
//     element runs them already.
//   - What somebody else made becomes an element's by a mark on it, and never because a message says so.
//   - An update or a migration that fails goes back to what ran before.
package kserve
