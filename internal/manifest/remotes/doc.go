// Package remotes replaces the addresses in kustomizations by paths, before kustomize sees them. It owns which addresses there may be,
// finds them in everything that a kustomization reaches, has each fetched, and goes on in what was fetched.
//
// Kustomizations are read by workers alone. A worker goes as far as everything that it needs was fetched, and ends with what is missing;
// its caller fetches that and has another one go on, so that no worker waits for a server. The package never changes a repository: the
// result is a file system of the repository, what was fetched and the kustomizations that were written anew.
package remotes
