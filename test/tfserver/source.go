package tfserver

import (
	"slices"
	"strconv"
	"strings"
)

// wanted is a version that the source wants served, and its folder.
type wanted struct {
	version int64
	folder  string
}

// pollAll looks at the folders of all models. Where one base path cannot be read, nothing of any model is told.
func (c *Core) pollAll(all []servable) (map[string][]wanted, error) {
	out := map[string][]wanted{}
	for _, s := range all {
		versions, err := c.pollOne(s)
		if err != nil {
			return nil, err
		}
		out[s.name] = versions
	}
	return out, nil
}

func (c *Core) pollOne(s servable) ([]wanted, error) {
	if err := c.store.Exists(s.base); err != nil {
		return nil, invalid("Could not find base path %s for servable %s with error %s", s.base, s.name, printed(err))
	}
	if s.policy.listed {
		if versions, whole := c.specific(s); whole {
			return versions, nil
		}
	}
	children, err := c.store.Children(s.base)
	if err != nil {
		return nil, err
	}
	found := map[int64]string{}
	var numbers []int64
	for _, child := range children {
		// What is no number is no version. "007" is 7, and replaces a folder "7" that is listed before it.
		if n, err := strconv.ParseInt(strings.TrimSpace(child), 10, 64); err == nil {
			if _, twice := found[n]; !twice {
				numbers = append(numbers, n)
			}
			found[n] = child
		}
	}
	slices.Sort(numbers)
	var out []wanted
	for i, n := range numbers {
		if s.policy.all || s.policy.listed && slices.Contains(s.policy.specific, n) ||
			!s.policy.all && !s.policy.listed && i >= len(numbers)-s.policy.latest {
			out = append(out, wanted{n, s.base + "/" + found[n]})
		}
	}
	if len(out) == 0 {
		c.log("No versions of servable %s found under base path %s. Did you forget to name your leaf directory as a number (eg. '/1/')?",
			s.name, s.base)
	}
	return out, nil
}

// specific are the versions that a policy lists, if all of them are there.
func (c *Core) specific(s servable) ([]wanted, bool) {
	if len(s.policy.specific) == 0 {
		c.log("No specific versions requested for servable %s.", s.name)
	}
	var out []wanted
	for _, n := range s.policy.specific {
		folder := s.base + "/" + strconv.FormatInt(n, 10)
		if c.store.Exists(folder) != nil {
			return nil, false
		}
		out = append(out, wanted{n, folder})
	}
	return out, true
}
