package invariants

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"mlkeeper.dev/test/bundle"
)

// object makes one object of a bundle from JSON.
func object(format string, args ...any) bundle.Object {
	return bundle.Object{Manifest: &runtime.RawExtension{Raw: []byte(fmt.Sprintf(format, args...))}}
}

// configMap is a ConfigMap of a bundle.
func configMap(ns, name, value string) bundle.Object {
	return object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":{"k":%q}}`,
		ns, name, value)
}

// clusterRole is a ClusterRole of a bundle.
func clusterRole(name, verb string) bundle.Object {
	return object(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},
		"rules":[{"apiGroups":["invariants.test"],"resources":["things"],"verbs":[%q]}]}`, name, verb)
}

// deployment is a Deployment of a bundle; one that is stuck never gets its pod onto a node.
func deployment(ns, name string, stuck bool) bundle.Object {
	selector := "{}"
	if stuck {
		selector = `{"no":"where"}`
	}
	return object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q},"spec":{"replicas":1,
		"selector":{"matchLabels":{"app":%q}},"strategy":{"type":"Recreate"},"template":{"metadata":{"labels":{"app":%q}},
		"spec":{"nodeSelector":%s,"containers":[{"name":"main","image":"example.test/image:1"}]}}}}`,
		ns, name, name, name, selector)
}

// definition is a permissive CustomResourceDefinition of a bundle.
func definition(group, kind string) bundle.Object {
	plural := strings.ToLower(kind) + "s"
	return object(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.%s"},
		"spec":{"group":%q,"scope":"Namespaced","names":{"kind":%q,"plural":%q},"versions":[{"name":"v1","served":true,
		"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		plural, group, group, kind, plural)
}

// retained marks an object as one that must be retained after its bundle.
func retained(o bundle.Object) bundle.Object {
	o.Retain = true
	return o
}

// stage is a stage with a name that follows from its objects' place.
func stage(name string, objects ...bundle.Object) bundle.Stage {
	return bundle.Stage{Name: name, Objects: objects}
}

// one is the spec of a bundle with one stage.
func one(objects ...bundle.Object) bundle.Spec {
	return bundle.Spec{Stages: []bundle.Stage{stage("all", objects...)}}
}

// certificate makes a self-signed certificate, encoded as a caBundle.
func certificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
