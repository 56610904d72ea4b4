package participant

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// namespaces is an API server that has but one namespace, and refuses the first requests.
type namespaces struct {
	client.Reader
	refuses int
	refused func()
}

func (n *namespaces) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if n.refuses > 0 {
		n.refuses--
		n.refused()
		return errors.New("forbidden")
	}
	o.(*corev1.Namespace).UID = "uid of kube-system" //nolint:forcetypeassert // Nothing else is asked for.
	return nil
}

type managerOf struct {
	manager.Manager
	reader client.Reader
}

func (m managerOf) GetAPIReader() client.Reader { return m.reader }

// TestTheInstallationIsAskedForUntilItIsKnown: readiness tells what the participant waits for, and a context that is done ends the wait.
func TestTheInstallationIsAskedForUntilItIsKnown(t *testing.T) {
	r := &runner{log: logr.Discard()}
	r.mgr = managerOf{reader: &namespaces{refuses: 1, refused: func() {}}}
	if got, err := r.installation(t.Context()); got != "uid of kube-system" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := r.healthy(); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	r.mgr = managerOf{reader: &namespaces{refuses: 1, refused: end}}
	if _, err := r.installation(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.healthy(); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("its health is %v", err)
	}
}
