// Package worker runs what renders files of users in processes of their own: workers, which are started from the same binary. Templates and
// kustomizations are programs: nothing within a process can stop one that goes on for ever, or bound what it takes, and memory that runs
// out ends the process that it runs out in.
//
// A worker has bounds on memory, processor time and output. It has its three standard streams and can open nothing else: no file, no
// connection, no program. Of the environment it inherits nothing. It asks whoever started it for everything that it needs, one request
// after the other. The package owns the processes, their bounds and the exchange; it knows nothing of what is rendered.
package worker
