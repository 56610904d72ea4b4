// Package catalog knows which APIs the cluster serves: the built-in ones by discovery, those of
// CustomResourceDefinitions and aggregated APIServices by watches. It owns that knowledge and the two watches; it never
// writes to the cluster, and in the steady state it reads nothing.
package catalog
