# shellcheck shell=bash
# Sourced: where the jars of an Apache Kafka are, which come from Maven Central.

# kafka_lib name: sets KAFKA_LIB, for the script of that name. Without Java or Maven it says NOT RUN and ends the script; with REQUIRE=1 that
# is a failure.
kafka_lib() {
	if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
		echo "$1: NOT RUN, since there is no java or no mvn (Java 17 and Maven 3 are needed)" >&2
		[[ ${REQUIRE-} != 1 ]] || exit 1
		exit 0
	fi
	KAFKA_LIB=$PWD/bin/kafka
	if [ ! -e "$KAFKA_LIB/complete" ]; then
		echo "$1: fetching Apache Kafka from Maven Central"
		mvn -q -B -f test/kserve/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$KAFKA_LIB"
		touch "$KAFKA_LIB/complete"
	fi
	export KAFKA_LIB
}
