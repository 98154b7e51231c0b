// Package gate answers one question on the path of every request: is this caller's gate closed now?
//
// The decisions come from elsewhere (kafkalink reads them from Kafka); the answer takes no lock, no allocation and no
// I/O. The nouns:
//
//   - Set: all the gates of a process. One writer applies decisions to it, any number of goroutines ask it.
//   - Gate: the closed callers of one kind, such as "ip" or "key".
//   - Callers: who one request is from, canonicalised and hashed once; the recorder uses the same hash.
//   - Verdict: what Check found out.
//
// A closed gate stops requests, where a closed circuit breaker lets them through.
//
//	Apply ──▶ writer ──▶ table {filter, marks, refs, arena} ◀── Closed, Check
//	Tick  ──▶   │            ▲ one atomic pointer, nil while nothing is closed
//	            └─ rebuild and swap when the table is full or half dead
//
// # Lookup
//
// Nothing closed costs one atomic load. Otherwise the id is hashed (package keyhash, under a key drawn per Set, so that
// nobody outside can choose colliding ids), and one word of a register-blocked Bloom filter (Putze, Sanders, Singler, "Cache-, Hash- and
// Space-Efficient Bloom Filters", 2007) answers nearly every miss. What passes is looked up in an open-addressing table
// of one-byte marks, eight to a word, and the whole id is compared: a collision can never close an innocent. The writer
// changes the table in place by atomic stores; bytes that a reader may hold are never rewritten.
//
// # Time
//
// A caller is closed while closeAt ≤ now < until. A miss reads no clock. A hit goes by a coarse clock, which RunClock sets
// ten times a second, and which is believed only about closures that neither begin nor end within a second of it; about
// those, and while nobody runs the clock, time.Now is asked, which costs some 50 ns. So answers are those of time.Now, to
// the nanosecond, unless the clock is more than a second late. That takes a process that was stopped (SIGSTOP, a suspended
// machine) and goes on: until the scheduler has run the overdue ticker, which with every processor busy takes some 10 ms,
// a closure that ended meanwhile is still answered for. CheckAt is free of that, and so are gatehttp and gategrpc, which
// read time.Now for the recorder anyway. RetryAfter may be too long by as much as the clock is late.
//
// Ended closures cost memory until the writer sweeps them, a part of the table at each Tick. Only memory: the times are
// compared at every hit.
//
// # Reopening
//
// Gates that would reopen together do so over a span: each a little later than decided, by up to 10 % of its closure
// and 10 s. How much depends on the caller and on nothing else, so that all servers agree and Retry-After is kept.
//
// # When decisions stop coming
//
// Each partition of decisions sends heartbeats. Before the first it is cold, and callers are open. When they stop for
// three seconds it is stale, and Options.Stale says what then holds; by default closures stay until they end by
// themselves. A dead feed can never hold a gate shut.
package gate
