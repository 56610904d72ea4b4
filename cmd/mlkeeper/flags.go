package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"mlkeeper.dev/internal/cli"
)

// flagRule says which values of a flag can be used, and what to give in place of others. pflag has refused before what is no number, duration
// or truth value.
type flagRule struct {
	ok  func(value string) bool
	use string
}

// flagRules are those of the flags whose values would otherwise count as others, or fail later and without the name of the flag. They are by
// the names of the flags, whichever command has them, and of a list they are about each of its values.
var flagRules = func() map[string]flagRule {
	rules := map[string]flagRule{
		"log-format":                  {func(v string) bool { return v == "json" || v == "text" }, "use json or text"},
		"namespace":                   {orEmpty(isLabel), "use the name of a namespace, such as models"},
		"namespaces":                  {isLabel, "use names of namespaces, such as models,team-a; leave the flag out for all"},
		"leader-election-namespace":   {orEmpty(isLabel), "use the name of a namespace, such as mlkeeper-system"},
		"cluster-domain":              {isSubdomain, "use a DNS domain in lower case, such as cluster.local"},
		"default-service-account":     {orEmpty(isSubdomain), "use the name of a ServiceAccount, without its namespace"},
		"service-account":             {isSubdomain, "use the name of a ServiceAccount, without its namespace"},
		"suffix":                      {orEmpty(nameEnd.MatchString), "use an end of names of objects, such as -tfs"},
		"request-timeout":             {isTimeout, "use a duration, such as 30s; 0 for no limit"},
		"metrics-bind-address":        {isAddress, "use HOST:PORT or :PORT, such as :8080; 0 switches it off"},
		"health-probe-bind-address":   {isAddress, "use HOST:PORT or :PORT, such as :8081; 0 switches it off"},
		"leader-elect-lease-duration": {atLeast(time.Second), "use one second or more, such as 15s"},
		"leader-elect-renew-deadline": {atLeast(time.Millisecond), "use a duration above zero, such as 10s"},
		"leader-elect-retry-period":   {atLeast(time.Millisecond), "use a duration above zero, such as 2s"},
		"source-timeout":              {atLeast(time.Millisecond), "use a duration above zero, such as 2m"},
		"tfserving-models-every":      {atLeast(time.Millisecond), "use a duration above zero, such as 5m"},
		// Zero is the default of the store of sources.
		"source-max-redirects": {func(v string) bool { return v != "0" }, "use -1 for none, or 1 or more"},
		"v":                    {fromUp(0), "use 0 or more"},
	}
	for _, name := range []string{
		"concurrency", "source-bytes", "work-memory", "result-memory", "source-max-archive", "source-max-unpacked", "source-max-file",
		"source-max-index", "source-max-entries", "source-max-ratio",
	} {
		rules[name] = flagRule{fromUp(1), "use 1 or more"}
	}
	for _, name := range []string{"trustyai-image", "trustyai-proxy-image", "tfserving-image", "tfserving-gpu-image", "downloader-image"} {
		rules[name] = flagRule{orEmpty(cli.IsImage), "name an image, such as registry.example.com/name:v1"}
	}
	return rules
}()

// nameEnd is what a name of an object can end with.
var nameEnd = regexp.MustCompile(`^[a-z0-9-]*[a-z0-9]$`)

func isLabel(v string) bool     { return len(validation.IsDNS1123Label(v)) == 0 }
func isSubdomain(v string) bool { return len(validation.IsDNS1123Subdomain(v)) == 0 }

// orEmpty allows the empty value too, which is the default of many flags.
func orEmpty(ok func(string) bool) func(string) bool {
	return func(v string) bool { return v == "" || ok(v) }
}

func fromUp(least int64) func(string) bool {
	return func(v string) bool {
		n, err := strconv.ParseInt(v, 10, 64)
		return err == nil && n >= least
	}
}

func atLeast(least time.Duration) func(string) bool {
	return func(v string) bool {
		d, err := time.ParseDuration(v)
		return err == nil && d >= least
	}
}

// isTimeout reads a value as kubectl does.
func isTimeout(v string) bool {
	d, err := clientcmd.ParseTimeout(cmp.Or(v, "0"))
	return err == nil && d >= 0
}

// isAddress says that a server can be bound to an address. Zero switches it off.
func isAddress(v string) bool {
	if v == "" || v == "0" {
		return true
	}
	_, port, err := net.SplitHostPort(v)
	_, failed := strconv.ParseUint(port, 10, 16)
	return err == nil && failed == nil
}

// checkFlags says which flags have values that cannot be used, all at once.
func checkFlags(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		rule, found := flagRules[f.Name]
		if !found {
			return
		}
		values := []string{f.Value.String()}
		if list, many := f.Value.(pflag.SliceValue); many {
			values = list.GetSlice()
		}
		for _, v := range values {
			if !rule.ok(v) {
				errs = append(errs, fmt.Errorf("--%s %q: %s", f.Name, v, rule.use))
			}
		}
	})
	return errors.Join(errs...)
}

// checkFlagsOf has commands check their flags before they run.
func checkFlagsOf(commands []*cobra.Command) {
	for _, cmd := range slices.DeleteFunc(slices.Clone(commands), func(cmd *cobra.Command) bool { return cmd.RunE == nil }) {
		run := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := checkFlags(cmd.Flags()); err != nil {
				return cmd.FlagErrorFunc()(cmd, err)
			}
			return run(cmd, args)
		}
	}
}
