package seldon

import (
	"maps"
	"reflect"
	"slices"
)

// SamePlan implements controller.PlanCache.
func (s *system) SamePlan(before, now Facts) bool {
	sameParts := slices.EqualFunc(before.Parts, now.Parts, func(a, b Part) bool {
		return a.Result == b.Result && a.Pending == b.Pending && a.Older == b.Older && reflect.DeepEqual(a.Problem, b.Problem) &&
			reflect.DeepEqual(a.Rollback, b.Rollback)
	})
	return sameParts && before.ActAs == now.ActAs && sameKeys(before.Keys, now.Keys) && before.Postgres == now.Postgres &&
		before.Elastic == now.Elastic && before.Istio == now.Istio && before.AliasNamespace == now.AliasNamespace &&
		maps.Equal(before.Namespaced, now.Namespaced) && maps.Equal(before.Missing, now.Missing) && before.URLWarning == now.URLWarning &&
		before.KeepsRevisions == now.KeepsRevisions && before.RevisionsAbsent == now.RevisionsAbsent
}

func sameKeys(a, b *keys) bool {
	return a.there == b.there && a.absent == b.absent && a.seeded == b.seeded && a.remade == b.remade && a.wakeAt.Equal(b.wakeAt) && maps.EqualFunc(a.data, b.data, slices.Equal)
}
