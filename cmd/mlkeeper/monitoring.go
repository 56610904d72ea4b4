package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/cli/monitoring"
	"mlkeeper.dev/internal/participant"
)

// newMonitoringCommand is `mlkeeper monitoring`, with which make manifests writes config/monitoring.
func newMonitoringCommand() *cobra.Command {
	var runbooks string
	cmd := &cobra.Command{
		Use:    "monitoring dashboard|rules|prometheusrule|metrics",
		Short:  "Print the dashboard, the alert rules or the list of metrics, from the metrics that this binary has",
		Hidden: true, Args: cobra.ExactArgs(1),
		ValidArgs: []string{"dashboard", "rules", "prometheusrule", "metrics"},
		RunE: func(cmd *cobra.Command, args []string) error {
			catalog, err := metricsCatalog()
			if err != nil {
				return err
			}
			out, err := monitoringFile(catalog, args[0], runbooks)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	cmd.Flags().StringVar(&runbooks, "runbooks", monitoring.Runbooks, "address of the page with a section for each alert")
	return cmd
}

func monitoringFile(catalog monitoring.Catalog, what, runbooks string) ([]byte, error) {
	switch what {
	case "dashboard":
		return monitoring.Dashboard(catalog)
	case "metrics":
		raw, err := json.MarshalIndent(catalog.List(), "", "  ")
		return append(raw, '\n'), err
	}
	groups, err := monitoring.Alerts(catalog, cli.StalledReasons(), runbooks)
	if err != nil {
		return nil, err
	}
	switch what {
	case "rules":
		return monitoring.RulesFile(groups)
	case "prometheusrule":
		return monitoring.PrometheusRule(groups)
	}
	return nil, fmt.Errorf("%q: use dashboard, rules, prometheusrule or metrics", what)
}

// metricsCatalog makes a manager, which registers every metric as it does when it runs, and never starts it.
func metricsCatalog() (monitoring.Catalog, error) {
	var s settings
	s.bind(pflag.NewFlagSet("monitoring", pflag.ContinueOnError))
	s.operatorNamespace = "nowhere"
	nowhere := &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := buildManager(nowhere, managerFlags{
		controllers: controllerNames(), shards: 1, metricsAddress: "0", probeAddress: "0", pprofAddress: "0",
	}, s); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	registry, ok := ctrlmetrics.Registry.(monitoring.Registry)
	if !ok {
		return nil, errors.New("bug: the registry of controller-runtime describes no metrics any more")
	}
	participant.ServeMetrics() // They exist where a participant is configured.
	return monitoring.Read(registry)
}
