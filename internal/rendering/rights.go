package rendering

import "mlkeeper.dev/internal/engine/controller"

// Rules are the rights of a controller that fetches sources. The addresses of the cluster are refused to sources (package clusternet).
func Rules() []controller.Rule {
	return []controller.Rule{
		{
			Resources: []string{"nodes"}, Verbs: []string{"list", "watch"},
			Why: "Sources are not fetched from the addresses of nodes, pods and Services. The Service of the API server tells those of Services " +
				"where the cluster serves no ServiceCIDRs.",
		},
		{Group: "networking.k8s.io", Resources: []string{"servicecidrs"}, Verbs: []string{"list", "watch"}},
		{Resources: []string{"services"}, Names: []string{"kubernetes"}, Verbs: []string{"get"}},
	}
}
