// Package seldon keeps the Seldon stack that a SeldonOperator declares: Seldon Core, Seldon Deploy, and what is switched on
// besides, from their own charts, wired together as Seldon's meta-operator did.
//
//   - components.go is the table of the charts, overlay.go the values that each switch sets; a user's values always win.
//   - keys.go keeps generated credentials: passwords, an authority and its certificates, and renews them before they expire.
//   - gather.go puts together what job.go renders in the background (internal/rendering).
//   - render.go, objects.go and status.go put it into stages and tell of it.
//
// It never writes to the cluster, and it knows no other controller.
package seldon
