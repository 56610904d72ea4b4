// Package enclosure runs a cluster with a real node apart from the machine: in
// network, mount and process namespaces of its own.
//
// A kubelet leaves much behind: bridges and iptables rules, mounts, shims and
// containers. Here the kernel removes all of it when the first process of the
// enclosure ends, however it ends, and ends that process when the one outside
// does. What is not part of a namespace is removed by the process outside: the
// control groups.
//
//	devcluster up          outside: holds the lock and the API server's port
//	  devcluster (init)    furnishes the namespaces, collects dead processes
//	    devcluster         the supervisor, as without an enclosure
//	      kube-apiserver, containerd, kubelet ...
//	    containers
//
// The only way in is the listening socket that is inherited from outside.
package enclosure
