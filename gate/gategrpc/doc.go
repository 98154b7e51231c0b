// Package gategrpc puts gates before a gRPC server: it finds a call's callers, asks their gates, records the call, and
// refuses it with ResourceExhausted if a gate is closed.
//
//	call ─▶ Callers ─▶ Set.Check ─┬─ open ───▶ handler ──▶ Recorder.Respond, if it wants responses
//	                       │      └─ closed ─▶ OnClosed, or ResourceExhausted
//	                       └─▶ Recorder.Record
//
// Calls are recorded when they arrive, under their full method, such as "/shop.Items/Get". Interceptors that stand
// before the gates and change errors, or hide panics, are not seen: let the gates be the first, or follow only what must
// see refused calls too, such as metrics.
//
// # Streams
//
// A stream is one request: it is checked, and recorded, when it starts, and ends once. What was admitted is not cut off
// when a gate closes meanwhile. With Options.EachMessage the messages of the client count instead, the first as the
// call's own: each further one is an arrival of its own, and while a gate is closed the server's RecvMsg fails, for good,
// with the error that a new call would have got; handlers return it. Messages of the server are not requests.
//
// grpc-go reads the message of a unary call before it asks interceptors, and refuses methods that it does not know
// without asking them.
//
// # Status numbers
//
// Entries of responses have one status number, which rules match as 404 or 5xx. HTTPStatus says which stands for a gRPC
// code: the one of google/rpc/code.proto, so that one rule limits failures of both kinds of server.
//
// # The answer to refused calls
//
// ResourceExhausted with the detail RetryInfo, and where the rule is known QuotaFailure; and the trailer retry-after in
// whole seconds, rounded up, at least 1.
//
// A client's retry policy knows neither, and tries again within milliseconds where it names RESOURCE_EXHAUSTED; each
// attempt would be a request, and recorded. So the trailer grpc-retry-pushback-ms, which gRPC's clients do know (gRPC
// proposal A6), tells it not to: the call fails at once, and who made it finds in RetryInfo when to try again.
package gategrpc
