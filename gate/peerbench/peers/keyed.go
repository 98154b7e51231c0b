package peers

import (
	"sync"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// rateMap is golang.org/x/time/rate, a Limiter for each caller in a sync.Map.
type rateMap struct {
	quota Quota
	m     sync.Map // of *rate.Limiter
}

func newRate(q Quota) Subject { return &rateMap{quota: q} }

// newRateLimiter must not be given rate.Inf, which skips all the work.
func newRateLimiter(q Quota) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(q.Events)/q.Per.Seconds()), q.Events)
}

// Ask implements Subject.
func (s *rateMap) Ask(keys []string) (refused int) {
	for _, k := range keys {
		v, ok := s.m.Load(k)
		if !ok {
			v, _ = s.m.LoadOrStore(k, newRateLimiter(s.quota))
		}
		if l, ok := v.(*rate.Limiter); !ok || !l.Allow() {
			refused++
		}
	}
	return refused
}

// rateLocked is the same in a map with a lock.
type rateLocked struct {
	quota Quota
	mu    sync.RWMutex
	m     map[string]*rate.Limiter // protected by mu
}

func newRateLocked(q Quota) Subject { return &rateLocked{quota: q, m: make(map[string]*rate.Limiter)} }

// Ask implements Subject.
func (s *rateLocked) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if !s.limiter(k).Allow() {
			refused++
		}
	}
	return refused
}

func (s *rateLocked) limiter(key string) *rate.Limiter {
	s.mu.RLock()
	l := s.m[key]
	s.mu.RUnlock()
	if l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key] == nil {
		s.m[key] = newRateLimiter(s.quota)
	}
	return s.m[key]
}

// failsafeMap is failsafe-go's rate limiter, one for each caller in a sync.Map. It is the bursty kind, because only this
// kind allows all events of a quota at once; the smooth kind costs the same.
type failsafeMap struct {
	quota Quota
	m     sync.Map // of ratelimiter.RateLimiter[any]
}

func newFailsafe(q Quota) Subject { return &failsafeMap{quota: q} }

// Ask implements Subject.
func (s *failsafeMap) Ask(keys []string) (refused int) {
	for _, k := range keys {
		v, ok := s.m.Load(k)
		if !ok {
			v, _ = s.m.LoadOrStore(k, ratelimiter.NewBursty[any](uint(s.quota.Events), s.quota.Per))
		}
		if l, ok := v.(ratelimiter.RateLimiter[any]); !ok || !l.TryAcquirePermit() {
			refused++
		}
	}
	return refused
}

// uberMap is go.uber.org/ratelimit, one for each caller in a sync.Map. It refuses nobody: Take waits. Its fastest rate is
// an event a nanosecond, and with that it never waits.
type uberMap struct {
	quota Quota
	m     sync.Map // of ratelimit.Limiter
}

func newUber(q Quota) Subject { return &uberMap{quota: q} }

// Ask implements Subject.
func (s *uberMap) Ask(keys []string) (refused int) {
	for _, k := range keys {
		v, ok := s.m.Load(k)
		if !ok {
			v, _ = s.m.LoadOrStore(k, ratelimit.New(s.quota.Events, ratelimit.Per(s.quota.Per)))
		}
		l, ok := v.(ratelimit.Limiter)
		if !ok {
			refused++
			continue
		}
		l.Take()
	}
	return refused
}
