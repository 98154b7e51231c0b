// Package notifyprom shows a notifier to Prometheus: its attempts to deliver, what is delivered, dropped and pending, and which
// endpoints are disabled.
//
//	Config.Observe ──▶ Collector ◀──scrape── Prometheus
//	Notifier.Stats ──▶     ┘
//
// It counts attempts when they end, and reads a snapshot of the rest when it is scraped. All names begin with floodgate_webhook_ or
// floodgate_notify_. The label endpoint is a name of the settings; no label has a value that callers choose.
package notifyprom
