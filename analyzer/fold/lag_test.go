package fold

import (
	"math"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// TestLag: the median of the newest six measurements of the last ten seconds of log time, and the median deviation from it.
func TestLag(t *testing.T) {
	type measured struct{ at, lag int64 } // seconds, milliseconds
	for name, test := range map[string]struct {
		log             []measured
		now             int64 // log time in seconds
		mean, deviation int64 // milliseconds
		ok              bool
	}{
		"none":                      {nil, 0, 0, 0, false},
		"one":                       {[]measured{{1, 200}}, 2, 200, 0, true},
		"some":                      {[]measured{{1, 100}, {2, 200}, {3, 300}}, 3, 200, 100, true},
		"six of many":               {[]measured{{1, 9000}, {2, 100}, {2, 100}, {2, 100}, {2, 200}, {2, 200}, {2, 200}}, 3, 150, 50, true},
		"one server is sick":        {[]measured{{1, 100}, {1, 3600_000}, {1, 104}, {2, 98}, {2, 3600_000}, {2, 102}}, 3, 103, 4, true},
		"one says nothing of worth": {[]measured{{1, 100}, {1, 1}, {1, 104}, {2, 98}, {2, 1}, {2, 102}}, 3, 99, 4, true},
		"one of two":                {[]measured{{1, 100}, {1, 3600_000}}, 3, 1800_050, 1799_950, true}, // nobody knows which is right
		"too old":                   {[]measured{{1, 200}}, 11, 0, 0, false},
		"the old ones don't count":  {[]measured{{1, 900}, {12, 100}}, 12, 100, 0, true},
		"ten seconds are too old":   {[]measured{{1, 900}, {11, 100}}, 11, 100, 0, true},
		"ahead of log time":         {[]measured{{5, 200}}, 1, 200, 0, true},
		"longer than is believed":   {[]measured{{1, math.MaxInt64 / 1_000_000}}, 1, 3600_000, 0, true},
		"negative ones are nothing": {[]measured{{1, -5}}, 1, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 10s}"), Options{})
			for _, m := range test.log {
				f.Advance(min(m.at, test.now) * second)
				f.Measure(m.at*second, m.lag*millisecond)
			}
			f.Advance(test.now * second)
			mean, deviation, ok := f.View().Lag()
			if !ok && (mean != 0 || deviation != 0) {
				t.Errorf("got %d ± %d ns that nobody measured", mean, deviation)
			}
			if ok != test.ok || mean/millisecond != test.mean || deviation/millisecond != test.deviation {
				t.Errorf("got %d ± %d ms, %v, want %d ± %d, %v", mean/millisecond, deviation/millisecond, ok, test.mean, test.deviation, test.ok)
			}
		})
	}
}

// TestCanariesMeasureTheLag: of frames; one whose sender has measured nothing yet says nothing.
func TestCanariesMeasureTheLag(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 10s}"), Options{})
	for n, cost := range []int64{0, 50 * millisecond} {
		e := schemas.Entry{Time: frameNow, Kind: schemas.KindCanary, ID: "c", Count: 1, Cost: cost}
		if err := f.Frame(Record{Offset: int64(n), Time: frameNow, Value: foldtest.Encode(t, foldtest.Frame(uint64(n+1), frameNow, e))}); err != nil {
			t.Fatal(err)
		}
		if mean, _, ok := f.View().Lag(); ok != (cost > 0) || mean != cost {
			t.Errorf("got %d, %v after a canary of %d", mean, ok, cost)
		}
	}
	if got := len(f.TakeCanaries()); got != 2 {
		t.Errorf("got %d canaries to answer, want 2", got)
	}
}
