// Package engine is the loop that every kind shares: gather, render, decide, act, report. It owns the queues, the
// watches, Inventories, gates, conditions and metrics of all controllers, and every write to the cluster goes
// through it. It knows no controller: a controller registers itself with a definition and three functions (package controller), and the
// engine never imports one.
package engine
