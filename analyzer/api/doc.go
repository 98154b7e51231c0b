// Package api is floodgate's HTTP API. It answers what the running analyzers know about a caller and why, and it takes what a person
// decides about one. schemas/openapi.yaml describes it, package apiv1 has its JSON, and the command line uses it.
//
//	GET  /v1/status, caller, callers, explain      what is counted; the owner of the caller's partition answers
//	GET  /v1/series                                what all owners counted in each of the last 900 seconds
//	GET  /v1/decisions, decisions/stream           what gates hold; from the topic of decisions
//	GET  /v1/actions, rules, rules/versions        control records, and by which rules callers are counted
//	POST /v1/try, rules/check                      whether requests would pass, and whether a file is right. Nothing changes
//	POST /v1/close, open, limit, reset, mode, undo writes one record to the control topic
//
// # Any analyzer answers
//
// A question about a caller is answered by the owner of the caller's partition. An analyzer that is not the owner forwards the
// question once, to the address in the newest heartbeat of that partition, and signs it with the key that all analyzers share.
// It does not send the user's token along. A forwarded question is never forwarded again. Records are not forwarded: any
// analyzer writes them to the control topic. It answers when the heartbeats say that owners have applied the record, or after
// two seconds.
//
// # Roles and tokens
//
// There are three roles: read, operate (also close, open, limit, reset, undo) and admin (also mode). A file has the SHA-256 of each
// token. Without that file the API listens on loopback only, and only answers questions, unless Config.LoopbackActs is set. A server
// that others can reach needs TLS and tokens: New refuses anything else with ErrExposed.
//
// # Browsers
//
// The dashboard at /ui is a page of this server, and asks it with fetch and the header Authorization. No other page can do that: there
// are no cookies. Host must be one of the names of the server, so that no stranger's name can point to it. Requests from pages of other
// sites are refused, even if they only read. The files of the dashboard need no token: they contain nothing secret. A program may print
// a link to its own dashboard (see Links). The link works once.
//
// # Chosen input
//
// A request has a header of at most 16 KiB and a body of at most 1 MiB. Answers and log lines repeat at most 128 bytes of a wrong
// value, and 512 bytes of a reason. There are at most 1024 streams, and 64 of one token.
//
// # Ids are bytes
//
// A caller is in the query or the body, never in the path: caller=kind:id, percent-encoded. Clients may send the id in the form that a
// person knows. The server turns it into the id that recorders count: the network of an IPv6 address, the hash of a long id. Answers
// have id_base64 where an id is not UTF-8.
package api
