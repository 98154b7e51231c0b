package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// must panics on the errors of constructors. They reject invalid quotas, and no Quota here is invalid.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("BUG: a rival refuses its quota: %v", err))
	}
}

// goLimiter is sethvargo/go-limiter with its memory store.
type goLimiter struct{ store golimiter.Store }

// newGoLimiter converts large quotas to the same rate per year. Whenever an interval has passed, version 0.7.1 refills a
// bucket not with tokens tokens, but with interval ÷ tokens of them (in nanoseconds). So above 31 622 tokens a second it
// refuses callers that it should allow. Within the first interval it is right.
func newGoLimiter(q Quota) Subject {
	const year = 365 * 24 * time.Hour
	if refill := int(q.Per) / q.Events; refill < q.Events {
		periods := int(year / q.Per)
		q.Events, q.Per = q.Events*periods, q.Per*time.Duration(periods)
	}
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.Events), Interval: q.Per})
	must(err)
	return &goLimiter{store}
}

// Ask implements Subject.
func (s *goLimiter) Ask(keys []string) (refused int) {
	ctx := context.Background()
	for _, k := range keys {
		if _, _, _, ok, err := s.store.Take(ctx, k); !ok || err != nil {
			refused++
		}
	}
	return refused
}

// Close ends its goroutine, which would keep all callers in memory.
func (s *goLimiter) Close() error { return s.store.Close(context.Background()) }

// throttledGCRA is throttled v2 with its memory store.
type throttledGCRA struct{ limiter *throttled.GCRARateLimiterCtx }

// newThrottled gives the store no bound: with one it keeps an LRU list and is slower.
func newThrottled(q Quota) Subject {
	store, err := memstore.NewCtx(0)
	must(err)
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(q.Events, q.Per), MaxBurst: q.Events - 1,
	})
	must(err)
	l.SetMaxCASAttemptsLimit(1 << 30) // otherwise it returns an error when two goroutines ask about one caller
	return &throttledGCRA{l}
}

// Ask implements Subject.
func (s *throttledGCRA) Ask(keys []string) (refused int) {
	ctx := context.Background()
	for _, k := range keys {
		if limited, _, err := s.limiter.RateLimitCtx(ctx, k, 1); limited || err != nil {
			refused++
		}
	}
	return refused
}

// uluLimiter is ulule/limiter v3 with its memory store.
type uluLimiter struct{ limiter *limiter.Limiter }

func newUlule(q Quota) Subject {
	return &uluLimiter{limiter.New(memory.NewStore(), limiter.Rate{Period: q.Per, Limit: int64(q.Events)})}
}

// Ask implements Subject.
func (s *uluLimiter) Ask(keys []string) (refused int) {
	ctx := context.Background()
	for _, k := range keys {
		if c, err := s.limiter.Get(ctx, k); c.Reached || err != nil {
			refused++
		}
	}
	return refused
}

// tollbooths is didip/tollbooth, asked by keys of our own.
type tollbooths struct{ limiter *tollboothlimiter.Limiter }

// newTollbooth sets the burst, which is otherwise the events of a second.
func newTollbooth(q Quota) Subject {
	l := tollbooth.NewLimiter(float64(q.Events)/q.Per.Seconds(), nil).SetBurst(q.Events)
	return &tollbooths{l}
}

// Ask implements Subject.
func (s *tollbooths) Ask(keys []string) (refused int) {
	for _, k := range keys {
		if tollbooth.LimitByKeys(s.limiter, []string{k}) != nil {
			refused++
		}
	}
	return refused
}
