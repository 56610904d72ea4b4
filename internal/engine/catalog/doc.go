// Package catalog knows which APIs the cluster serves: the built-in ones by discovery, those of CustomResourceDefinitions and
// aggregated APIServices by watches. It owns this discovery cache and the two watches. It never writes to the cluster, and
// reads nothing in the steady state.
package catalog
