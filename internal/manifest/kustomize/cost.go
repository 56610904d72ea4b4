package kustomize

// cost is what a kustomization and everything below it costs, a folder counted as often as it is reached: a diamond of
// prefixes doubles the objects at each level. references is how often a var may stand in the files.
type cost struct{ entered, bytes, objects, references, growth int64 }

// maxCost keeps a cost from running over when it is added up.
const maxCost = 1 << 40

func (c *cost) add(other cost) {
	c.entered = min(c.entered+other.entered, maxCost)
	c.bytes = min(c.bytes+other.bytes, maxCost)
	c.objects = min(c.objects+other.objects, maxCost)
	c.references = min(c.references+other.references, maxCost)
	c.growth = min(c.growth+other.growth, maxCost)
}
