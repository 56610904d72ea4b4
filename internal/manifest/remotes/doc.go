// Package remotes replaces the addresses in kustomizations by paths, before kustomize sees them. It owns which addresses there may be,
// finds them in everything that a kustomization reaches, has each fetched, and goes on in what was fetched.
//
// It is pure but for the function that fetches, and never changes a repository: the result is a file system of the repository, what
// was fetched and the kustomizations that were written anew.
package remotes
