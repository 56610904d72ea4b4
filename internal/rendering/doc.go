// Package rendering renders what the sources of custom resources hold, in the background: it fetches the sources, has the
// controller render them, and converts what the cluster no longer serves. A result is cached by what is declared and by what the
// cluster served. The last one stands until there is a newer one, and where there can be none. It never writes to the cluster.
package rendering
