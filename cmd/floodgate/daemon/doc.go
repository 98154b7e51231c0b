// Package daemon has the subcommands that run until they are stopped: analyze, ingest, notify and sidecar, serve, which is all of them on one
// host, the embedded broker, and the demo.
//
//	flags ──check──▶ daemon: client of Kafka, HTTP server, log ──▶ analyzer, feed, notifier or gate, until the context ends
//	flags ──check──▶ host: log in files, keeper, HTTP servers ──▶ analyzer, feed, notifier and gates, until the context ends
package daemon
