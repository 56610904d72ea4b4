#!/usr/bin/env bash
# The demo: boots a real control plane, starts the operator, applies the manifests of TrustyAI ADR 3 and of the tutorial
# on TensorFlow Serving unchanged, and a small Kubeflow, shows them become Ready, breaks one, and shows it repaired. It
# stays up until Ctrl-C on a terminal, or with DEMO_EXIT=0, and serves the console in the browser; otherwise, or with
# DEMO_EXIT=1, it ends after the show.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/mlkeeper-demo.XXXXXX")
export DEVCLUSTER_DIR="$dir/cluster" KUBECONFIG="$dir/cluster/kubeconfig"
ns=model-namespace
manager_pid=
broker_pid=

say() { printf '\n\033[1m==> %s\033[0m\n' "$*"; }
kubectl() { bin/devcluster kubectl "$@"; }

finish() {
	status=$?
	trap - EXIT INT TERM HUP
	if [ -n "$manager_pid" ]; then
		kill "$manager_pid" 2>/dev/null || true
		wait "$manager_pid" 2>/dev/null || true
	fi
	[ -z "$broker_pid" ] || kill "$broker_pid" 2>/dev/null || true
	bin/devcluster down >/dev/null 2>&1 || true
	if [ "$status" -ne 0 ] && [ -s "$dir/manager.log" ]; then
		echo "The demo failed. The last lines of the operator's log:" >&2
		tail -n 20 "$dir/manager.log" >&2
	fi
	rm -rf "$dir"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ready KIND NAME waits until a custom resource is Ready and prints its line whenever it changes.
ready() {
	local line last=
	for _ in $(seq 1 600); do
		line=$(kubectl -n "$ns" get "$1" "$2" --no-headers 2>/dev/null || true)
		if [ "$line" != "$last" ]; then
			echo "    $line"
			last=$line
		fi
		if [ "$(kubectl -n "$ns" get "$1" "$2" \
			-o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null)" = True ]; then
			return 0
		fi
		sleep 0.2
	done
	echo "It did not become Ready within two minutes." >&2
	kubectl -n "$ns" get "$1" "$2" -o yaml >&2 || true
	return 1
}

say "Booting a Kubernetes control plane"
bin/devcluster up --detach --crds route,servicemonitor,inferenceservice

say "Starting an in-process Kafka broker for the KServe participant"
CGO_ENABLED=0 go build -o bin/tools/acm ./hack/demo/acm
bin/tools/acm broker --config "$dir/application.yaml" &
broker_pid=$!
for _ in $(seq 1 100); do
	[ -s "$dir/application.yaml" ] && break
	sleep 0.1
done

say "Installing MLKeeper's definitions and starting the operator"
kubectl apply --server-side -k config/crd
established() { kubectl wait --for=condition=Established --timeout=60s crd --all >/dev/null; }
# While the conditions of a new definition are null, the command fails at once.
established 2>/dev/null || { sleep 2 && established; }
kubectl create namespace mlkeeper-system
# Like config/components/trusted: the authors of the KfDef and the SeldonOperator below are trusted.
bin/mlkeeper manager --kubeconfig "$KUBECONFIG" --leader-election-namespace mlkeeper-system --allow-operator-privileges=kubeflow,seldon \
	--participant-config "$dir/application.yaml" --metrics-bind-address 0 --health-probe-bind-address 0 \
	2>"$dir/manager.log" &
manager_pid=$!

say "A namespace with a PersistentVolume and ModelMesh's configuration"
kubectl create namespace "$ns"
# ONAP's orders go into namespaces that say so.
kubectl label namespace "$ns" keeper.mlkeeper.dev/compositions=allowed
kubectl -n "$ns" apply -f hack/demo/prerequisites.yaml

say "The manifest of TrustyAI ADR 3, unchanged"
kubectl -n "$ns" apply -f config/samples/trustyai-service.yaml
ready trustyaiservice trustyai-service-example

say "The manifests of the tutorial on TensorFlow Serving, unchanged"
kubectl -n "$ns" apply -f config/samples/tfserv.yaml
ready tfserv tfserv-sample

say "A small Kubeflow: a KfDef of four applications, with APIs that Kubernetes has removed since"
tar -C hack/demo/kubeflow/manifests -czf "$dir/manifests.tar.gz" .
kubectl -n "$ns" create configmap small-kubeflow --from-file=manifests.tar.gz="$dir/manifests.tar.gz"
kubectl -n "$ns" apply -f hack/demo/kubeflow/kfdef.yaml
ready kfdef small-kubeflow
kubectl -n "$ns" get kfdef small-kubeflow \
	-o 'jsonpath={range .status.applications[*]}    {.name}: {.phase}, {.ready} of {.objects} objects{"\n"}{end}'

say "The Seldon stack with analytics, from small stand-in charts: the real ones are fetched where there is a network"
for chart in seldon-core-operator seldon-deploy seldon-core-analytics; do
	tar -C hack/demo/seldon/charts -czf "$dir/$chart.tgz" "$chart"
done
kubectl -n "$ns" create configmap seldon-charts --from-file="$dir/seldon-core-operator.tgz" \
	--from-file="$dir/seldon-deploy.tgz" --from-file="$dir/seldon-core-analytics.tgz"
kubectl -n "$ns" apply -f hack/demo/seldon/seldonoperator.yaml
ready seldonoperator seldonoperator-sample
kubectl -n "$ns" get seldonoperator seldonoperator-sample \
	-o 'jsonpath={range .status.components[*]}    {.name}: {.chart} {.version}, {.ready} of {.objects} objects{"\n"}{end}'

say "ONAP orders an InferenceService: register, prime, deploy, over the broker"
bin/tools/acm workflow --config "$dir/application.yaml" --payload hack/demo/acm/sklearn-iris.yaml --namespace "$ns"
kubectl get compositionelements
kubectl -n "$ns" get inferenceservice sklearn-iris

say "What it made"
bin/mlkeeper status --kubeconfig "$KUBECONFIG" -n "$ns"
echo
kubectl -n "$ns" get configmap model-serving-config -o 'jsonpath={.data.config\.yaml}'

say "Somebody deletes the Service"
before=$(kubectl -n "$ns" get service trustyai-service -o 'jsonpath={.metadata.uid}')
kubectl -n "$ns" delete service trustyai-service
for _ in $(seq 1 100); do
	after=$(kubectl -n "$ns" get service trustyai-service -o 'jsonpath={.metadata.uid}' 2>/dev/null || true)
	[ -n "$after" ] && [ "$after" != "$before" ] && break
	sleep 0.1
done
if [ -z "$after" ] || [ "$after" = "$before" ]; then
	echo "The Service did not come back." >&2
	exit 1
fi
echo "    it is back: $(kubectl -n "$ns" get service trustyai-service --no-headers)"
ready trustyaiservice trustyai-service-example

if [ "${DEMO_EXIT:-}" = 0 ] || { [ -t 0 ] && [ -t 1 ] && [ -z "${DEMO_EXIT:-}" ]; }; then
	say "The cluster stays up until Ctrl-C. In another terminal:"
	echo "    export KUBECONFIG=$KUBECONFIG"
	echo "    bin/devcluster kubectl -n $ns get trustyaiservice -w"
	say "The same in the browser"
	bin/mlkeeper console --kubeconfig "$KUBECONFIG" --no-open --allow-actions
	exit
fi
say "Done"
