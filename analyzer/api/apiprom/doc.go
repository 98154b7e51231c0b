// Package apiprom shows the API of an analyzer to Prometheus: how many requests each route had, which answers were problems, and how
// long answers took.
//
//	Server.Stats ──▶ Collector ◀──scrape── Prometheus
//
// It reads a snapshot when it is scraped, and costs nothing between. All names begin with floodgate_api_. No label has a value that
// clients choose: paths that do not exist are one route, other.
package apiprom
