// devcluster is a real Kubernetes control plane in one binary: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler at the release that
// go.mod pins, with simulated kubelets, and a stand-in for the third-party
// controllers that the operator meets. It is built with
//
//	go build -o ../bin/devcluster .
//
// and needs nothing else at run time: no container engine, no download, no root.
// With --node=real a kubelet and kube-proxy, which are in the binary as well, run
// pods with the machine's containerd; that does need root.
// No linker flags are needed either; internal/version stamps the release.
//
// The binary is every one of its components: it starts itself again with a
// hidden first argument, so that a single component can be stopped, killed and
// started while the rest runs. It has its own Go module to keep the replace
// lines that k8s.io/kubernetes needs away from the operator's go.mod.
//
// Packages:
//
//	internal/component  names, command lines and entry points of the processes
//	internal/cluster    boot, supervision, state file, control socket, removal
//	internal/catalog    third-party CRDs
//	internal/standin    plays the controllers of some of them
//	internal/simkubelet plays the kubelets of simulated nodes
//	internal/health     endpoint of the components that are devcluster's own
//	internal/enclosure  namespaces of its own for a cluster with a real node
//	internal/clusterdns stand-in for the name server of a real node
//	internal/image      images of one static binary
//	internal/pause      the program that holds a pod's namespaces
//	internal/cli        the command line, kubectl included
//	internal/version    the Kubernetes version stamp
//
// It is for development and tests. Anybody with an account on the machine can
// reach its etcd, which asks for no credentials, and pods do not really run
// unless the node is a real one.
package main
