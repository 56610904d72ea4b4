// Package kuttl runs test cases in the format of kuttl (https://kuttl.dev) on a cluster of package cluster: numbered
// files with objects to apply, to assert and to find absent, TestStep with delete, TestAssert with timeout, and
// templates (*.gotmpl.yaml) with .Namespace and .Vars. It exists because kuttl's own module does not resolve here; the
// cases are meant to run with kuttl's own command too, so that what the runner does not know it refuses, and it adds
// nothing of its own.
package kuttl
