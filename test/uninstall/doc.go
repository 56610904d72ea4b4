// Package uninstall shows that MLKeeper goes without a trace: in every order of {custom resource, operator,
// CustomResourceDefinitions, namespace}, and with one kubectl delete of install.yaml, nothing hangs and nothing is left
// but what is kept on purpose. docs/uninstall.md tells users the same.
package uninstall
