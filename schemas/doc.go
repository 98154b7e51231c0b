// Package schemas holds the words that every part of floodgate shares: what a server reports (Entry, Frame), what the
// analyzer decides (Decision), and who both are about (Caller).
//
//	server ──Entry──▶ Frame ──Kafka──▶ analyzer ──Decision──▶ gate
//	                  partition = SipHash(key, caller) mod P
//
// The types are plain and the package imports only the standard library, so that a server which embeds a gate gets
// nothing else with it. Frames are the flat layout of FRAME.md; decisions travel as the protobuf messages of package
// schemas/pb, which only the two ends of the Kafka link import.
//
// All times on the wire and in these types are integer nanoseconds since the Unix epoch.
package schemas
