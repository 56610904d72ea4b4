package tfserving

import (
	"fmt"
	"slices"
	"strconv"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// maxLacking bounds the warnings of versions, maxLackingText the error in one.
const maxLacking, maxLackingText = 8, 256

// lacking warns of versions that are to be served and are not, beside others of their model that are: ModelsAvailable says nothing of them.
// It follows from the status, so that a manager that starts, and has not asked, writes nothing else.
func (v *view) lacking() []string {
	var out []string
	policies, models := v.facts.Serving.Policies(), map[string][]v1alpha1.ModelStatus{}
	for _, m := range v.cr.Status.Models {
		models[m.Name] = append(models[m.Name], m)
	}
	for _, m := range v.cr.Status.Models {
		policy, declared := policies[m.Name]
		serves := slices.ContainsFunc(models[m.Name], func(one v1alpha1.ModelStatus) bool { return one.State == stateAvailable })
		switch {
		case !declared || !serves || !expected(policy, m, models[m.Name]):
		case m.State == stateEnd && m.Error != "":
			out = append(out, fmt.Sprintf("version %s of model %s ended with an error and is not served: %s", m.Version, m.Name,
				controller.Cut(m.Error, maxLackingText)))
		case m.State == stateUnknown && m.Error == unknownVersion && v.settled():
			out = append(out, fmt.Sprintf("the policy of model %s lists version %s, which not every server knows: is its folder below the base path?",
				m.Name, m.Version))
		}
	}
	if more := len(out) - maxLacking; more > 0 {
		out = append(out[:maxLacking], fmt.Sprintf("%d further versions are not served: see status.models", more))
	}
	return out
}

// settled says that every pod is of the config that is declared.
func (v *view) settled() bool { return v.facts.Running != nil && v.facts.Running.Current }

// expected says that a policy asks for a version. TensorFlow Serving tells for ever of one that has ended: one for which later ones have
// taken the place is over, and so is one that ended without an error.
func expected(policy modelconfig.Policy, m v1alpha1.ModelStatus, all []v1alpha1.ModelStatus) bool {
	version, err := strconv.ParseInt(m.Version, 10, 64)
	switch {
	case err != nil:
		return false
	case policy.All:
		return true
	case len(policy.Specific) > 0:
		return slices.Contains(policy.Specific, version)
	}
	var later uint32
	for _, other := range all {
		n, err := strconv.ParseInt(other.Version, 10, 64)
		over := other.State == stateUnloading || other.State == stateEnd && other.Error == ""
		if err == nil && n > version && !over {
			later++
		}
	}
	return later < policy.Latest
}

// scope says of how many servers an answer speaks, where that is not all of them.
func (a *Answer) scope() string {
	asked := fmt.Sprintf(" %d of %d servers were asked", a.Servers, a.Servers+a.Unasked)
	switch {
	case a.Unasked > 0 && a.Answered < a.Servers:
		return fmt.Sprintf("%s, of which %d answered.", asked, a.Answered)
	case a.Unasked > 0:
		return asked + "."
	case a.Answered < a.Servers:
		return fmt.Sprintf(" %d of %d servers answered.", a.Answered, a.Servers)
	}
	return ""
}
