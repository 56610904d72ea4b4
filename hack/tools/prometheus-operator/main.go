// Command prometheus-operator does what the Prometheus operator does with ServiceMonitors, with that operator's own code: it
// selects them, reads the Secrets and ConfigMaps that they name from an API server, and generates Prometheus' configuration. The
// operator's own command would do so for a custom resource on a cluster alone (prometheus-operator v0.85.0
// pkg/prometheus/server/operator.go, sync and createOrUpdateConfigurationSecret); this one reads ServiceMonitors from the standard
// input and writes to the standard output, both JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus-operator/prometheus-operator/pkg/assets"
	"github.com/prometheus-operator/prometheus-operator/pkg/operator"
	generator "github.com/prometheus-operator/prometheus-operator/pkg/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// output is what the command writes.
type output struct {
	// Config is Prometheus' configuration.
	Config string `json:"config"`
	// Files are what the operator mounts into Prometheus' pods, in /etc/prometheus/certs.
	Files map[string][]byte `json:"files"`
	// Dropped are the events about ServiceMonitors that are not in the configuration.
	Dropped []string `json:"dropped"`
}

func main() {
	apiServer := flag.String("api-server", "", "URL of the API server, which Prometheus asks for targets, too")
	role := flag.String("role", string(monitoringv1.EndpointsRole), "serviceDiscoveryRole of the Prometheus: Endpoints or EndpointSlice")
	deny := flag.Bool("deny", false, "set arbitraryFSAccessThroughSMs.deny of the Prometheus")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *apiServer, monitoringv1.ServiceDiscoveryRole(*role), *deny); err != nil {
		fmt.Fprintln(os.Stderr, "prometheus-operator:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, apiServer string, role monitoringv1.ServiceDiscoveryRole, deny bool) error {
	var monitors []*monitoringv1.ServiceMonitor
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&monitors); err != nil {
		return err
	}
	if len(monitors) == 0 {
		return fmt.Errorf("no ServiceMonitor is on the standard input: write a list of them there")
	}
	p := &monitoringv1.Prometheus{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: monitors[0].Namespace},
		Spec: monitoringv1.PrometheusSpec{
			EvaluationInterval: "30s",
			CommonPrometheusFields: monitoringv1.CommonPrometheusFields{
				ServiceMonitorSelector:      &metav1.LabelSelector{},
				ArbitraryFSAccessThroughSMs: monitoringv1.ArbitraryFSAccessThroughSMsConfig{Deny: deny},
				APIServerConfig:             &monitoringv1.APIServerConfig{Host: apiServer},
				ScrapeInterval:              "30s",
				ServiceDiscoveryRole:        &role,
			},
		},
	}
	result, err := generate(p, monitors, apiServer)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// generate selects ServiceMonitors for a Prometheus and writes its configuration.
func generate(p *monitoringv1.Prometheus, monitors []*monitoringv1.ServiceMonitor, apiServer string) (*output, error) {
	client, err := corev1client.NewForConfig(&rest.Config{Host: apiServer})
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	store, events := assets.NewStoreBuilder(client, client), record.NewFakeRecorder(len(monitors))
	selector, err := generator.NewResourceSelector(log, p, store, nil, operator.NewMetrics(prometheus.NewRegistry()), events)
	if err != nil {
		return nil, err
	}
	selected, err := selector.SelectServiceMonitors(context.Background(), func(ns string, by labels.Selector, add cache.AppendFunc) error {
		for _, m := range monitors {
			if m.Namespace == ns && by.Matches(labels.Set(m.Labels)) {
				add(m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	writer, err := generator.NewConfigGenerator(log, p, generator.WithEndpointSliceSupport())
	if err != nil {
		return nil, err
	}
	config, err := writer.GenerateServerConfiguration(p, selected.ValidResources(), nil, nil, nil, store, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	result := &output{Config: string(config), Files: store.TLSAssets(), Dropped: []string{}}
	close(events.Events)
	for event := range events.Events {
		result.Dropped = append(result.Dropped, event)
	}
	return result, nil
}
