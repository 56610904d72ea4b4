package tenants

import "strings"

const (
	deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: "
	podSpec    = deployment + "{name: d, namespace: NS, OWNED}\n" +
		"spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {MORE containers: [{name: c, image: c}]}}}\n"
)

// deployments are Deployments of others that are there already, and have access to their node.
const deployments = "---\n" + deployment + "{name: theirs, namespace: NS}\n" +
	"spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {volumes: [{name: v, hostPath: {path: /data}}], " +
	"initContainers: [{name: i, image: c, securityContext: {privileged: true}}], " +
	"containers: [{name: c, image: c, securityContext: {capabilities: {add: [SYS_PTRACE]}}}]}}}\n" +
	"---\n" + deployment + "{name: network, namespace: NS}\n" +
	"spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" +
	"hostNetwork: true, containers: [{name: c, image: c}]}}}\n"

// pods is a Deployment of the operator's with more in the spec of its pods.
func pods(more string) string {
	return strings.NewReplacer("OWNED", owned("NS"), "MORE", more).Replace(podSpec)
}

// secured is a Deployment of the operator's whose container has a security context.
func secured(context string) string {
	return strings.Replace(pods(""), "image: c", "image: c, securityContext: {"+context+"}", 1)
}

// adopted is a change of the spec of the pods of a Deployment that is there already, by a custom resource that adopts it.
func adopted(name, spec string) try {
	return replace(deployment + "{name: " + name + ", namespace: NS, " + owned("NS") + "}\nspec: {template: {spec: {" + spec + "}}}\n")
}

// ofTfserv has the Deployment of a Tfserv in place of that of a TrustyAIService.
func ofTfserv(manifest string) string {
	return strings.Replace(manifest, "TrustyAIService.trustyai.opendatahub.io/", "Tfserv.servapi.dev-state.com/", 1)
}

// nodes are Deployments with access to their node.
func nodes() []attempt {
	return []attempt{
		{"workloads", "create pods in the network of their node", create(pods("hostNetwork: true,"))},
		{"workloads", "create pods with the processes of their node", create(pods("hostPID: true,"))},
		{"workloads", "create pods with the memory of their node", create(pods("hostIPC: true,"))},
		{"workloads", "create pods with the files of their node", create(pods("volumes: [{name: v, hostPath: {path: /}}],"))},
		{"workloads", "create a privileged container", create(secured("privileged: true"))},
		{"workloads", "create a privileged init container", create(pods("initContainers: [{name: i, image: c, securityContext: {privileged: true}}],"))},
		{"workloads", "create a container with a capability of the node", create(secured("capabilities: {add: [SYS_ADMIN]}"))},
		{"workloads", "create a container with all capabilities", create(secured("capabilities: {add: [all]}"))},
		{"workloads", "create pods of a Tfserv with the processes of their node", create(ofTfserv(pods("hostPID: true,")))},
		{"workloads", "add the processes of the node", adopted("theirs", "hostPID: true")},
		{"workloads", "add files of the node", adopted("theirs", "volumes: [{name: w, hostPath: {path: /}}]")},
		{"workloads", "take other files of the node", adopted("theirs", "volumes: [{name: v, hostPath: {path: /}}]")},
		{"workloads", "make another container privileged", adopted("theirs", "containers: [{name: c, image: c, securityContext: {privileged: true}}]")},
		{
			"workloads", "add a capability",
			adopted("theirs", "containers: [{name: c, image: c, securityContext: {capabilities: {add: [SYS_PTRACE, SYS_ADMIN]}}}]"),
		},
		{"workloads", "run pods as processes of a Windows node", adopted("network", "securityContext: {windowsOptions: {hostProcess: true, runAsUserName: u}}")},
		{
			"workloads", "run a container as a process of a Windows node",
			adopted("network", "containers: [{name: c, image: c, securityContext: {windowsOptions: {hostProcess: true, runAsUserName: u}}}]"),
		},
	}
}

// ordinary are Deployments that the operator writes.
func ordinary() map[string]try {
	return map[string]try{
		"keep what a Deployment had": adopted("theirs", "initContainers: [{name: i, image: d, securityContext: {privileged: true}}], "+
			"containers: [{name: c, image: d, securityContext: {capabilities: {add: [SYS_PTRACE]}}}], volumes: [{name: v, hostPath: {path: /data}}]"),
		"keep the network that a Deployment had":                      adopted("network", "hostNetwork: true, containers: [{name: c, image: d}]"),
		"mount files of the node that a Deployment had":               adopted("theirs", "volumes: [{name: w, hostPath: {path: /data}}]"),
		"create a container with capabilities that stay in its pod":   create(secured("capabilities: {add: [NET_BIND_SERVICE, IPC_LOCK]}")),
		"create a privileged container that a Tfserv asks for":        create(ofTfserv(secured("privileged: true"))),
		"create a container with a capability that a Tfserv asks for": create(ofTfserv(secured("capabilities: {add: [SYS_ADMIN]}"))),
	}
}
