#!/usr/bin/env bash
# Test the KServe participant on a real Apache Kafka broker, whose jars come from Maven Central. Where there is no Java or no
# Maven nothing is tested, and the script says NOT RUN; with REQUIRE=1 it fails then.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
	echo "test-kafka: NOT RUN, since there is no java or no mvn (Java 17 and Maven 3 are needed)" >&2
	[[ ${REQUIRE-} != 1 ]] || exit 1
	exit 0
fi
lib=$PWD/bin/kafka
if [ ! -e "$lib/complete" ]; then
	echo "test-kafka: fetching Apache Kafka from Maven Central"
	mvn -q -B -f test/kserve/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$lib"
	touch "$lib/complete"
fi
KAFKA_LIB=$lib go test -tags kafka -count=1 -timeout 10m -v -run TestRealKafka ./test/kserve
