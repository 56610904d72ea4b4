#!/usr/bin/env bash
# Test the KServe participant on a real Apache Kafka broker, whose jars come from Maven Central. Where there is no Java or no
# Maven nothing is tested, and the script says NOT RUN; with REQUIRE=1 it fails then.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/kafka.sh

kafka_lib test-kafka
go test -tags kafka -count=1 -timeout 10m -v -run TestRealKafka ./test/kserve
