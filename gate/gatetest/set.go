package gatetest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// Rule is the name of the rule under which Close and Shadow close callers. It allows Limit per Window.
const (
	Rule   = "gatetest"
	Limit  = 100
	Window = time.Minute
)

// Closure is a caller to be closed or opened. Close, Early, Shadow and Open make closures.
type Closure struct {
	caller string
	mode   schemas.Mode
	early  bool
	length time.Duration
}

// Close closes a caller, written kind:id such as "ip:203.0.113.9", from now on for the given time. The id is that of a
// request: for an IPv6 address the Set closes the network by which the address counts, by default the /64.
func Close(caller string, length time.Duration) Closure {
	return Closure{caller: caller, mode: schemas.ModeEnforce, length: length}
}

// Early is Close by a closure that is predicted, and not counted yet: requests that it refuses are recorded as blocked early.
func Early(caller string, length time.Duration) Closure {
	return Closure{caller: caller, mode: schemas.ModeEnforce, early: true, length: length}
}

// Shadow is Close in mode shadow: the caller is admitted, and its verdicts say so.
func Shadow(caller string, length time.Duration) Closure {
	return Closure{caller: caller, mode: schemas.ModeShadow, length: length}
}

// Open opens a caller that Close or Shadow closed before.
func Open(caller string) Closure { return Closure{caller: caller, mode: schemas.ModeEnforce} }

// Set returns a Set in which these callers are closed, and all others open. Gates reopen without jitter: a caller that is
// closed for a minute is open after exactly one minute. Set fails the test on a caller that is not kind:id.
func Set(t testing.TB, closures ...Closure) *gate.Set {
	t.Helper()
	s := gate.New(gate.Options{MaxJitter: -1, Logger: slog.New(slog.DiscardHandler)})
	Apply(t, s, closures...)
	return s
}

// Apply closes and opens callers of a Set, from now on. It fails the test on a caller that is not kind:id.
func Apply(t testing.TB, s *gate.Set, closures ...Closure) {
	t.Helper()
	now := time.Now()
	ds := make([]schemas.Decision, 0, len(closures))
	for _, c := range closures {
		caller, err := schemas.ParseCaller(c.caller)
		if err != nil {
			t.Fatalf("gatetest: %v", err)
		}
		ds = append(ds, schemas.Decision{
			Rule: Rule, Caller: s.IDs().Caller(caller), Mode: c.mode, CloseAt: now.UnixNano(), Until: now.Add(c.length).UnixNano(),
			Early:    c.early,
			Evidence: schemas.Evidence{Count: Limit, Limit: Limit, Window: int64(Window)},
		})
	}
	s.ApplyAt(now, ds)
}
