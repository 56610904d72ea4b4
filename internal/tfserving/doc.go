// Package tfserving is the controller of Tfserv (servapi.dev-state.com): TensorFlow Serving as the tutorial operator's users
// declare it, with the names, ports, arguments and mounts of the tutorial, and without its defects.
//
// Invariants:
//   - Everything rendered lives in the namespace of the custom resource and is owned by it.
//   - Render is pure. What the model servers say is asked in the background while gathering, and is a fact.
//   - A model config that TensorFlow Serving would refuse never reaches a pod template: the Deployment is then left out of
//     the plan together with a problem, and the engine prunes nothing while there is one.
//   - A canary has objects of its own: what they lack takes nothing from Ready, and the routes alone lead to them.
//   - Fields that others fill (nodePorts, clusterIP, replicas under a HorizontalPodAutoscaler) are not declared.
package tfserving
