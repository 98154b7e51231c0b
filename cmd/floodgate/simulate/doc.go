// Package simulate runs servers, the log and the analyzer in virtual time, and measures how well gates hold callers
// to their limits, by lag, by traffic and by failure. A replay with a lag runs in the same world: see Circuit.
//
//	Scenario ──Request──▶ server (gate.Set, record.Recorder) ──frames──▶ log ──▶ analyzer (fold.Fold, outbox)
//	    │                    ▲                                                        │
//	    │                    └──────────────── decisions ◀── log ◀────────────────────┘
//	    └───────▶ reference (the rule's algorithm and the exact log, both at once) ──▶ Result
//
// The code that decides is that of production: gate.Set.CheckAt and ApplyAt, record.Recorder, frames by
// schemas.FrameEncoder, fold.Fold, and the publisher's coalescing. The world around it is simulated: time, clocks, the
// network, and Kafka. Of kafkalink the simulation has the flush, with one frame for each partition, and the canaries. The cost of a
// canary is the lag that its sender has measured last. There are no heartbeats and no repeats of decisions, because nothing is lost.
//
// # Determinism
//
// The same Config and the same requests give the same Result, to the byte. There is one goroutine and no clock. Set, Recorder and
// Fold use hashes under random keys: a Set compares whole ids, and a Fold with room for all rows does the same, so the keys
// change no answer. The order in which a Recorder gives its entries, and which of them it has merged, depends on the process.
// So the simulation sorts them, and merges them again (inOrder). The result of a Recorder or Fold without room would depend on chance:
// the run fails then.
//
// # Replays
//
// Circuit is the same world for analyzer/replay: one server and one partition. Nothing takes time but the way of decisions to the
// gates: it takes the whole lag. The analyzer knows the lag, so servers send no canaries, and a log that is silent for days costs nothing. What
// happens is reported to replay.Events instead of being measured here, and memory does not grow with the length of the log. Callers
// beyond MaxRows are not counted, and the run goes on.
//
// # What is measured
//
// Everything is measured for each enforcing rule apart, from the end of the warm-up on.
//
// Before the first request of a scenario or log, servers measure the lag for 10 s, or before a log for three lags if that is longer, as
// those of a deployment always do. Nothing of that time is measured.
//
//   - A period is a window of the rule. Where windows move (sliding, log, gcra), time is cut into stretches of a window's length.
//     Only periods that lie in the run as a whole count. A caller has a period where it sent a request in it.
//   - Times are those of the servers' clocks, as the analyzer sees them. The references use the true time.
//   - Overshoot of a period: by how much its peak exceeds what the rule allows, relative to the limit, and at least 0. The peak is, for
//     fixed windows, what was admitted in the window. For sliding windows and logs it is the largest number of requests that were
//     admitted in any interval of the window's length that ends with a request of the period: what an exact log sees. For gcra
//     it is the highest fill of a bucket that counts what was admitted.
//   - Mean, p99 and maximum are over the periods of all callers, whether they reach their limits or not.
//   - First is the overshoot of each caller's first period whose demand reached the limit; later is that of the periods after it.
//   - Admitted per limit: the requests admitted in periods whose demand reached the limit, by the limits of these periods. The
//     same for the references.
//   - Lost: what the rule's own algorithm, deciding at once, admits in a period and we do not, summed up over the periods in which
//     it admits more, by all that it admits.
//   - An innocent is a caller that the rule's own algorithm, deciding at once, never closes. It was closed if a decision closed
//     it at a server for any time at all. Longest is the longest time at one server without a gap, by the times of decisions.
//   - Bounds are what decisions state of the overshoot of their closes: of a period the newest decision's counts, by when its closures
//     and its share begin. It is exceeded if the period's overshoot is larger.
//   - Decisions per second are those that were published, without answers to canaries.
//   - Lag is what the canaries measured.
//
// # Requests that last
//
// The scenarios from tokens-2x on are of requests whose response comes when they end, and whose cost is known then. What a Limiter shows
// of them is measured for floodgate and for peers (type peer) on the same traffic, with the same lag. Agents send to each
// limiter what it lets them send, but the n-th request of an agent is always the same.
//
//   - A cost counts in the window in which its request arrived. Overshoot is by how much the cost of the requests that a window
//     admitted exceeds the limit. Used is that cost, up to the limit, by the limit or by what was asked for, if that is less.
//   - Windows that begin in the warm-up are measured apart: one of tokens-10x and its like, two of tokens-1m.
//   - Refused is what was refused in windows in which less than the limit was asked for, by what was asked for in them.
//   - Of requests in flight the periods are minutes. Overshoot is by the most in flight at any moment of a minute; in time, it is by
//     the number in flight at each moment. Used is the mean number up to the limit, by the limit.
package simulate
