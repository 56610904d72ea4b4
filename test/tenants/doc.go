// Package tenants shows on a real control plane what the operator cannot be made to do: by its own ServiceAccount, against the policies of
// config/admission, and by tenants, who write whatever their rights allow.
package tenants
