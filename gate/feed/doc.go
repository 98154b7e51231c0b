// Package feed tells gates in other processes over HTTP which callers are closed. They keep it in their own memory, so that no request
// waits for this process. schemas/FEED.md specifies what is sent; package schemas/feed has the lines.
//
//	board.Board ──Subscribe──▶ stream, one for each reader ──▶ GET /v1/closed
//	kafkalink.Link ◀──Forward── Frames ◀────────────────────── POST /v1/frames
//
// All streams read one Board, so a reader more costs no connection to Kafka. A reader has a buffer of 64 KiB at most, and the Board's last
// changes. It is cut off and counted when it reads nothing for 10 s, or falls behind by more changes than the Board keeps.
//
// # Trust
//
// A feed tells which callers there are. On a Unix socket the rights to the file decide who may read it. At a TCP address a reader needs
// a key: see Options.Keys. Who may send frames can have any caller closed, as each server with access to the topic of requests can.
//
// # Chosen input
//
// The parameters of a request are bounded by the server's limit on headers. Clients choose the ids of callers: in a line, each byte
// is quoted where JSON needs it. At most 4096 frames wait at a time, of 64 MiB together: 5 s each for their bytes, and 10 s for Kafka. To
// check a frame costs some 0.1 µs for each entry.
package feed
