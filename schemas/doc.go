// Package schemas holds the types that every part of floodgate shares: what a server reports (Entry, Frame), what the
// analyzer decides (Decision), and which client both are about (Caller).
//
//	server ──Entry──▶ Frame ──Kafka──▶ analyzer ──Decision──▶ gate
//	                  partition = SipHash(key, caller) mod P
//
// The types are plain and the package imports only the standard library, so that a server that embeds a gate links nothing
// else. FRAME.md specifies frames. DECISIONS.md specifies how decisions travel: as the protobuf messages of package schemas/pb,
// which only the two ends of the Kafka link import.
//
// The package also says what the id of a caller is: see IDs, ID and Part. Gates, sidecars, ingest and rules call these, so that
// one client has one id everywhere.
//
// All times on the wire and in these types are integer nanoseconds since the Unix epoch.
//
// # Chosen input
//
// Ids of entries are chosen by clients:
//   - PartitionKey.Hash is SipHash-2-4. With a secret key no client can choose ids of one partition; with
//     DefaultPartitionKey, which is public, every client can. Use it to choose partitions only, never to index a table.
//   - FrameEncoder and Decode cost the bytes of a frame, which are bounded by MaxFrame and MaxFrameEntries. Equal strings
//     are found by a Go map, which is seeded.
package schemas
