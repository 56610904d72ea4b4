// Package monitoring makes the alert rules and the dashboard of MLKeeper from the metrics that are registered in the
// binary: every name and label of a query is looked up there, so that none can be misspelt or outlive its metric. It owns
// no metric and never talks to a cluster.
package monitoring
