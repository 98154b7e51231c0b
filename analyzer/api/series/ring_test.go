package series_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/api/series"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// noon is a whole second.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// at returns the end of a second after noon.
func at(second int) time.Time { return noon.Add(time.Duration(second) * time.Second) }

// owner is the owner of a partition which has counted so many requests, and of everything else in proportion.
func owner(partition int, epoch, requests uint64) analyzer.OwnerStats {
	return analyzer.OwnerStats{
		Partition: partition, State: analyzer.Running,
		Fold: fold.Stats{
			Requests: requests, Blocked: requests / 2, Closes: requests / 10, Stats: predict.Stats{Overs: histogram.Snapshot{Count: requests / 10, Sum: float64(requests) / 40}},
			Rules: []fold.RuleStats{{WouldBlock: requests / 5}, {WouldBlock: requests / 5}},
		},
		Publish: analyzer.PublishStats{Epoch: epoch, Lag: 3 * time.Millisecond},
	}
}

// owners is a list of them.
func owners(list ...analyzer.OwnerStats) []analyzer.OwnerStats { return list }

// newest returns the samples of the last seconds before the end of one.
func newest(r *series.Ring, second, n int) apiv1.Series { return r.Newest(at(second+1), n) }

// TestASampleIsWhatWasCountedInItsSecond, by all owners together.
func TestASampleIsWhatWasCountedInItsSecond(t *testing.T) {
	r := series.New()
	r.Take(at(1), owners(owner(0, 7, 1000), owner(1, 7, 0)))
	r.Take(at(2), owners(owner(0, 7, 1100), owner(1, 7, 40)))
	lagging := owner(1, 7, 40)
	lagging.Publish.GateLag = 12_345_678 // which a canary has measured
	r.Take(at(3), owners(owner(0, 7, 1100), lagging))
	v := newest(r, 3, 3)
	if !v.From.Equal(noon) || v.StepNS != int64(time.Second) {
		t.Errorf("got samples of %v ns from %v, want of a second from noon", v.StepNS, v.From)
	}
	for name, c := range map[string]struct{ got, want []int64 }{
		"requests":    {v.Requests, []int64{0, 140, 0}},
		"blocked":     {v.Blocked, []int64{0, 70, 0}},
		"would_block": {v.WouldBlock, []int64{0, 56, 0}},
		"closes":      {v.Closes, []int64{0, 14, 0}},
		"ended":       {v.Ended, []int64{0, 14, 0}},
		"lag":         {v.LagNS, []int64{0, 3_000_000, 12_300_000}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if !slices.Equal(v.Covered, []int{0, 2, 2}) || !slices.Equal(v.Overshoot, []float64{0, 0.25, 0}) {
		t.Errorf("got %v and %v, want two partitions each from the second sample on, and a mean overshoot of 1/4", v.Covered, v.Overshoot)
	}
}

// TestOnlyWhatIsNewIsCounted: an owner that restores counts old messages, and a new one begins at zero. Neither is traffic.
func TestOnlyWhatIsNewIsCounted(t *testing.T) {
	r := series.New()
	restoring := owner(0, 8, 900_000)
	restoring.State = analyzer.Idle + 4
	if restoring.State.String() != "restoring" {
		t.Fatalf("got state %s, want restoring", restoring.State)
	}
	for i, o := range []analyzer.OwnerStats{
		owner(0, 7, 500), owner(0, 7, 510), restoring, owner(0, 8, 1_000_000), owner(0, 8, 1_000_020), owner(0, 9, 1_000_040), owner(0, 9, 30),
	} {
		r.Take(at(i+1), owners(o))
	}
	r.Take(at(8), nil) // its partition went away
	v := newest(r, 8, 8)
	if want := []int64{0, 10, 0, 0, 20, 0, 0, 0}; !slices.Equal(v.Requests, want) {
		t.Errorf("got requests %v, want %v", v.Requests, want)
	}
	if want := []int{0, 1, 0, 0, 1, 0, 1, 0}; !slices.Equal(v.Covered, want) {
		t.Errorf("got partitions %v, want %v", v.Covered, want)
	}
}

// TestAPauseIsNoPeak: an analyzer that was paused has no samples of that time, and what it counted since is shown as its mean.
func TestAPauseIsNoPeak(t *testing.T) {
	r := series.New()
	r.Take(at(1), owners(owner(0, 7, 0)))
	r.Take(at(2), owners(owner(0, 7, 100)))
	r.Take(at(6), owners(owner(0, 7, 500)))
	v := newest(r, 6, 6)
	if want := []int64{0, 100, 0, 0, 0, 100}; !slices.Equal(v.Requests, want) || !slices.Equal(v.Covered, []int{0, 1, 0, 0, 0, 1}) {
		t.Errorf("got %v of %v, want %v", v.Requests, v.Covered, want)
	}
}

// TestALateTickIsNoPeak: a process was stopped for three seconds, and its ticks come late, whatever part of a second. Requests come at
// 100 a second all the time, so no sample has more or fewer. Then the ticks are on time again.
func TestALateTickIsNoPeak(t *testing.T) {
	for late := time.Duration(0); late < 3*time.Second; late += 50 * time.Millisecond {
		r := series.New()
		take := func(at time.Time) { r.Take(at, owners(owner(0, 7, uint64(at.Sub(noon)/(10*time.Millisecond))))) }
		take(at(1))
		take(at(2))
		take(at(3).Add(late))
		for next := at(3).Add(late).Truncate(time.Second).Add(time.Second); !next.After(at(9)); next = next.Add(time.Second) {
			take(next)
		}
		v, samples := newest(r, 9, 8), 0
		for i, n := range v.Requests {
			if v.Covered[i] == 0 {
				continue
			}
			if samples++; n < 90 || n > 110 {
				t.Errorf("late by %v: got %v of %v, want about 100 in each sample", late, v.Requests, v.Covered)
				break
			}
		}
		if want := 8 - int((late+time.Second/2)/time.Second); samples < want-1 {
			t.Errorf("late by %v: got %d samples %v, want at least %d", late, samples, v.Covered, want-1)
		}
	}
}

// TestALittleLateLosesNothing: what ticks count that are a few milliseconds late adds up to all that was counted.
func TestALittleLateLosesNothing(t *testing.T) {
	r, sum := series.New(), int64(0)
	for i := range 101 {
		at := at(i).Add(time.Duration(i*37%80) * time.Millisecond)
		r.Take(at, owners(owner(0, 7, uint64(at.Sub(noon)/time.Millisecond))))
	}
	v := newest(r, 100, 100)
	for _, n := range v.Requests {
		sum += n
	}
	if want := int64(100_000 + 100*37%80); sum != want {
		t.Errorf("got %d requests, want %d", sum, want)
	}
}

// TestTheOldestMakeRoom: a quarter of an hour is kept, whatever the clock does.
func TestTheOldestMakeRoom(t *testing.T) {
	r := series.New()
	for i := range 3 * series.Samples {
		r.Take(at(i), owners(owner(0, 7, uint64(i)*uint64(i))))
	}
	last := 3*series.Samples - 1
	v := newest(r, last, 10_000)
	if len(v.Requests) != series.Samples || !v.From.Equal(at(last-series.Samples)) || v.Requests[series.Samples-1] != int64(last*last-(last-1)*(last-1)) {
		t.Errorf("got %d samples from %v to %v, want %d to the last", len(v.Requests), v.From, v.Requests[len(v.Requests)-1], series.Samples)
	}
	if i := slices.Index(v.Covered, 0); i >= 0 {
		t.Errorf("got nothing of second %d, want all", i)
	}
	if v := newest(r, last+100, 200); v.Covered[99] != 1 || v.Covered[100] != 0 || v.Covered[199] != 0 {
		t.Errorf("got %v, want nothing of the last 100 seconds", v.Covered)
	}
	for _, clock := range []int{-1_000_000_000, 100, 1_000_000_000, -3_000_000_000} { // 1995 to 2058, and before 1970
		r.Take(at(clock), owners(owner(0, 7, 1_000_000_000)))
		r.Take(at(clock+1), owners(owner(0, 7, 1_000_000_005)))
		if v := newest(r, clock+1, 900); v.Requests[899] != 5 || v.Covered[0] != 0 && clock != 100 {
			t.Errorf("%v: got %d in the last second, want 5, and nothing of another time", at(clock), v.Requests[899])
		}
	}
	if n := len(newest(r, 0, 0).Covered); n != 1 {
		t.Errorf("none asked for: got %d, want 1", n)
	}
}

// source is an analyzer whose owner counts 100 requests between two samples, and 0 while Kafka is away.
type source struct {
	t        *testing.T
	requests uint64
	away     atomic.Pointer[time.Time] // since when no broker answers, which is known three seconds later; nil: they answer
}

func (s *source) Stats() []analyzer.OwnerStats {
	if now := time.Now(); now.Nanosecond() != 0 {
		s.t.Errorf("got a sample at %v, want whole seconds", now)
	}
	o := owner(0, 7, s.requests)
	switch _, known := s.Outage(time.Now()); {
	case known:
		o.State = analyzer.KafkaAway
	case s.away.Load() == nil:
		s.requests += 100
		o = owner(0, 7, s.requests)
	}
	return owners(o)
}

func (s *source) Outage(now time.Time) (kafkaio.Outage, bool) {
	since := s.away.Load()
	if since == nil || now.Sub(*since) < 3*time.Second {
		return kafkaio.Outage{}, false
	}
	return kafkaio.Outage{Since: *since}, true
}

// TestASampleIsTakenEachSecond at its end, by the wall clock, until ctx ends.
func TestASampleIsTakenEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond)
		r, stop := runRing(t, &source{t: t})
		time.Sleep(10 * time.Second)
		stop()
		v := r.Newest(time.Now(), 12)
		if want := []int64{0, 0, 0, 0, 100, 100, 100, 100, 100, 100, 100, 100}; !slices.Equal(v.Requests, want) {
			t.Errorf("got %v, want %v", v.Requests, want)
		}
	})
}

// TestNothingIsShownOfSecondsWithoutKafka, not even of those in which nobody knew yet that it was away: a zero would say that nobody came.
func TestNothingIsShownOfSecondsWithoutKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &source{t: t}
		r, stop := runRing(t, of)
		time.Sleep(5*time.Second + time.Millisecond)
		away := time.Now()
		of.away.Store(&away)
		time.Sleep(5 * time.Second)
		of.away.Store(nil)
		time.Sleep(4 * time.Second)
		stop()
		v := r.Newest(time.Now(), 12)
		if want := []int{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1}; !slices.Equal(v.Covered, want) {
			t.Errorf("got samples of %v partitions, requests %v, want %v", v.Covered, v.Requests, want)
		}
	})
}

// runRing lets a new Ring take samples until the function that it returns is called.
func runRing(t *testing.T, of series.Source) (*series.Ring, func()) {
	t.Helper()
	r := series.New()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx, of) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil", err)
		}
	}
}
