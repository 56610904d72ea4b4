// Package kustomize renders the applications of a KfDef as kfctl v1.2 did, with today's kustomize in place of the one of
// 2019, or as kustomize build does. It owns which of the two a KfDef means, the choice between kfctl's two modes, the merge of base
// and overlays, params.env, and what has to be changed in trees of that time so that kustomize accepts them. For kustomize build
// nothing is changed.
//
// It is pure: the repositories come in as read-only file systems, the same input gives the same objects in the same
// order, and nothing outside of those file systems is read. No address is ever fetched: a kustomization that refers to one is an error
// of its application. It renders in processes of package worker, which bound what that takes. It never touches a cluster.
package kustomize
