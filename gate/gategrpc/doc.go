// Package gategrpc puts gates before a gRPC server: it finds a call's callers, asks their gates, records the call, and
// refuses it with ResourceExhausted if a gate is closed.
//
//	call ─▶ Callers ─▶ Set.Check ─┬─ open ───▶ handler ──▶ Recorder.Respond, if it wants responses
//	                       │      └─ closed ─▶ OnClosed, or ResourceExhausted
//	                       └─▶ Recorder.Record
//
// Calls are recorded when they arrive, under their full method, such as "/shop.Items/Get". The gates do not see how an
// interceptor before them changes errors and panics. So let the gates be the first interceptors. Only interceptors that
// must see refused calls too, such as metrics, come before them.
//
// # Streams
//
// A stream is one request: it is checked and recorded when it starts, and has one response. A stream that was admitted goes
// on when a gate closes. With Options.EachMessage each message of the client counts as a request. The first message counts
// as the call itself; each further one is checked and recorded when it arrives. If a gate refuses a message, RecvMsg of the
// server fails from then on, with the error that a new call would get, and handlers return it. Messages of the server are
// not requests.
//
// grpc-go reads the message of a unary call before it calls interceptors, and refuses methods that it does not know without
// calling them.
//
// # Holds
//
// With record.Options.Holds a call holds a part of its callers' limits from its arrival until its response is recorded, as in package
// gatehttp. A stream ends when its handler returns. A Recorder that holds and EachMessage exclude each other.
//
// # The callers of a call
//
// Ids are counted in the form that package schemas gives them, as in package gatehttp.
//
// # Status numbers
//
// Entries of responses have one status number, which rules match as 404 or 5xx. HTTPStatus returns the number for a gRPC
// code: the HTTP status in google/rpc/code.proto, so that one rule limits failures of both kinds of server.
//
// # The answer to refused calls
//
// ResourceExhausted with the detail RetryInfo and, if the rule is known, QuotaFailure. The trailer retry-after contains
// whole seconds, rounded up, at least 1.
//
// The retry policy of a gRPC client reads neither of them. If it names RESOURCE_EXHAUSTED, it tries again within
// milliseconds, and each attempt would be recorded as a request. So the gates also set the trailer grpc-retry-pushback-ms,
// which gRPC clients do read (gRPC proposal A6). It forbids such attempts: the call fails at once, and RetryInfo tells the
// program when to try again.
//
// # Chosen input
//
// The gates read only those keys of the metadata that callers are made of, and only the first value of each. Of
// x-forwarded-for they read from the end to the first address that is not a proxy's. Options.RejectRepeated reads all values
// of its keys. grpc-go limits the length of metadata (MaxHeaderListSize).
package gategrpc
