// Package servicemonitors judges the ServiceMonitors that MLKeeper renders by those who read them: the Prometheus operator selects
// them and generates Prometheus' configuration, and Prometheus loads it, finds the targets through an API server that has the
// rendered Services, and scrapes them. Nothing of either is written anew here; what plays the cluster is the API server's half of
// a list, and pods that answer where the rendered Deployment says so.
package servicemonitors
