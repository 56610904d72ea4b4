// Package origin reads what the sources of a custom resource refer to in its namespace: archives that are in ConfigMaps and
// Secrets, for clusters without a network, and what the server of a source asks for. It reads through the engine's Reader and
// never writes; fetching is internal/source's.
package origin
