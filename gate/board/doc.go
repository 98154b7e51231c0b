// Package board knows which callers are closed now, under which rules and until when, and what changed last. People and programs watch
// it. A gate answers for one caller at a time and cannot list. A Board can list, and it holds whole decisions.
//
//	decisions of all partitions ──Run──▶ Board ─┬─ Of(caller), All, After: what is in force
//	                                            ├─ Changes: closed, changed, opened, ended
//	                                            ├─ Subscribe: all in force, then each change
//	                                            └─ Heartbeat, AwaitHeartbeat, Freshness: who owns a partition
//
// A Board believes what gates believe: package kafkalink reads the topic for both. Unlike a gate, it shows a closure to its end
// as the decision has it, without the jitter by which gates reopen.
//
// # Bounds
//
// A Board holds at most Options.MaxClosures closures, of at most 400 bytes each where a caller's id has 32 bytes or less. A closure
// for which there is no room is dropped and counted, and Status says so until a complete cycle of repeats has found room again. A Board
// keeps the last MaxChanges changes. A subscriber has no buffer of its own: it reads these changes, at its own pace. A subscriber that
// falls behind by more gets the event Lost, and then all closures in force again.
//
// # Time
//
// Time is an argument. Closures leave when Expire is called with the time of their end, or a later one; Run and RunClock do so
// each 250 ms.
//
// # Chosen input
//
// Clients choose the ids of callers. The ids are keys of a Go map: its hash has a random seed, and it compares whole keys.
package board
