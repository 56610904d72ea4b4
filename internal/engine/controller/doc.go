// Package controller is what a system implements to live in the engine: it gathers facts, renders them into a plan, and
// projects what was observed onto the status of its custom resource. A controller never writes to the cluster. The package
// holds the contract only; the engine drives it.
package controller
