// Package gate answers one question for every request: is this caller's gate closed now?
//
// Package kafkalink reads the decisions from Kafka. The answer takes no lock and no I/O. It allocates only in the cases that
// Callers.Add names. The nouns:
//
//   - Set: all the gates of a process. One writer applies decisions to it; any number of goroutines ask it.
//   - Gate: the closed callers of one kind, such as "ip" or "key".
//   - Callers: the callers of one request, in canonical form and hashed once. The recorder uses the same hash.
//   - Verdict: what Check found out.
//
// A closed gate stops requests. (A closed circuit breaker lets them through.)
//
//	Apply ──▶ writer ──▶ table {filter, marks, refs, arena} ◀── Closed, Check
//	Tick  ──▶   │            ▲ one atomic pointer, nil while nothing is closed
//	            └─ rebuild and swap when the table is full or half of it is dead
//
// # Ids
//
// A client has one id everywhere: in this process, in other servers, in a sidecar and in ingest. Package schemas makes the
// id. An IPv6 address counts by its network, a /64 unless Options.IDs says otherwise. An id of more than 256 bytes counts
// by its hash. Callers.Add and Closed convert their ids to this form. Apply does not: the ids in decisions have it already.
//
// With Options.IDs.Hash, ids of chosen kinds are hashed with a secret before they are looked up or recorded, so that no
// other process sees API keys in clear. It costs a request some 400 ns and one allocation. While a secret is rotated there
// are two: requests are recorded under the first, and closures are in force under both.
//
// # Lookup
//
// While nothing is closed, a lookup is one atomic load. Otherwise the id is hashed (package keyhash). The key of the hash
// is drawn for each Set, so that an outsider cannot choose ids that collide. One word of a register-blocked Bloom filter
// (Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007) answers nearly every miss. An id that
// passes the filter is looked up in an open-addressing table of one-byte marks, eight to a word, and the whole id is
// compared: a collision can never close an innocent caller. The writer changes the table in place by atomic stores, and
// never rewrites bytes that a reader may hold. The comment at the head of gate.go shows which function answers which case.
//
// # Time
//
// A caller is closed while closeAt ≤ now < until. A miss reads no clock. A hit reads a coarse clock, which RunClock sets
// ten times a second. The coarse clock decides only about closures that neither begin nor end within a second of it. For
// the others, and while RunClock does not run, a hit reads time.Now, which costs some 50 ns. So answers are those of
// time.Now, to the nanosecond, unless the clock is more than a second late. The clock is late when the process continues
// after a stop (SIGSTOP, a suspended machine): until the scheduler has run the overdue ticker, a closure that ended
// meanwhile still refuses requests. With every processor busy that takes some 10 ms. CheckAt does not read the coarse
// clock. gatehttp and gategrpc call CheckAt if they have a Recorder, because they read time.Now for it anyway. RetryAfter
// may be too long by as much as the clock is late.
//
// Ended closures cost memory until the writer sweeps them; each Tick sweeps a part of the table. They cost nothing else,
// because every hit compares the times.
//
// # Counting
//
// Check and CheckAt count each request that they refuse, or would refuse in mode Shadow, by the rule that closed its caller:
// see Status.Refusals. That is one atomic addition for a request of a closed caller, and nothing for the others. Closed and
// ClosedAddr count nothing.
//
// # Reopening
//
// Gates that would reopen together reopen over a span of time: each a little later than decided, by up to 10 % of its
// closure and at most 10 s (Options.MaxJitter). The delay depends on the caller and on nothing else, so that all servers
// agree on it and Retry-After stays right. Closures of less than 10 s, early ones, and those that a next closure follows end
// without delay.
//
// # Early closures
//
// A decision may contain two closures: one that is in force, and the next one. Either may be early: the analyzer predicts that
// the caller's window will be full then, and has not counted it yet. An early closure refuses requests as any other does, and
// ends by itself; RetryAfter says when. If the prediction comes true, a newer decision says so before that, and replaces both
// closures. Requests that early closures alone refuse are recorded as such: see Verdict.EarlyFor. An early closure may be held: what
// its caller has in flight is expected to fill the limit. It may last longer, and what it refuses is recorded as blocked only.
//
// # Shares
//
// A decision may give a caller a share: permits, of which each gate spends a part in each period, by its own measure of the
// caller's demand. Closures come first; a request that none of them refuses takes a permit of each share of its callers, and all
// are given back if one has none left. RetryAfter is then the end of the period. Such a request is recorded as blocked, and not
// as early. A lookup of a caller with a share costs time.Now and two atomic operations more; other callers pay nothing.
//
// A gate begins to measure a caller's demand at the first decision with a share, so that share only announces the next ones:
// see the comment of share. Demand is what the recorder records for the caller. Closed and ClosedAddr spend permits and count demand
// as Check does: ask once for each request. A Set has at most 16 384 shares, of 128 bytes each and some 80 in the table. Further
// ones are ignored and counted; their callers still have closures.
//
// # When decisions stop coming
//
// Each partition of decisions sends heartbeats. Before its first heartbeat a partition is cold, and its callers are open.
// When no heartbeat has come for three seconds it is stale, and Options.Stale says what the gates then answer. By default
// closures stay until they end by themselves. Without new decisions every closure ends at its time.
//
// # Chosen input
//
// Clients choose ids, and with many requests they also choose which callers are closed. Compared with random ids, this is the cost
// of ids that an attacker has chosen who knows the source:
//   - Table, filter and marks: nothing. All of them use a hash under a key that is drawn for each Set and never leaves it.
//     Ids that collide in one process do not collide in another, and a client cannot see whether they do.
//   - Deleted slots: the writer builds a new table before fewer than an eighth of the slots are empty, and when half of
//     the callers have been removed. So closures that come and go do not make lookups longer.
//   - The arena: a rebuild drops records that were replaced, at most once for each half of the arena that is garbage.
//   - Interned terms: a Go map, which is seeded. Terms belong to rules and overrides, not to clients.
//   - Callers: at most MaxCallers, each of at most schemas.MaxCallerID bytes, hashed and compared once.
//   - A limit can be reached: at MaxClosed, new closures are dropped and counted (Status). An attacker needs as many
//     callers over their limits to reach it.
//
// BenchmarkChosenInput measures it.
package gate
