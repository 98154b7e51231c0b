// Package daemon has the subcommands that run until they are stopped: serve, migrate, analyze, ingest, notify and sidecar, the embedded
// broker, and the demo of all of them.
//
//	flags ──check──▶ daemon: client of Kafka, HTTP server, log ──▶ analyzer, feed, notifier or gate, until the context ends
//	flags ──check──▶ host: log in files, keeper, HTTP servers ──▶ analyzer, feed, notifier and gates, until the context ends
package daemon
