package monitoring

import (
	"fmt"
	"strings"
)

// Rule is one alert, as Prometheus reads it.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Group is one group of rules.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Runbooks is the address of the page that has a section for each alert: docs/operations.md, as make docs writes it.
const Runbooks = "https://mlkeeper.dev/docs/operations.html"

// alert is a rule before it gets its runbook.
type alert struct {
	name, expr, wait, severity string
	summary, description       string
}

// rule returns the rule with its section of the page of runbooks. Tools make a link of an annotation with this name.
func (a alert) rule(runbooks string) Rule {
	return Rule{
		Alert: a.name, Expr: a.expr, For: a.wait, Labels: map[string]string{"severity": a.severity},
		Annotations: map[string]string{
			"summary": a.summary, "description": a.description,
			"runbook_url": runbooks + "#" + strings.ToLower(a.name),
		},
	}
}

// Alerts are the rules for the metrics of a catalog. stalled are the reasons of Ready that wait for a change of the
// user's, and runbooks is the address of the page with a section for each alert.
func Alerts(c Catalog, stalled []string, runbooks string) ([]Group, error) {
	w := newWriter(c)
	var out []Group
	for _, g := range []struct {
		name   string
		alerts []alert
	}{
		{"mlkeeper-resources", w.resourceAlerts(stalled)},
		{"mlkeeper-manager", w.managerAlerts()},
		{"mlkeeper-participant", w.participantAlerts()},
	} {
		group := Group{Name: g.name}
		for _, a := range g.alerts {
			group.Rules = append(group.Rules, a.rule(runbooks))
		}
		out = append(out, group)
	}
	return out, w.err()
}

// resourceAlerts are about custom resources.
func (w *writer) resourceAlerts(stalled []string) []alert {
	waits := strings.Join(stalled, "|")
	notReady := w.of("mlkeeper_not_ready_since_timestamp_seconds")
	repairs := w.of("mlkeeper_most_drift_corrections")
	objects := w.of("mlkeeper_managed_objects")
	rollout := w.of("mlkeeper_rollout_started_timestamp_seconds")
	suspended := w.of("mlkeeper_suspended")
	return []alert{
		{
			// The time is that of one custom resource. A count of them is never zero where always another one progresses, so that it cannot be held.
			name: "MLKeeperNotReady", wait: "2m", severity: "warning",
			expr:    notReady.where("reason", "!~", waits).longer("1800", "kind", "reason"),
			summary: "A {{ $labels.kind }} has not been Ready for {{ $value | humanizeDuration }} ({{ $labels.reason }})",
			description: "It waits for a missing dependency, or every retry fails. `mlkeeper status -A` lists it and " +
				"`mlkeeper explain` says what it needs.",
		},
		{
			name: "MLKeeperStalled", wait: "2m", severity: "warning",
			expr:        notReady.where("reason", "=~", waits).longer("600", "kind", "reason"),
			summary:     "A {{ $labels.kind }} has not been Ready for {{ $value | humanizeDuration }} and is Stalled ({{ $labels.reason }})",
			description: "Its spec or another input cannot be satisfied, and only a change of it helps. The message of Ready names field, value and remedy.",
		},
		{
			name: "MLKeeperObjectFailed", wait: "15m", severity: "warning",
			expr:        objects.by("sum", objects.where("health", "=~", "Failed|Missing").now(), "kind", "health") + " > 0",
			summary:     "{{ $value }} objects of {{ $labels.kind }} are {{ $labels.health }}",
			description: "They do not recover automatically. `mlkeeper tree -A` shows which ones and why.",
		},
		{
			name: "MLKeeperRolloutOverdue", wait: "1m", severity: "warning",
			expr:    "time() - " + rollout.by("max", rollout.now(), "holder") + " > 600",
			summary: "A rollout in namespace {{ $labels.holder }} has not finished within ten minutes",
			description: "Its pods were restarted for a change of the operator, such as another default image, and are not Ready. The next " +
				"namespace follows now: if the release is the cause, return to the previous one.",
		},
		{
			name: "MLKeeperSuspended", wait: "7d", severity: "warning",
			// The series of a manager ends with it, and that of the next one begins later: an evaluation between them would begin the week anew.
			expr:    "max_over_time((" + suspended.by("sum", suspended.now(), "kind") + ")[15m:1m]) > 0",
			summary: "{{ $value }} {{ $labels.kind }} have been suspended for a week",
			description: "Nothing of them is written: certificates are not renewed, and changed credentials and images with security fixes are not " +
				"rolled out. `mlkeeper status -A` lists them.",
		},
		{
			name: "MLKeeperDriftLoop", wait: "15m", severity: "warning",
			expr:    repairs.by("max", repairs.now(), "kind") + " > 3",
			summary: "Another writer keeps changing, deleting or making a {{ $labels.kind }} that MLKeeper manages",
			description: "It was corrected {{ $value }} times without being left alone for ten minutes: two writers change the same fields, or one deletes " +
				"what MLKeeper makes, or makes what it deletes. MLKeeper cedes a field to one other manager after 3 conflicts in 10 min (condition " +
				"FieldManagerConflict), but not to several. The condition Ready of the custom resource has reason RepairBackOff or RecreationBackOff.",
		},
	}
}

// managerAlerts are about the operator itself.
func (w *writer) managerAlerts() []alert {
	requests := w.of("mlkeeper_api_requests_total")
	failing := w.of("mlkeeper_failing_since_timestamp_seconds")
	busy := w.of("mlkeeper_continuous_reconciles_since_timestamp_seconds")
	writes := w.of("mlkeeper_writes_total")
	leader := w.of("leader_election_master_status")
	shards := w.of("mlkeeper_shard_held")
	panics := w.of("controller_runtime_reconcile_panics_total")
	depth := w.of("workqueue_depth")
	refused := w.of("mlkeeper_refused_watches_total")
	notReady := w.of("mlkeeper_not_ready_since_timestamp_seconds")
	return []alert{
		{
			name: "MLKeeperDown", wait: "3m", severity: "critical",
			// Not absent(), which is true as well where nothing scrapes the manager, or MLKeeper is not there yet. A manager that crashes again and
			// again is scraped now and then, which would end the alert; a part of the time does not. Where Prometheus itself was away, the
			// part is too small for two and a half minutes.
			expr: fmt.Sprintf("group(present_over_time(%s[1d] offset 10m)) and on () avg_over_time((group(%[1]s) or on () vector(0))[5m:30s]) < 0.5",
				requests.series("")),
			summary: "No manager of MLKeeper is running",
			description: "One was scraped within the last day, and none is now. The managed systems keep running, but nothing is corrected, created " +
				"or updated.",
		},
		{
			name: "MLKeeperNoLeader", wait: "2m", severity: "critical",
			expr:        leader.by("max", leader.where("name", "=~", `mlkeeper.*`).now(), "name") + " == 0",
			summary:     "No manager holds the lease {{ $labels.name }}",
			description: "Managers run, but none holds the lease, so none writes.",
		},
		{
			name: "MLKeeperShardNotHeld", wait: "2m", severity: "critical",
			// Shard 0 is that of the leader, whose alert is another one.
			expr:        shards.by("max", shards.where("shard", "!=", "0").now(), "shard") + " == 0",
			summary:     "No manager holds shard {{ $labels.shard }}",
			description: "Managers run, but none reconciles the namespaces of this shard. The log of a manager that takes no shard says what it waits for.",
		},
		{
			name: "MLKeeperReconcileErrors", severity: "warning",
			expr:    failing.longer("900", "kind"),
			summary: "Reconciles of a {{ $labels.kind }} keep failing",
			description: "For {{ $value | humanizeDuration }}, each has ended in an error that should be temporary. The log and the condition " +
				"Reconciling have the error.",
		},
		{
			name: "MLKeeperPanics", severity: "critical",
			expr:        panics.by("sum", w.ours(panics.increase("15m")), "controller") + " > 0",
			summary:     "A reconcile of {{ $labels.controller }} panicked",
			description: "That is a bug; the log has the stack trace. MLKeeper retries the custom resource with backoff.",
		},
		{
			name: "MLKeeperContinuousWrites", wait: "1h", severity: "warning",
			expr:    writes.by("sum", writes.where("reason", "!=", "Missing").rate("10m"), "kind", "verb", "reason") + " > 0.05",
			summary: "{{ $labels.kind }}s have been written continuously for an hour ({{ $labels.verb }}, {{ $labels.reason }})",
			description: "{{ $value | humanize }} writes per second. In the steady state there are none: another writer changes the objects back, " +
				"or the API server stores something else than MLKeeper wrote.",
		},
		{
			name: "MLKeeperContinuousReconciles", severity: "warning",
			expr:    busy.longer("3600", "kind"),
			summary: "A {{ $labels.kind }} has been reconciled continuously for {{ $value | humanizeDuration }}",
			description: "It was reconciled more than once in twenty seconds all the time. In the steady state, and during a lasting failure, that " +
				"happens a few times an hour: an object changes all the time, or MLKeeper loops.",
		},
		{
			name: "MLKeeperQueueDepth", wait: "15m", severity: "warning",
			expr:        depth.by("max", w.ours(depth.now()), "name") + " > 100",
			summary:     "{{ $value }} custom resources are in the queue {{ $labels.name }}",
			description: "The manager does not keep up: the API server is slow, or --concurrency is too small.",
		},
		{
			name: "MLKeeperWatchMissing", wait: "15m", severity: "warning",
			// Not the refused requests, among which are those with the rights of others.
			expr: refused.by("sum", refused.increase("15m"), "group", "resource") + " > 0 or " +
				notReady.where("reason", "=", "CacheNotSynced").longer("900", "kind"),
			summary:     "A watch of the manager is refused or cannot be opened",
			description: "Changes of the objects that it may not watch go unnoticed. The log names the missing right, and /readyz fails.",
		},
	}
}

// participantAlerts are about the KServe participant of an ACM runtime. Its series exist where one runs.
func (w *writer) participantAlerts() []alert {
	registered, connected := w.of("mlkeeper_acm_registered"), w.of("mlkeeper_acm_topic_connected")
	lag, pending := w.of("mlkeeper_acm_topic_lag_records"), w.of("mlkeeper_acm_pending_orders")
	oldest, unsent, failing := w.of("mlkeeper_acm_oldest_order_age_seconds"), w.of("mlkeeper_acm_unsent_reports"), w.of("mlkeeper_acm_failing_steps")
	return []alert{
		{
			name: "MLKeeperParticipantNotRegistered", wait: "5m", severity: "critical",
			expr:        registered.by("max", registered.now()) + " == 0",
			summary:     "The ACM runtime has not acknowledged the registration of the KServe participant",
			description: "It gives no orders to a participant that it does not know. The log says which topics are read, and what to check.",
		},
		{
			name: "MLKeeperParticipantDisconnected", wait: "5m", severity: "critical",
			expr:        connected.by("max", connected.now(), "topic") + " == 0",
			summary:     "Topic {{ $labels.topic }} cannot be read or written",
			description: "Orders or synchronizations do not arrive, or acknowledgements do not. The log has the broker's reason.",
		},
		{
			name: "MLKeeperParticipantBehind", wait: "15m", severity: "warning",
			expr:        lag.by("max", lag.now(), "topic") + " > 100",
			summary:     "{{ $value }} records of topic {{ $labels.topic }} are not done with",
			description: "The participant does not keep up with the topic, or an order before them cannot be stored.",
		},
		{
			name: "MLKeeperParticipantBlocked", wait: "10m", severity: "critical",
			expr:        failing.by("max", failing.now()) + " > 0",
			summary:     "An order cannot be stored or answered, and those behind it wait",
			description: "The API server or the broker does not take what the order needs. The log and health have the reason.",
		},
		{
			name: "MLKeeperOrdersPending", wait: "15m", severity: "warning",
			expr:        pending.by("max", pending.now()) + " > 0",
			summary:     "{{ $value }} orders of the ACM runtime wait for a revision",
			description: "The runtime does not send the revision that they were made for; after an hour they are dropped. Check the topic of synchronizations.",
		},
		{
			name: "MLKeeperOrderOverdue", wait: "5m", severity: "warning",
			expr:        oldest.by("max", oldest.now()) + " > 1800",
			summary:     "An order of the ACM runtime has neither succeeded nor failed for half an hour",
			description: "The runtime has set TIMEOUT long before. `kubectl get compositionelements,pendingorders` shows what it waits for.",
		},
		{
			name: "MLKeeperReportsUnsent", wait: "10m", severity: "warning",
			expr:        unsent.by("max", unsent.now()) + " > 0",
			summary:     "The ACM runtime does not know the outcome or state of {{ $value }} elements",
			description: "The broker does not take the acknowledgements. MLKeeper sends them until it does.",
		},
	}
}
