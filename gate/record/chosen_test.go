package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// process is what a server draws its own secrets for.
type process struct {
	set *gate.Set
	rec *Recorder
	key *gate.Gate
}

func newProcess() process {
	set := gate.New(gate.Options{})
	return process{set, New(Options{Responses: true}), set.Gate("key")}
}

// hash returns the hash under which the recorder merges a response to a caller.
func (s process) hash(id, resource string, status uint16, at time.Time) uint64 {
	var c gate.Callers
	c.Add(s.key, id)
	_, _, hash, _ := c.Key(0)
	e := schemas.Entry{Time: at.UnixNano(), Resource: resource, Status: status, Response: true}
	return combine(hash, s.rec.salt(&e), false, false)
}

// crowded returns how many of n hashes share their lowest 16 bits with an earlier one.
func crowded(n int, hash func(i int) uint64) (shared int) {
	seen := make(map[uint64]bool, n)
	for i := range n {
		h := hash(i) & (1<<16 - 1)
		if seen[h] {
			shared++
		}
		seen[h] = true
	}
	return shared
}

// TestChosenRequestsDoNotMeetInAStripe: a stripe is indexed by the lowest bits of a hash. An attacker has a server of its
// own, the same binary, and searches for requests that meet there; or varies what a client can vary of one caller's
// requests. In another process they are as far apart as random ones.
func TestChosenRequestsDoNotMeetInAStripe(t *testing.T) {
	const n = 8192
	mine, victim := newProcess(), newProcess()
	now := time.Now()
	var ids, paths []string
	for i := 0; len(ids) < n || len(paths) < n; i++ {
		text := fmt.Sprint("chosen ", i)
		if mine.hash(text, "/", 200, now)&0x3f == 7 && len(ids) < n {
			ids = append(ids, text)
		}
		if mine.hash("caller", text, 200, now)&0x3f == 7 && len(paths) < n {
			paths = append(paths, text)
		}
	}
	tick := time.Duration(schemas.MergeTick)
	random := crowded(n, func(int) uint64 { return rand.Uint64() })
	for name, hash := range map[string]func(i int) uint64{
		"ids":              func(i int) uint64 { return victim.hash(ids[i], "/", 200, now) },
		"paths":            func(i int) uint64 { return victim.hash("caller", paths[i], 200, now) },
		"statuses":         func(i int) uint64 { return victim.hash("caller", "/", uint16(i), now) },
		"ticks":            func(i int) uint64 { return victim.hash("caller", "/", 200, now.Add(time.Duration(i)*tick)) },
		"ticks, statuses":  func(i int) uint64 { return victim.hash("caller", "/", uint16(i%90), now.Add(time.Duration(i/90)*tick)) },
		"ids and statuses": func(i int) uint64 { return victim.hash(ids[i/16], "/", uint16(i%16), now) },
	} {
		if got := crowded(n, hash); got > 2*random {
			t.Errorf("%s: got %d of %d hashes that share their place, want at most %d, twice as many as of random ones", name, got, n, 2*random)
		}
	}
}

// BenchmarkChosenInput records requests of random callers, and of those that an attacker chose by another process.
func BenchmarkChosenInput(b *testing.B) {
	const n = 4096
	mine, victim, now := newProcess(), newProcess(), time.Now()
	random, chosen := make([]string, n), make([]string, 0, n)
	for i := range random {
		random[i] = fmt.Sprint("random ", rand.Uint64())
	}
	for i := 0; len(chosen) < n; i++ {
		if id := fmt.Sprint("chosen ", i); mine.hash(id, "/", 200, now)&0x3f == 7 {
			chosen = append(chosen, id)
		}
	}
	for name, ids := range map[string][]string{"random": random, "chosen": chosen} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				var c gate.Callers
				c.Add(victim.key, ids[i%n])
				victim.rec.Record(&c, gate.Verdict{}, Request{Resource: "/", At: now})
				if i%n == n-1 {
					victim.rec.Acked(victim.rec.Drain(func(uint64, *schemas.Entry) {}))
				}
			}
		})
	}
}
