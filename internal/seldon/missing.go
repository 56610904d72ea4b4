package seldon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
)

// The reasons of what is missing, stable across releases.
const (
	reasonNoIstio          = "IstioNotInstalled"
	reasonNoKnative        = "KnativeNotInstalled"
	reasonRoutingOff       = "RoutingDisabled"
	reasonCredentials      = "CredentialsMissing"
	reasonGenerating       = "GeneratingCredentials"
	reasonComponentFailing = "ComponentNotReady"
)

// istioVersions are the versions of Istio's Gateway, the newest first.
var istioVersions = []string{"v1", "v1beta1", "v1alpha3"}

// gatherMissing finds what the cluster and the user's Secrets lack for what is switched on, with the values that he gives Seldon Deploy.
// What can be made is made nevertheless.
func (s *system) gatherMissing(
	ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, given values, facts *Facts,
) error {
	for _, version := range istioVersions {
		if facts.Istio == "" && read.Serves(gvkGateway.GroupKind().WithVersion(version)) {
			facts.Istio = version
		}
	}
	if cr.Spec.Enable.Routing && facts.Istio == "" {
		facts.Missing[routing] = plan.Problem{
			Class: plan.Waiting, Reason: reasonNoIstio, Field: "spec.enable.routing", Value: "true",
			Message: "the cluster does not serve networking.istio.io", Remedy: "install Istio: istioctl install -y",
		}
	}
	if cr.Spec.Enable.Detectors {
		missingForDetectors(read, cr, facts)
		namespace, err := read.Referenced(ctx, gvkNamespace, "", loggerAliasNamespace)
		if err != nil {
			return err
		}
		facts.AliasNamespace = namespace == nil || read.Child(gvkNamespace, "", loggerAliasNamespace) != nil
	}
	for _, wants := range s.credentials(cr, given, facts) {
		if err := missingKeys(ctx, read, cr, wants, facts); err != nil {
			return err
		}
	}
	return nil
}

func missingForDetectors(read controller.Reader, cr *v1alpha1.SeldonOperator, facts *Facts) {
	var lacks []string
	if !read.Serves(gvkBroker) || !read.Serves(gvkTrigger) {
		lacks = append(lacks, "Knative Eventing")
	}
	if !read.Serves(gvkKnativeService) {
		lacks = append(lacks, "Knative Serving")
	}
	switch {
	case len(lacks) > 0:
		facts.Missing[detectors] = plan.Problem{
			Class: plan.Waiting, Reason: reasonNoKnative, Field: "spec.enable.detectors", Value: "true",
			Message: "the cluster lacks " + strings.Join(lacks, " and "),
			Remedy:  "install it: https://knative.dev/docs/install",
		}
	case !cr.Spec.Enable.Routing:
		facts.Missing[detectors] = plan.Problem{
			Class: plan.Waiting, Reason: reasonRoutingOff, Field: "spec.enable.detectors", Value: "true",
			Message: "detectors are reached through routing, which is switched off",
			Remedy:  "set spec.enable.routing to true",
		}
	}
}

// secretKeys are the keys that a user's Secret must have.
type secretKeys struct {
	feature, field, name string
	keys                 []string
}

// legal says that a Secret of the name can have the keys. Both are texts in values, and a message has a command with them.
func (s secretKeys) legal() bool {
	return len(validation.IsDNS1123Subdomain(s.name)) == 0 &&
		!slices.ContainsFunc(s.keys, func(key string) bool { return len(validation.IsConfigMapKey(key)) > 0 })
}

// elasticField names the Secret of the user's own instance of Elasticsearch.
const elasticField = "spec.enterprise.values.elasticsearch.secret.name"

// postgresKeys are those of the Secret that Seldon Deploy is connected with.
var postgresKeys = []string{"dbname", "host", "user", "password", "port", "sslmode"}

// credentials are the Secrets of users that Seldon Deploy is connected with, and those that users made for the trial instances.
// Where one lacks, pods would not start.
func (s *system) credentials(cr *v1alpha1.SeldonOperator, given values, facts *Facts) []secretKeys {
	all := helm.Merge(s.overlay(cr, component{name: enterprise}), given)
	var out []secretKeys
	if auth, _ := lookupValue(all, "elasticsearch.basicAuth"); auth == true && !internalElastic(cr) {
		out = append(out, secretKeys{
			feature: payloadStore, field: elasticField,
			name: textIn(all, "elasticsearch.secret.name", elasticSecret),
			keys: []string{textIn(all, "elasticsearch.secret.userKey", "username"), textIn(all, "elasticsearch.secret.passwordKey", "password")},
		})
	}
	if on, _ := lookupValue(all, "metadata.pg.enabled"); on == true && !cr.Spec.Enable.Catalogue {
		out = append(out, secretKeys{
			feature: catalogue, field: "spec.enterprise.values.metadata.pg.secret",
			name: textIn(all, "metadata.pg.secret", postgresSecret),
			keys: postgresKeys,
		})
	}
	if facts.Postgres.Theirs {
		out = append(out, secretKeys{
			feature: catalogue, field: "spec.enable.catalogue", name: postgresSecret,
			keys: append([]string{s.adminKey(cr)}, postgresKeys...),
		})
	}
	if facts.Elastic.Theirs {
		out = append(out, secretKeys{
			feature: payloadStore, field: "spec.enable.payloadstore", name: elasticSecret, keys: []string{"username", "password"},
		})
	}
	return out
}

// adminKey is the key under which the chart of PostgreSQL looks for the password of its administrator.
func (s *system) adminKey(cr *v1alpha1.SeldonOperator) string {
	v, err := semver.NewVersion(s.versionOf(cr, s.componentOf(catalogue, cr.Spec.Catalogue)))
	if err == nil && v.LessThan(semver.New(11, 0, 0, "", "")) {
		return "postgresql-password"
	}
	return "postgres-password"
}

// missingKeys looks for the keys of a user's Secret, with his rights: which keys it has is told to whoever may read the custom resource.
// What he may not read is not checked.
func missingKeys(ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, wants secretKeys, facts *Facts) error {
	if !wants.legal() {
		facts.Missing[wants.feature] = plan.Problem{
			Class: plan.Terminal, Reason: reasonValuesInvalid, Field: wants.field,
			Message: "there can be no Secret of the name and with the keys that the values have", Remedy: "correct the values",
		}
		return nil
	}
	found, err := read.ReferencedAs(ctx, facts.ActAs, gvkSecret, cr.Namespace, wants.name)
	if errors.As(err, new(controller.UserRefused)) {
		return nil
	}
	if err != nil {
		return err
	}
	data := controller.SecretData(found)
	lacks := slices.DeleteFunc(slices.Clone(wants.keys), func(key string) bool {
		_, there := data[key] // It may be empty on purpose, such as a password of none.
		return there
	})
	if len(lacks) == 0 {
		return nil
	}
	message := "there is no Secret of this name in namespace " + cr.Namespace
	if found != nil {
		message = "the Secret lacks " + strings.Join(lacks, ", ")
	}
	literals := make([]string, 0, len(wants.keys))
	for _, key := range wants.keys {
		literals = append(literals, "--from-literal="+key+"=...")
	}
	facts.Missing[wants.feature] = plan.Problem{
		Class: plan.Waiting, Reason: reasonCredentials, Field: wants.field, Value: wants.name, Message: message,
		Remedy: fmt.Sprintf("make it: kubectl create secret generic %s -n %s %s", wants.name, cr.Namespace, strings.Join(literals, " ")),
	}
	return nil
}

// gatherPasswords takes the passwords of the trial instances from their Secrets, or makes them of the seed once that is stored.
func (s *system) gatherPasswords(
	ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, k *keys,
) (postgres, elastic Password, err error) {
	generated := k.seeded || s.settings.DryRun
	if cr.Spec.Enable.Catalogue {
		fresh := ""
		if generated {
			fresh = k.password(catalogue)
		}
		if postgres, err = gatherPassword(ctx, read, cr, postgresSecret, fresh); err != nil {
			return postgres, elastic, err
		}
	}
	if internalElastic(cr) {
		fresh := "admin" // What OpenSearch's demo configuration is set up with.
		version := s.versionOf(cr, s.componentOf(payloadStore, cr.Spec.PayloadStore.Component))
		if !generated || version == "" {
			fresh = "" // Not known yet.
		} else if chosenPassword(version) {
			fresh = k.password(payloadStore) + "-1aA" // It asks for a special character, a number and both cases.
		}
		elastic, err = gatherPassword(ctx, read, cr, elasticSecret, fresh)
	}
	return postgres, elastic, err
}

func gatherPassword(ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, name, fresh string) (Password, error) {
	found, err := read.Referenced(ctx, gvkSecret, cr.Namespace, name)
	if err != nil {
		return Password{}, err
	}
	child := read.Child(gvkSecret, cr.Namespace, name)
	if found == nil && child != nil {
		return Password{}, notYetRead(name)
	}
	out := Password{Text: fresh, Theirs: found != nil && child == nil, Absent: found == nil}
	// The data that it unlocks may be older than the SeldonOperator.
	if have := controller.SecretData(found)["password"]; len(have) > 0 {
		out.Text = string(have)
	}
	return out, nil
}

// chosenPassword says that a version of the chart of OpenSearch starts only with a password that is given to it.
func chosenPassword(version string) bool {
	v, err := semver.NewVersion(version)
	return err == nil && !v.LessThan(semver.New(2, 18, 0, "", ""))
}
