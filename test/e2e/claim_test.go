package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestAClaimOfTheDefaultClassCanGrow: the API server fills the default class into a claim that names none, and refuses
// to have it taken out again. It shows for a claim of our own, and for one that upstream made.
func TestAClaimOfTheDefaultClassCanGrow(t *testing.T) {
	c := cluster.Start(t, cluster.WithCRDs("route", "servicemonitor", "inferenceservice"))
	c.Apply(t, `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/none
allowVolumeExpansion: true
`)
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprintf("adopted=%t", taken), func(t *testing.T) {
			ns := c.Namespace(t)
			c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  storageClassName: standard
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %s, name: tas-pvc}
  hostPath: {path: /data}
`, pvName(ns), ns))
			if taken {
				upstreamService(t, c, ns)
			}
			start(t, c, harness.Options{})
			if !taken {
				c.Apply(t, upstream, ns)
			}
			cluster.Eventually(t, 60*time.Second, func() error {
				if get(t, c, ns, "tas").Status.StorageFormat == "" {
					return fmt.Errorf("not kept by MLKeeper yet")
				}
				return nil
			})
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			for _, size := range []string{"2Gi", "3Gi"} {
				c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"storage":{"size":"`+size+`"}}}`)
				cluster.Eventually(t, 30*time.Second, func() error {
					claim := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc")
					asked, _, _ := unstructured.NestedString(claim.Object, "spec", "resources", "requests", "storage")
					class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
					if asked != size || class != "standard" {
						return fmt.Errorf("the claim asks for %s of class %q: %+v", asked, class, get(t, c, ns, "tas").Status.Conditions)
					}
					return nil
				})
			}
		})
	}
}
