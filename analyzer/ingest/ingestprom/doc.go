// Package ingestprom shows an ingest to Prometheus: what its feed has read, made and sent, and how far it is in each source.
//
//	Feed.Stats ──▶ Collector ◀──scrape── Prometheus
//
// It reads a snapshot when it is scraped, and costs nothing between. All names begin with floodgate_ingest_. The label
// source is a file or a partition of a foreign topic; no label has a value that clients choose.
package ingestprom
