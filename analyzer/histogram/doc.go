// Package histogram counts measurements by their size, in the form of a Prometheus histogram, without importing Prometheus.
//
//	Observe(0.03) ──▶ Histogram{≤ 0.01: 0, ≤ 0.1: 1, …} ──Snapshot──▶ a collector
package histogram
