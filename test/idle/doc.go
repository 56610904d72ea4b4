// Package idle shows what the operator does when there is nothing to do, which is nothing, and how soon it acts when
// somebody deletes or changes a child. MLKEEPER_IDLE sets for how long it looks on; 15m is what the project promises.
package idle
