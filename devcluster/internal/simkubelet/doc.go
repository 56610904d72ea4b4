// Package simkubelet plays the kubelets of the simulated nodes. No container runs, but a pod reaches the API server as a
// kubelet reports it: what it refers to is resolved, it takes time, it can fail, and it is Ready only when everything
// that a kubelet asks for is there.
//
// Simulated, after the sources of the Kubernetes release that go.mod pins:
//
//   - Volumes are set up before any container starts: Secrets and ConfigMaps with the keys of their items, projected
//     sources, the token of the ServiceAccount, claims that are Bound. What is missing leaves the containers in
//     ContainerCreating, with the event FailedMount. The pod continues when the missing object appears.
//   - A claim whose volume is ReadWriteOnce or ReadWriteOncePod is attached to one node. A pod on another one waits for the
//     last pod there, with the event FailedAttachVolume. It is the attach-detach controller that says so in a cluster with
//     attachable volumes. The scheduler, which is real here, only looks at ReadWriteOncePod, of which it refuses a second pod.
//   - Each container resolves its env and envFrom when it starts, and waits with CreateContainerConfigError until that
//     succeeds, as it does where runAsNonRoot contradicts runAsUser. A missing image pull secret is an event, as of a kubelet.
//   - Init containers run one after the other, those with restartPolicy Always beside what follows; containers of a Job's
//     pod end, all others run on.
//   - Startup and readiness probes succeed after a while. Readiness gates are left to whoever sets their conditions.
//   - A deleted pod runs for a moment, its containers end, and then it goes. Finalizers hold it.
//   - The containers of a pod that somebody else made Failed or Succeeded end. Its volumes and its address are free then, as those
//     of every pod that has ended.
//   - Nodes are Ready, of the size that their status says, and renew their leases.
//
// The seconds of a pod (initialDelaySeconds of its probes, the back-off between restarts) pass a hundred times as fast. A probe
// succeeds after 50 to 200 ms, periodSeconds and failureThreshold notwithstanding; a pod needs 50 ms for its first container and
// as much for each init container, for its end, and for the work of a Job. So a pod of one container is Ready half a second
// after it was scheduled at the latest, if nothing is missing.
//
// The annotation devcluster.mlkeeper.dev/fail on a pod or its template makes it fail. Its value is one of
//
//   - Error: the container ends with exit code 1 whenever it was started. By the restart policy of the pod, it is
//     restarted with growing pauses (CrashLoopBackOff), or the pod is Failed.
//   - ImagePullBackOff: the image cannot be pulled.
//   - Unready: the readiness probe fails.
//
// and may name a container: "Error/migrate". Without a name it is meant for all containers but the init containers. The
// annotation can be set and removed at any time; what runs already is not asked for its image again.
//
// Not simulated: processes, and so logs, exec, ports and the answers of probes; liveness probes, lifecycle hooks and
// ephemeral containers; whether an image exists, what is in it, and as which user it runs; normal events of a pod (Pulled,
// Created, Started); changes of the Secrets and ConfigMaps under a running pod; eviction, resources of a node in use, static pods
// and the admission of a kubelet. The time after which a kubelet tries again what was missing is not waited for.
//
// A pod annotated with devcluster.mlkeeper.dev/kubelet: "off" is left alone, as by a node that no longer answers.
package simkubelet
