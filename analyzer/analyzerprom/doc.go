// Package analyzerprom shows an analyzer to Prometheus: what the owner of each partition has counted and decided, how far it is and in
// which state; what each rule did; what is in force by hand; and the disk.
//
//	Analyzer.Stats ──▶ Collector ◀──scrape── Prometheus
//
// It reads a snapshot when it is scraped, and costs nothing between. The number of series is bounded by partitions and rules: no label
// has a value that a caller could choose, and callers are never named. What a rule did has the label rule and no partition, because
// partitions × rules would be thousands of series; these sums do not fall when a partition is given away. deploy/prometheus has alerts.
//
// There is no OpenTelemetry here. Traces follow one request through calls, and here there are none to follow: a request is written to
// Kafka with others that are equal to it, is counted with thousands in one batch, and what comes of it is a decision about its caller.
// What traces would say is said otherwise: how late decisions are, by floodgate_decision_lag_seconds here and by canaries at each gate
// (floodgate_link_lag_seconds), and why a caller is closed, by the evidence in its decision, with the offsets of the log. A collector
// of OpenTelemetry reads /metrics as Prometheus does.
package analyzerprom
