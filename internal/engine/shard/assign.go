package shard

import (
	"cmp"
	"maps"
	"slices"
)

// quotaOf is how many shards a member is to hold when members hold so many. It differs by one at most between members. Those that hold
// most have the greater quota, so that no shard changes hands that need not. The quotas of all members are as many as there are shards.
func quotaOf(member string, held map[string]int, shards int) int {
	each, rest := shards/len(held), shards%len(held)
	order := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	if slices.Index(order, member) < rest {
		return each + 1
	}
	return each
}
