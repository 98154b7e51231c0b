// Package httpd is the HTTP server of floodgate's daemons: one mux, one Prometheus registry, /metrics, /healthz, /readyz,
// bounds on the time and memory of a connection, and a stop that lets running requests finish.
//
//	Handle ──▶ mux ◀── /healthz: the process runs
//	Report ──┬─▶ /readyz: what the daemon waits for, or ok
//	        └─▶ registry ──▶ /metrics
//	Listen ──▶ Run(ctx) ──▶ stops when ctx ends
//
// A daemon adds its own routes with Handle, a line each. The server answers from the start, also while the daemon still
// waits for Kafka, so that a health check can distinguish a daemon that waits from one that is dead.
package httpd
