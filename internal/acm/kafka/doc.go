// Package kafka carries ACM messages over Apache Kafka: operations through a consumer group that all replicas of a participant
// share, synchronizations through one of their own.
//
// Records are committed after what follows from them is stored, so that a crash has them delivered again and loses none. Static
// membership under the replica's id lets a new leader take over at once and fences the one before. Where a group has no
// position yet, the one of its first assignment is committed at once, so that orders sent while nobody listens later on are
// not skipped.
package kafka
