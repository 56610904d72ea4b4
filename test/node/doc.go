// Package node tests the operator on a real node: it runs as a pod from its own
// image with the rights of config/install.yaml, and pods of a stand-in for the
// TrustyAI service run beside it. The test boots devcluster with --node=real,
// which needs root and some packages of the distribution, so it has a build tag
// and a target of its own: make test-node. docs/real-node.md tells the rest.
package node
