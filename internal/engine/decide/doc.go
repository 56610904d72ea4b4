// Package decide is the engine's judgement: from a plan and what was observed it decides, without any side effect,
// what to do with every object. It owns the order of actions, gates, pruning and the test of drift; it never reads or
// writes a cluster, and takes neither clock nor randomness, so that it can be explored exhaustively.
package decide
