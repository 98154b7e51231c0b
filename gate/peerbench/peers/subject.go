package peers

import "time"

// Subject is what can be asked about callers.
type Subject interface {
	// Ask asks about each key once, one after the other, and returns how many may not pass. Any goroutine may call it. The
	// loop is in here so that what is measured is called as users call it: directly.
	Ask(keys []string) (refused int)
}

// Quota is what a limiter allows each caller: so many events at once, and as many per period.
type Quota struct {
	Events int
	Per    time.Duration
}

// Generous is a quota that nobody can use up: an event a nanosecond, for longer than any measurement takes.
func Generous() Quota { return Quota{Events: int(time.Hour), Per: time.Hour} }

// Spent is a quota that is used up by the first question and stays so.
func Spent() Quota { return Quota{Events: 1, Per: 24 * time.Hour} }

// Limiter is a rival.
type Limiter struct {
	Name string
	New  func(Quota) Subject

	Blocks bool // refuses nobody, but makes callers wait
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

// Loop asks nothing: it is what asking costs without the subject. It looks at each key, as its sender has, so that the
// price of fetching keys from memory is not the subject's.
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
