package analyzer

import (
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

// begin takes note of requests that run from now on. Their response comes within 40 seconds; one of ten never does.
func (s *simulation) begin(on *server, arrival *schemas.Entry) {
	if s.rnd.IntN(3) == 0 {
		arrival.Declared = int64(arrival.Count) * (1 + s.rnd.Int64N(8))
	}
	if s.rnd.IntN(10) == 0 {
		return
	}
	arrival.Arrived = int64(arrival.Count) * schemas.Tick(arrival.Time)
	response := *arrival
	response.Response = true
	response.Time += s.rnd.Int64N(int64(40 * time.Second))
	response.Cost = s.rnd.Int64N(8 * int64(arrival.Count))
	on.running = append(on.running, response)
}

// ended returns the responses of requests that have ended by now, and notes in the truth what they cost.
func (s *simulation) ended(on *server, now int64) (responses []schemas.Entry) {
	on.running = slices.DeleteFunc(on.running, func(e schemas.Entry) bool {
		if e.Time > now {
			return false
		}
		responses = append(responses, e)
		s.spent[e.ID] += e.Cost
		s.costs[callerMinute{e.ID, e.Arrived / int64(e.Count) * schemas.MergeTick / int64(time.Minute)}] += e.Cost
		return true
	})
	return responses
}

// follows reports whether a close follows from what the requests of a caller have cost, from how many may be in flight, or from more than the
// part of a capacity that is protected.
func (s *simulation) follows(d *schemas.Decision) bool {
	minute := d.CloseAt / int64(time.Minute)
	switch d.Rule {
	case "tokens":
		return s.costs[callerMinute{d.Caller.ID, minute}] >= 100
	case "shared": // 10 % of 30 are protected
		return d.Evidence.Limit >= 3 && s.minutes[callerMinute{d.Caller.ID, minute}]+s.minutes[callerMinute{d.Caller.ID, minute - 1}] >= 3
	case "flights": // a request is forgotten after about a minute, and newer ones may have come before the one that closes
		var arrived int64
		for m := minute - 1; m <= minute+1; m++ {
			arrived += s.minutes[callerMinute{d.Caller.ID, m}]
		}
		return arrived >= 15
	}
	return false
}

// checkDigest wants the last owner's store to be what one fold makes that counts the log from its begin to its end, in spite of all faults:
// also of what requests in flight hold, and of what was learned from responses.
func (s *simulation) checkDigest() {
	s.t.Helper()
	set := mustRules(s.t, simulationRules)
	got, at, err := Inspect(s.analyzers[s.owner].dir, set, fold.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	want := fold.New(set, fold.Options{})
	for _, r := range append(slices.Clip(s.trimmed), s.log.Records("requests", 0)...) {
		_ = want.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}) // what it refuses changes nothing
		want.TakeChanges()
		want.TakePlans()
		want.TakeCanaries()
	}
	want.Advance(at.LogTime)
	if got, want := got.Digest(at.LogTime), want.Digest(at.LogTime); got != want {
		s.t.Errorf("got digest %016x of the store, want %016x of a fold that nothing has disturbed", got, want)
	}
}
