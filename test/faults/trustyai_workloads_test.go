package faults

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/trustyai"
)

const newImage, oldImage = "quay.io/trustyai/trustyai-service:v0.27.0", "quay.io/trustyai/trustyai-service:v0.26.0"

// What the workloads begin with: a service of each shape, with what it needs and with others' objects that it is wired
// into.
var (
	plain    = []Step{apply("create", plainVolume+meshConfig+model+plainService, wired)}
	secured  = []Step{apply("create", securedVolume+model+securedService, wired)}
	full     = []Step{apply("create", securedVolume+model+fullService, wired)}
	database = []Step{apply("create", credentials+databaseService, nil)}
)

// whatUsersAskFor are the children that full has beside those of create-secured.
var whatUsersAskFor = regexp.MustCompile(`^(ingresses|httproutes|backendtlspolicies|poddisruptionbudgets)\.|-gateway-ca$`)

// trustyAIWorkloads are what users do with a TrustyAIService.
func trustyAIWorkloads() []Workload {
	return slices.Concat(creations(), updates(), deletions(), referenced(), shapes(), adoptions())
}

// creations end with what C5 lets others change.
func creations() []Workload {
	return []Workload{
		{Name: "create-plain", Short: true, Steady: true, Steps: plain},
		{Name: "create-secured", Short: true, Steady: true, Steps: secured},
		{Name: "full", Steady: true, Stands: whatUsersAskFor, Steps: full},
		{Name: "create-database", Steady: true, Steps: database},
		{
			Name: "collide", Setup: plain, Steps: []Step{
				apply("another of the same child names", strings.Replace(plainService, "name: plain", "name: second", 1),
					condition("second", "Stalled", "True")),
			},
		},
		{
			// The Service of the first that its proxy's certificate is for has the name of the second's own Service. The second
			// is plain, since two Inventories of one stage could not be told apart by names that last.
			Name: "collide-secured", Setup: secured, Steps: []Step{
				apply("one whose name is that of a child", strings.NewReplacer("name: tas", "name: tas-tls", "spec:\n",
					"spec:\n  exposure: Plain\n").Replace(securedService), condition("tas-tls", "Ready", "False", "ResourceConflict")),
			},
		},
	}
}

// updates are changes of a service that exists.
func updates() []Workload {
	limited := strings.Replace(plainService, "spec:\n", "spec:\n  resources: {requests: {cpu: 10m}}\n", 1)
	return []Workload{
		{
			Name: "update-image", Short: true, Setup: plain,
			Steps: []Step{patch("image", "plain", `{"spec":{"image":"`+newImage+`"}}`, runs("trustyai-service", newImage))},
		},
		{
			Name: "update-image-secured", Setup: secured,
			Steps: []Step{patch("image", "tas", `{"spec":{"image":"`+newImage+`"}}`, runs("tas", newImage))},
		},
		{
			Name: "scale", Setup: plain, Steps: []Step{
				patch("to 0", "plain", `{"spec":{"replicas":0}}`, replicas("trustyai-service", 0)),
				patch("to 1", "plain", `{"spec":{"replicas":1}}`, replicas("trustyai-service", 1)),
			},
		},
		{
			// A change that can never work, and its cure, which nothing may hold back.
			Name: "mend", Same: "create-plain", Setup: plain, Steps: []Step{
				patch("a node that is not there", "plain", `{"spec":{"scheduling":{"nodeSelector":{"no":"such"}}}}`,
					condition("plain", "Ready", "False")),
				patch("undo", "plain", `{"spec":{"scheduling":null}}`, wired),
			},
		},
		{
			// A field that was in the POST of a child is taken away again.
			Name: "remove-field", Same: "create-plain", Setup: []Step{apply("create", plainVolume+meshConfig+model+limited, wired)},
			Steps: []Step{patch("without resources", "plain", `{"spec":{"resources":null}}`, func(w *World) error {
				u := w.Get("deployments.apps", "trustyai-service")
				if u == nil || strings.Contains(fmt.Sprint(u.Object["spec"]), "10m") {
					return errors.New("the Deployment still asks for resources")
				}
				return wired(w)
			})},
		},
		{
			Name: "immutable", Same: "create-secured", Setup: secured, Steps: []Step{
				patch("grow the claim", "tas", `{"spec":{"storage":{"size":"2Gi"}}}`, condition("tas", "Ready", "False")),
				patch("take it back", "tas", `{"spec":{"storage":{"size":"1Gi"}}}`, nil),
			},
		},
		{
			Name: "suspend", Same: "update-image", Setup: plain, Steps: []Step{
				patch("suspend", "plain", `{"metadata":{"annotations":{"keeper.mlkeeper.dev/suspend":"true"}}}`,
					func(w *World) error { return suspended(w, "plain") }),
				patch("image", "plain", `{"spec":{"image":"`+newImage+`"}}`, func(*World) error { return nil }),
				patch("unsuspend", "plain", `{"metadata":{"annotations":{"keeper.mlkeeper.dev/suspend":null}}}`,
					runs("trustyai-service", newImage)),
			},
		},
		{
			Name: "upgrade", Same: "create-plain", Controller: trustyAIController(oldImage), Setup: plain,
			Steps: []Step{{Name: "upgrade", Do: (*World).Upgrade, Until: runs("trustyai-service", trustyai.DefaultImage)}},
		},
		{
			Name: "upgrade-midway", Same: "create-secured", Controller: trustyAIController(oldImage), Steps: []Step{
				apply("create", securedVolume+model+securedService, func(*World) error { return nil }),
				{Name: "upgrade", Do: (*World).Upgrade, Until: func(w *World) error {
					return errors.Join(runs("tas", trustyai.DefaultImage)(w), wired(w))
				}},
			},
		},
	}
}

// deletions end without the service, or with another of its name.
func deletions() []Workload {
	const config = "model-serving-config"
	made := apply("create", plainVolume+plainService, func(w *World) error {
		if w.Get("configmaps", config) == nil {
			return errors.New("the configuration of ModelMesh is not made yet")
		}
		return w.Ready()
	})
	fill := Step{Name: "fill it", Do: func(w *World) error {
		return w.Patch(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, config, `{"data":{"other":"mine"}}`)
	}, Until: func(*World) error { return nil }}
	return []Workload{
		{Name: "delete-plain", Short: true, Setup: plain, Steps: []Step{remove("plain", leaves("trustyai-service-pvc"))}},
		{Name: "delete-secured", Short: true, Setup: secured, Steps: []Step{remove("tas", leaves("tas-pvc"))}},
		{
			Name: "delete-claim", LosesClaims: true, Setup: append(slices.Clone(secured),
				patch("the claim goes with it", "tas", `{"spec":{"storage":{"retentionPolicy":"Delete"}}}`, wired)),
			Steps: []Step{remove("tas", func(w *World) error {
				if w.Get("persistentvolumeclaims", "tas-pvc") != nil {
					return errors.New("the claim is still there")
				}
				return unwired(w)
			})},
		},
		// What MLKeeper made of others' goes with the service, unless somebody has put something into it.
		{Name: "delete-config", Setup: []Step{made}, Steps: []Step{remove("plain", leaves("trustyai-service-pvc"))}},
		{
			Name: "filled-config", Setup: []Step{made}, Steps: []Step{fill, remove("plain", func(w *World) error {
				if w.Get("configmaps", config) == nil {
					return errors.New("what somebody else put into the configuration is gone")
				}
				return unwired(w)
			})},
		},
		{
			Name: "recreate-plain", Same: "create-plain", Setup: plain, Steps: []Step{
				remove("plain", func(*World) error { return nil }), apply("create again", plainService, wired),
			},
		},
		{
			// What the first left is still there when the second comes, and is not the second's.
			Name: "recreate-lagging", Same: "create-plain",
			Setup: slices.Concat(plain, []Step{{Name: "hold the collector", Do: (*World).HoldCollector}}),
			Steps: []Step{
				remove("plain", func(*World) error { return nil }),
				apply("create again", plainService, condition("plain", "Ready", "False", "ResourceConflict")),
				{Name: "release the collector", Do: (*World).ReleaseCollector, Until: wired},
			},
		},
		{
			Name: "recreate-secured", Same: "create-secured", Setup: secured, Steps: []Step{
				remove("tas", func(*World) error { return nil }), apply("create again", securedService, wired),
			},
		},
	}
}

// referenced are the ways of what a service refers to.
func referenced() []Workload {
	return []Workload{
		{
			Name: "rename-reference", Setup: database, Steps: []Step{
				apply("another Secret", strings.Replace(credentials, "name: db}", "name: db2}", 1), nil),
				patch("name it", "data", `{"spec":{"storage":{"databaseConfigurations":"db2"}}}`, runs("data", "db2")),
			},
		},
		{
			Name: "late-volume", Steps: []Step{
				apply("create", plainService, condition("plain", "Ready", "False")), apply("the volume", plainVolume, wired),
			},
		},
		{
			Name: "late-secret", Same: "create-database", Steps: []Step{
				apply("create", databaseService, condition("data", "Ready", "False")), apply("the Secret", credentials, nil),
			},
		},
		{
			Name: "late-model", Setup: []Step{apply("create", plainVolume+plainService, nil)},
			Steps: []Step{apply("the configuration and a model", model, wired)},
		},
		{
			Name: "secret-removed", Same: "create-database", Setup: database,
			Steps: []Step{
				{
					Name: "delete the Secret", Do: func(w *World) error { return w.Delete(secretGVK, "db") },
					Until: condition("data", "Ready", "False"),
				},
				apply("put it back", credentials, nil),
			},
		},
		{
			Name: "model-removed", Setup: plain, Steps: []Step{{
				Name: "delete the model", Do: func(w *World) error { return w.Delete(inferenceGVK, "model") },
				Until: condition("plain", "InferenceServicesPresent", "False"),
			}},
		},
	}
}

// shapes change from one shape to another, which leaves children undeclared.
func shapes() []Workload {
	return []Workload{
		{
			Name: "secure", Setup: plain,
			Steps: []Step{patch("secure", "plain", `{"spec":{"exposure":"Secured"}}`, wired)},
		},
		{
			Name: "unsecure", Setup: secured,
			Steps: []Step{patch("unsecure", "tas", `{"spec":{"exposure":"Plain"}}`, wired)},
		},
		{
			Name: "migrate", Setup: []Step{apply("create", strings.Replace(securedVolume, "tas-pvc", "data-pvc", 1)+credentials+
				strings.Replace(databaseService, "format: DATABASE,", "format: PVC, folder: /inputs, size: 1Gi,", 1)+
				"\n", nil), patch("data", "data", `{"spec":{"data":{"filename":"data.csv","format":"CSV"}}}`, nil)},
			Steps: []Step{patch("migrate", "data", `{"spec":{"storage":{"format":"DATABASE"}}}`, migrated)},
		},
	}
}

// adoptions begin with what the original operator left. The service is suspended until then, so that MLKeeper leaves it
// alone while it is set up.
func adoptions() []Workload {
	upstreams := strings.Replace(securedService, "{name: tas}", `{name: tas, finalizers: `+
		`[trustyai.opendatahub.io/finalizer], annotations: {keeper.mlkeeper.dev/suspend: "true"}}`, 1)
	claim := Step{Name: "upstream's claim", Until: func(*World) error { return nil }, Do: func(w *World) error {
		uid := w.Get("trustyaiservices.trustyai.opendatahub.io", "tas").GetUID()
		return w.Apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: tas-pvc
  ownerReferences:
  - {apiVersion: trustyai.opendatahub.io/v1, kind: TrustyAIService, name: tas, uid: "` + string(uid) +
			`", controller: true, blockOwnerDeletion: true}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	}}
	return []Workload{{
		Name: "adoption-delete",
		Setup: []Step{
			apply("upstream's service", upstreams, func(w *World) error { return suspended(w, "tas") }), claim,
		},
		Steps: []Step{remove("tas", func(w *World) error {
			if w.Get("trustyaiservices.trustyai.opendatahub.io", "tas") != nil {
				return errors.New("the service is still there")
			}
			return kept(w, "tas-pvc")
		})},
	}}
}
