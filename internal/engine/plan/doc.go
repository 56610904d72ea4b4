// Package plan holds what a controller renders: the desired objects of one custom resource in stages, and the problems that
// stand in the way. It is the contract between the controllers and the engine. It owns no logic but naming, digests and the
// marks that every child carries, and never touches a cluster.
package plan
