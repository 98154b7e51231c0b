// Package sidecarprom exports metrics of a sidecar to Prometheus: how many requests it was asked about, and its answers.
//
//	Sidecar.Stats ──▶ Collector ◀──scrape── Prometheus
//
// It reads a snapshot when it is scraped, and costs nothing between. Package gateprom exports the metrics of the sidecar's
// gates. It is a package of its own, so that gateprom does not link gRPC and the packages of Envoy.
package sidecarprom
