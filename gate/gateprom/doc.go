// Package gateprom exports metrics of a server's gates to Prometheus: how many callers are closed and how old the decisions
// are (Set), the outcome of recorded requests (Recorder), and the state of the connection to Kafka (Link).
//
//	Set.Status ──────┐
//	Recorder.Stats ──┼─▶ Collector ◀──scrape── Prometheus
//	Link.Stats ──────┘
//
// The Collector reads snapshots when it is scraped, and costs nothing between scrapes. All names begin with
// floodgate_gate_, floodgate_recorder_ or floodgate_link_; deploy/prometheus has alerts on them. No label contains what a
// client chooses: no metric names a caller.
//
// A series that has no value yet is left out; it is not 0. For example, decisions have no age before the first heartbeat.
//
// # Several sets
//
// A process with several Sets registers a Collector for each, and adds a label to distinguish them:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"set": "public"}, registry).MustRegister(gateprom.New(…))
package gateprom
