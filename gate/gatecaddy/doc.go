// Package gatecaddy puts gates into Caddy: the app "floodgate", which connects the gates of a Caddy to Kafka, and the handler
// "http.handlers.floodgate", which asks them. The answer comes from the memory of Caddy: a request waits for nothing.
//
//	request ─▶ Handler ─▶ gatehttp ─┬─ open ───▶ next handler
//	              │                 └─ closed ─▶ error 429: handle_errors, or an empty body
//	              ▼
//	app floodgate: Set, Recorder, Link ◀─▶ Kafka
//
// # In a Caddyfile
//
// The global option connects, and the directive asks. Each has the options of "floodgate sidecar", with _ in place of -:
//
//	{
//		floodgate {
//			brokers kafka1:9092 kafka2:9092
//			partition_key_file /etc/floodgate/partition.key
//		}
//	}
//	example.com {
//		floodgate {
//			callers key=X-Api-Key ip_route=ip+{path}
//		}
//		reverse_proxy 127.0.0.1:3000
//	}
//
// Type App has all options of the first, and Handler those of the second. The directive stands before redir in Caddy's order, so
// before all that answers, rewrites or asks for a password. For callers that basic_auth finds, {http.auth.user.id}, write "order
// floodgate after basic_auth".
//
// # The address of a client
//
// It is the one that Caddy itself uses, {client_ip}: see trusted_proxies of Caddy's global option servers. Behind proxies that
// append to X-Forwarded-For, also set trusted_proxies_strict there. Otherwise Caddy takes the first address of the field, which
// each client can forge: it passes its own gate, and closes that of another client.
//
// # The answer to refused requests
//
// It is a Caddy error of status 429, with the fields of package gatehttp. So handle_errors can show a page of your own; without it
// the body is empty, as for all errors of Caddy. For access logs (log_append) and error pages there are these placeholders. They
// are unknown for requests that no closure concerns:
//
//	{http.floodgate.verdict}  closed, stale (refused because decisions are stale), or shadow (admitted: the rule is in mode shadow)
//	{http.floodgate.rule}     the rule that closed the caller; empty if stale
//	{http.floodgate.caller}   the closed caller, such as ip:203.0.113.9; empty if stale
//
// # Reload
//
// A reload keeps the gates and the link if the options of the app and the content of the files that they name are the same. It may
// change shadow, and all handlers. Otherwise the new link reads all decisions first, for at most 5 s, while the configuration before
// serves. So in both cases a closed caller stays closed. If the options have changed, the responses of requests that run during the
// reload are not recorded, and the log says so.
//
// # Metrics and logs
//
// Caddy's own metrics (admin endpoint, directive metrics) have those of package gateprom. The log says when the link is up or down.
package gatecaddy
