// Package tfserv tests the controller of Tfserv on a real control plane, with the manifests of the tutorial. It holds tests only.
package tfserv
