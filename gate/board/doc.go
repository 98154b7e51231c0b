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
// A Board holds at most Options.MaxClosures closures, of at most 200 bytes each where a caller's id has 32 bytes or less and there is no
// share; 130 where they only come, and 100 of an IPv4 address. Its memory has no pointers for the collector to follow, and it grows and shrinks
// in small pieces. A closure for which there is no room is dropped and counted, and Status says so until a complete cycle of repeats has
// found room again. So is one whose caller's id is longer than schemas.MaxCallerID. A Board
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
// Clients choose the ids of callers. A hash with a random seed says where the board looks for them, and whole ids are compared.
package board
