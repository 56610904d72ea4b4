package uninstall

import (
	"slices"
	"strings"

	"mlkeeper.dev/test/cluster"
)

// step is one thing that is deleted.
type step string

const (
	theCR        step = "CR"
	theOperator  step = "operator"
	theCRDs      step = "CRDs"
	theNamespace step = "namespace"
)

// order is the sequence in which things are deleted.
type order []step

// String names the order as a subtest is named.
func (o order) String() string {
	var names []string
	for _, s := range o {
		names = append(names, string(s))
	}
	return strings.Join(names, "-")
}

func (o order) has(s step) bool { return slices.Contains(o, s) }

// before says that a goes before b; what is not part of the order never goes.
func (o order) before(a, b step) bool {
	at, other := slices.Index(o, a), slices.Index(o, b)
	return at >= 0 && (other < 0 || at < other)
}

// ordersOf returns every order of the steps.
func ordersOf(steps ...step) []order {
	var out []order
	for _, o := range cluster.Orders(steps...) {
		out = append(out, o)
	}
	return out
}

// phases splits an order at the two steps that all services of a cluster share, the operator and the CRDs.
func (o order) phases() [3][]step {
	var out [3][]step
	phase := 0
	for _, s := range o {
		if s == theOperator || s == theCRDs {
			phase++
			continue
		}
		out[phase] = append(out[phase], s)
	}
	return out
}

// until lists the steps of the service's own up to a phase.
func (o order) until(phase int) []step {
	phases := o.phases()
	return slices.Concat(phases[:phase+1]...)
}
