package peers

import "time"

// Subject answers whether callers may pass.
type Subject interface {
	// Ask asks about each key once, one after the other, and returns how many may not pass. Any goroutine may call it. The
	// loop is part of Ask, so that the library is called directly, as users call it.
	Ask(keys []string) (refused int)
}

// Quota is what a limiter allows each caller: a number of events at once, and the same number per period.
type Quota struct {
	Events int
	Per    time.Duration
}

// Generous is a quota that cannot be used up: an event a nanosecond, for longer than any measurement takes.
func Generous() Quota { return Quota{Events: int(time.Hour), Per: time.Hour} }

// Spent is a quota that is used up by the first question and stays so.
func Spent() Quota { return Quota{Events: 1, Per: 24 * time.Hour} }

// Limiter is a rival.
type Limiter struct {
	Name string
	New  func(Quota) Subject

	Blocks bool // it never refuses, but makes callers wait
}

// Limiters returns all rivals.
func Limiters() []Limiter {
	return []Limiter{
		{Name: "x/time/rate, sync.Map", New: newRate},
		{Name: "x/time/rate, RWMutex map", New: newRateLocked},
		{Name: "sethvargo/go-limiter", New: newGoLimiter},
		{Name: "throttled v2", New: newThrottled},
		{Name: "ulule/limiter v3", New: newUlule},
		{Name: "failsafe-go", New: newFailsafe},
		{Name: "uber-go/ratelimit", New: newUber, Blocks: true},
		{Name: "didip/tollbooth v8", New: newTollbooth},
	}
}

// Loop is a Subject that looks nothing up: it measures the cost of asking. It reads each key, so that the cost of fetching
// keys from memory does not count for the other subjects.
type Loop struct{}

// Ask implements Subject.
func (Loop) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if k[len(k)-1] == 0 {
			refused++
		}
	}
	return refused
}
