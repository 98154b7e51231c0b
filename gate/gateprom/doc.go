// Package gateprom shows a server's gates to Prometheus: what the Set knows and how old that is, what became of what the
// Recorder recorded, and how the link is.
//
//	Set.Status ──────┐
//	Recorder.Stats ──┼─▶ Collector ◀──scrape── Prometheus
//	Link.Stats ──────┘
//
// It reads snapshots when it is scraped, and costs nothing between. All names begin with floodgate_gate_,
// floodgate_recorder_ or floodgate_link_; deploy/prometheus has alerts on them. No metric has a label that clients choose:
// callers are never named.
//
// Series of a number that there is not yet are left out rather than 0: there is no age of decisions before the first
// heartbeat.
//
// # Several sets
//
// A process with several Sets registers a Collector for each, told apart by a label:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"set": "public"}, registry).MustRegister(gateprom.New(…))
package gateprom
