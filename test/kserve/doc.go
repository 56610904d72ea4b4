// Package kserve tests the KServe participant on a real control plane, with a stand-in for the ACM runtime on the other side of a real
// broker protocol: franz-go's in-process broker, and a Message Router written for the test. The controller of KServe is played by
// the devcluster's stand-in.
package kserve
