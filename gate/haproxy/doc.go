// Package haproxy keeps HAProxy's maps equal to what a board.Board holds, so that HAProxy refuses closed callers by itself: a request costs
// it a look-up in its own memory, and waits for nobody.
//
//	board.Board ──follow──▶ table: what each map is to have ──write──▶ Runtime API ──▶ maps of HAProxy
//	                          ▲                                                           │
//	                          └──────────── compare: after a restart, each minute ────────┘
//
// A Writer has one map for each kind of caller that HAProxy looks up. The entry of a caller has a key and a value:
//
//   - The key is the caller's id as HAProxy's converter url_enc writes it. So a stranger's id is never more than one word of letters,
//     digits, '%', '-', '.', '_' and '~', and no byte of it can be a command. An id with a zero byte is never found: url_enc ends there, and
//     HAProxy takes no request with one. Callers of kind ip have their address as key, or, where an IPv6
//     network is one client, that network: map_ip finds both.
//   - The value is until:rule:limit:window, such as 1795860000123:per-ip:100:60: when the caller's gate reopens, in Unix milliseconds, and
//     what the fields RateLimit and RateLimit-Policy need, with the window in seconds. A decision that has no limit gives until:rule.
//
// What closes a caller at a gate closes it here: the latest end of all rules in mode enforce counts, with the gates' jitter, early closures and
// the span that follows. Shares need a measure of each request, so HAProxy has none. Closures in mode shadow are not written: HAProxy would
// have to look up each caller once more to log what it does not refuse.
//
// # Time
//
// An entry that is over refuses nobody, because HAProxy compares until with its own clock. So HAProxy serves as decided if this process
// is away, and an ended entry may wait until there is time to take it out. An entry is written when its closure begins. If the clock was
// put back, all entries are looked at again.
//
// # What changes cost HAProxy
//
// HAProxy before 2.9 searches all of a map to change or delete an entry: 3 ms for 100,000 entries, in which one of its threads serves nobody.
// To add an entry takes microseconds in all versions. So new closures are written first and at once; then changes that matter now: a caller
// was opened, or its entry is about to end too early. All others, above all to take ended entries out, wait their turn and use about two
// percent of HAProxy's time. Where many changes wait, a new version of the whole map is cheaper: it is filled beside the current one and
// takes its place in one step.
//
// # Failures
//
// Each quarter of a second the Writer asks HAProxy for its process id and the number of entries of each map. If either differs from what
// it expects, HAProxy was started again or reloaded, or somebody else has changed a map. Then, and each minute, it reads the map, and writes
// what differs. What differs in the same process is counted as repaired. The maps belong to the Writer: it removes what it does not know,
// once the board is ready. A command that fails is not repeated: the maps are compared.
//
// # Bounds
//
// A Writer holds what the board holds: at most 250 bytes and the id for each closed caller of its kinds. A map has at most half as many
// ended entries as others, and 1000.
package haproxy
