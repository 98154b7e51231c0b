package peers

import (
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/509da70d/floodgate/gate/limit"
)

// Single is a limiter of one caller, or of all of them together: no map around it.
type Single struct {
	Name string
	New  func(Quota) Subject

	Own    bool // floodgate's
	Blocks bool // it never refuses, but makes callers wait
}

// Brisk is also a quota that cannot be used up. It allows few events at once, because some limiters keep the time of each
// event: it is a common limit with a very short period.
func Brisk() Quota { return Quota{Events: 1000, Per: 10 * time.Microsecond} }

// Singles returns floodgate's limiters and their rivals.
func Singles() []Single {
	return []Single{
		{Name: "limit.Ring", Own: true, New: func(q Quota) Subject {
			return single[*limit.Ring]{limit.NewRing(q.Events, q.Per)}
		}},
		{Name: "limit.TokenBucket", Own: true, New: func(q Quota) Subject {
			return single[*limit.TokenBucket]{limit.NewTokenBucket(q.Events, q.Per, q.Events)}
		}},
		{Name: "limit.Fixed", Own: true, New: func(q Quota) Subject {
			return single[*limit.Fixed]{limit.NewFixed(q.Events, q.Per)}
		}},
		{Name: "limit.Sliding, 10 slots", Own: true, New: func(q Quota) Subject {
			return single[*limit.Sliding]{limit.NewSliding(q.Events, q.Per, 10)}
		}},
		{Name: "x/time/rate", New: func(q Quota) Subject { return single[*rate.Limiter]{newRateLimiter(q)} }},
		{Name: "failsafe-go", New: func(q Quota) Subject {
			return single[permits]{permits{ratelimiter.NewBursty[any](uint(q.Events), q.Per)}}
		}},
		{Name: "uber-go/ratelimit", Blocks: true, New: func(q Quota) Subject {
			return single[turns]{turns{ratelimit.New(q.Events, ratelimit.Per(q.Per))}}
		}},
	}
}

// single asks one limiter, whatever the key is.
type single[L interface{ Allow() bool }] struct{ limiter L }

// Ask implements Subject.
func (s single[L]) Ask(keys []string) (refused int) {
	for range keys {
		if !s.limiter.Allow() {
			refused++
		}
	}
	return refused
}

// permits is a limiter of failsafe-go.
type permits struct{ ratelimiter.RateLimiter[any] }

// Allow asks for a permit.
func (p permits) Allow() bool { return p.TryAcquirePermit() }

// turns is a limiter of go.uber.org/ratelimit.
type turns struct{ ratelimit.Limiter }

// Allow waits for the next turn.
func (t turns) Allow() bool {
	t.Take()
	return true
}
