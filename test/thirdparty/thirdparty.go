// Package thirdparty makes what controllers of third parties make at run time, which do not run on simulated nodes: the Secrets
// that other pods of the same stack wait for. Each is made once the Deployment of its maker is available, and not before, so
// that what waits for it waits as long as it does where the controller runs. It makes nothing else and changes no object of a stack.
package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secret is one that a controller makes at run time.
type Secret struct {
	Name types.NamespacedName
	// Server is the Service whose name the certificate is for.
	Server types.NamespacedName
	// Maker is the Deployment of the controller.
	Maker types.NamespacedName
	// Certificate is the custom resource of cert-manager that asks for the Secret, of an apiVersion; empty where nothing does.
	Certificate, APIVersion string
	// Chain and Key are the keys of the data.
	Chain, Key string
}

// interval is how often makers that are not available yet are asked for.
const interval = 250 * time.Millisecond

// Run makes the Secrets until all are there or ctx ends.
func Run(ctx context.Context, c client.Client, secrets []Secret) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for left := secrets; len(left) > 0; {
		var waits []Secret
		for _, s := range left {
			switch err := s.make(ctx, c); {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, errWaits):
				waits = append(waits, s)
			case err != nil:
				return fmt.Errorf("make Secret %s: %w", s.Name, err)
			}
		}
		left = waits
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

// errWaits says that a maker is not available, or not asked, yet.
var errWaits = errors.New("not yet")

func (s Secret) make(ctx context.Context, c client.Client) error {
	var maker appsv1.Deployment
	if err := c.Get(ctx, s.Maker, &maker); client.IgnoreNotFound(err) != nil {
		return err
	}
	if maker.Status.AvailableReplicas == 0 {
		return errWaits
	}
	if s.Certificate != "" {
		asked := &unstructured.Unstructured{}
		asked.SetAPIVersion(s.APIVersion)
		asked.SetKind("Certificate")
		switch err := c.Get(ctx, types.NamespacedName{Namespace: s.Name.Namespace, Name: s.Certificate}, asked); {
		case apierrors.IsNotFound(err):
			return errWaits
		case err != nil:
			return err
		}
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(s.Server.Name+"."+s.Server.Namespace+".svc", nil, nil)
	if err != nil {
		return err
	}
	err = c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name},
		Data:       map[string][]byte{s.Chain: chain, s.Key: key},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
