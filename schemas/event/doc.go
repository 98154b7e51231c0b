// Package event is the format of the topic floodgate.events: what has happened to callers, what people decided, and which rules count.
// schemas/events.schema.json describes it for programs in other languages.
//
//	owner of requests[p] ── Event, as JSON ──▶ events[p] ──▶ notify, decisions --since, your own programs
//
// A message of the topic is one Event. Its order in a partition is the order of the log, but an owner that takes a partition over may
// write events again. Such a copy has the same ID: what an event says is a function of the log, so an owner that counts again says the
// same again. Readers drop the ids that they have seen.
//
// Later versions may write other fields and types. Readers pass over both: Decode ignores fields that it does not know, and
// Event.Known says whether a type is one of this version.
package event
