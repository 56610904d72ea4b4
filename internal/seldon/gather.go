package seldon

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// Gather reads the generated credentials and what users' values refer to, and has the charts fetched and rendered in the background.
func (s *system) Gather(ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator) (Facts, error) {
	account := controller.Account{
		Name: cr.Spec.ServiceAccountName, Default: s.settings.DefaultServiceAccount,
		Trusted: s.settings.Trusted, DryRun: s.settings.DryRun, OperatorNamespace: s.settings.OperatorNamespace,
	}
	user, err := account.User(ctx, read, "SeldonOperator", cr)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{ActAs: user, Namespaced: map[schema.GroupKind]bool{}, Missing: map[string]plan.Problem{}}
	if facts.Keys, err = s.gatherKeys(ctx, read, cr); err != nil {
		return Facts{}, err
	}
	if facts.Postgres, facts.Elastic, err = s.gatherPasswords(ctx, read, cr, facts.Keys); err != nil {
		return Facts{}, err
	}
	var given values
	for _, c := range s.componentsOf(cr) {
		part, values, err := s.gatherPart(ctx, read, cr, c, facts)
		if err != nil {
			return Facts{}, err
		}
		if c.name == enterprise {
			given = values
		}
		if facts.Keys.there || s.settings.DryRun {
			// Before, nothing is rendered that would have to be rendered again with what is stored.
			facts.Parts = append(facts.Parts, part)
		}
	}
	if err := s.gatherRevisions(ctx, read, cr, &facts); err != nil {
		return Facts{}, err
	}
	if err := s.gatherMissing(ctx, read, cr, given, &facts); err != nil {
		return Facts{}, err
	}
	if facts.URL, facts.URLWarning, err = s.gatherURL(ctx, read, cr, given, facts.ActAs); err != nil {
		return Facts{}, err
	}
	for _, part := range facts.Parts {
		for _, o := range part.all() {
			gvk := o.GroupVersionKind()
			if namespaced, served := read.Namespaced(gvk); served {
				facts.Namespaced[gvk.GroupKind()] = namespaced
			}
		}
	}
	return facts, nil
}

// keysName is the Secret that keeps the generated credentials.
func keysName(cr *v1alpha1.SeldonOperator) string { return cr.Name + "-generated" }

// gatherKeys takes the generated credentials from its Secret.
func (s *system) gatherKeys(ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator) (*keys, error) {
	name := keysName(cr)
	found, err := read.Referenced(ctx, gvkSecret, cr.Namespace, name)
	if err != nil {
		return nil, err
	}
	if found == nil && read.Child(gvkSecret, cr.Namespace, name) != nil {
		return nil, notYetRead(name)
	}
	ours := found != nil && stackOf(cr).Marked(found)
	var data map[string][]byte
	if ours {
		// What somebody else put under the name is no seed of ours.
		data = controller.SecretData(found)
	}
	wanted := knownCertificates(cr)
	for _, c := range s.componentsOf(cr) {
		if last := s.results.Last(subject(cr, c)); last != nil {
			wanted = append(wanted, last.Content.Wanted...)
		}
	}
	key := client.ObjectKeyFromObject(cr)
	before, _ := s.keys.Load(key)
	last, _ := before.(*keys)
	out, err := keysOf(last, data, ours, wanted, s.settings.Random, read.Now(), key.String())
	if err != nil {
		return nil, err
	}
	for _, c := range s.componentsOf(cr) {
		if last := s.results.Last(subject(cr, c)); last != nil && out.seeded {
			if err := out.record(c.name, last.Content.Names); err != nil {
				return nil, err
			}
		}
	}
	out.absent = found == nil
	s.keys.Store(key, out)
	return out, nil
}

// notYetRead says that a Secret of ours was written a moment ago and is not readable yet. What is generated must not be made
// anew in its place; the watch on it tells when it is.
func notYetRead(name string) error {
	return plan.Problem{
		Class: plan.Waiting, Reason: decide.ReasonNotSynced,
		Message: "the Secret " + name + " was written a moment ago and is not readable yet", Remedy: "nothing to do",
	}
}

// stackOf names a custom resource as the owner of its children.
func stackOf(cr *v1alpha1.SeldonOperator) plan.Stack {
	return plan.Stack{GVK: v1alpha1.GroupVersion.WithKind("SeldonOperator"), Namespace: cr.Namespace, Name: cr.Name, UID: cr.UID}
}

// gatherPart asks for one component as it is declared now, and returns the values that the user gives for it.
func (s *system) gatherPart(
	ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, c component, facts Facts,
) (Part, values, error) {
	part := Part{component: c, Pending: true}
	if last := s.results.Last(subject(cr, c)); last.Rendered() {
		part.Result = last
	}
	r, err := s.request(ctx, read, cr, c, facts)
	var problem plan.Problem
	if errors.As(err, &problem) {
		// What is there of the other components is kept up meanwhile.
		part.Problem = &problem
		return part, r.given, nil
	}
	if err != nil {
		return Part{}, nil, err
	}
	if !facts.Keys.stored && !s.settings.DryRun {
		// A certificate that is not stored yet may become another.
		return part, r.given, nil
	}
	job := r.job(cr)
	result, done := s.results.Get(read, job)
	switch {
	case done && len(result.Content.Wanted) == 0:
		part.Result, part.Pending = result, false
	case done && facts.Keys.lacks(result.Content.Wanted):
		problem = r.noCertificate()
		part.Problem = &problem
	}
	part.Older = part.Result != nil && part.Result.Inputs != job.Inputs
	return part, r.given, nil
}

// serves answers what templates ask of .Capabilities.APIVersions: a group and version, or a kind of one.
func serves(read controller.Reader, apiVersion string) bool {
	parts := strings.Split(apiVersion, "/")
	if n := len(parts); n == 3 || n == 2 && parts[1] != "" && strings.ToUpper(parts[1][:1]) == parts[1][:1] {
		gv, err := schema.ParseGroupVersion(strings.Join(parts[:n-1], "/"))
		return err == nil && read.Serves(gv.WithKind(parts[n-1]))
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && read.ServesVersion(gv)
}

// allServed are all answers to what templates may ask of .Capabilities.APIVersions, as Helm lists them.
func allServed(read controller.Reader) []string {
	var out []string
	for _, gvk := range read.Kinds() {
		gv := gvk.GroupVersion().String()
		out = append(out, gv, gv+"/"+gvk.Kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// request puts together what a component is rendered from.
func (s *system) request(
	ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, c component, facts Facts,
) (request, error) {
	r := request{
		component: c, settings: s.settings, namespace: cr.Namespace, user: facts.ActAs, field: "spec." + c.name, keys: facts.Keys, now: read.Now(),
		recorded: recordedOf(cr, c.name), adopts: cr.Annotations[keeper.AdoptAnnotation] == "true",
		cluster: helm.Cluster{
			Version: read.KubernetesVersion(), Serves: func(apiVersion string) bool { return serves(read, apiVersion) },
			All: func() []string { return allServed(read) },
		},
	}
	r.from = rendering.Source{Name: c.chart.Name + " " + c.chart.Version, Origin: origin.Origin{Field: r.field + ".chart", User: facts.ActAs}}
	given, problem := userValues(ctx, read, cr, &r)
	r.given, r.values = given, helm.Merge(s.overlay(cr, c), given)
	if source.IsRange(c.chart.Version) {
		r.overlay = func(version string) values {
			one := c
			one.chart.Version = version
			return s.overlay(cr, one)
		}
	}
	if err := r.from.ReadArchive(ctx, read, cr.Namespace, r.from.Field+".repository", c.chart.Repository); err != nil {
		return r, err
	}
	if err := r.from.ReadSecret(ctx, read, cr.Namespace, r.from.Field+".secretName", c.chart.SecretName); err != nil {
		return r, err
	}
	r.from.Request.URI = c.chart.Repository
	if r.from.Inline == nil {
		r.from.Chart = &source.ChartRequest{
			Repository: c.chart.Repository, Name: c.chart.Name, Version: c.chart.Version, Digest: c.chart.Digest, Before: true,
		}
	}
	if c.chart.Verify != nil {
		if err := r.readVerify(ctx, read, *c.chart.Verify); err != nil {
			return r, err
		}
	}
	return r, problem
}

// digestOf is that of a certificate by its name.
func (k *keys) digestOf(name string) string {
	if name == (helm.Certificate{Kind: helm.Authority}).Name() {
		return k.digest(name, helm.Certificate{Kind: helm.Authority})
	}
	for _, prefix := range []string{prefixLeaf, prefixSelf, prefixKey} {
		if key, ok := k.data[prefix+name+suffixKey]; ok {
			return k.digestPair(name, helm.Pair{Cert: string(k.data[prefix+name+suffixCert]), Key: string(key)})
		}
	}
	return ""
}
