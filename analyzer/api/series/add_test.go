package series_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/api/series"
)

// ring returns the samples of three seconds of an owner that counts so many requests in each.
func ring(partition int, requests uint64) apiv1.Series {
	r := series.New()
	for i := range 4 {
		r.Take(at(i), owners(owner(partition, 7, uint64(i)*requests)))
	}
	return newest(r, 3, 3)
}

// TestAnalyzersAddUp: counts are sums, the lag is the largest, and the overshoot the mean of all closures.
func TestAnalyzersAddUp(t *testing.T) {
	v, other := ring(0, 100), ring(1, 300)
	other.LagNS[1], other.Overshoot[1] = 9_000_000, 0.65
	if err := series.Add(&v, &other); err != nil {
		t.Fatal(err)
	}
	want := apiv1.Series{
		From: noon, StepNS: int64(time.Second), Covered: []int{2, 2, 2}, Requests: []int64{400, 400, 400}, Blocked: []int64{200, 200, 200},
		WouldBlock: []int64{160, 160, 160}, Closes: []int64{40, 40, 40}, LagNS: []int64{3_000_000, 9_000_000, 3_000_000}, Ended: []int64{40, 40, 40},
		Overshoot: []float64{0.25, 0.55, 0.25},
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got\n%+v, want\n%+v", v, want)
	}
}

// TestSamplesAreAddedByTheirTime: the clock of another analyzer may be ahead or behind.
func TestSamplesAreAddedByTheirTime(t *testing.T) {
	for shift, want := range map[int][]int64{
		-1: {400, 400, 100}, 0: {400, 400, 400}, 2: {100, 100, 400}, 3: {100, 100, 100}, -3: {100, 100, 100}, 1 << 33: {100, 100, 100}, -1 << 33: {100, 100, 100},
	} {
		v, other := ring(0, 100), ring(1, 300)
		other.From = other.From.Add(time.Duration(shift) * time.Second)
		if shift == 1<<33 || shift == -1<<33 {
			other.From = time.Date(2026+shift>>23, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		if err := series.Add(&v, &other); err != nil || !slices.Equal(v.Requests, want) {
			t.Errorf("%d s: got %v and %v, want %v", shift, v.Requests, err, want)
		}
	}
}

// TestWhatIsNoSeriesChangesNothing: another analyzer may answer anything.
func TestWhatIsNoSeriesChangesNothing(t *testing.T) {
	for name, change := range map[string]func(*apiv1.Series){
		"nothing":          func(s *apiv1.Series) { *s = apiv1.Series{} },
		"another step":     func(s *apiv1.Series) { s.StepNS = 1 },
		"part of a second": func(s *apiv1.Series) { s.From = s.From.Add(time.Millisecond) },
		"no such year":     func(s *apiv1.Series) { s.From = s.From.AddDate(9000, 0, 0) },
		"a short column":   func(s *apiv1.Series) { s.Closes = s.Closes[1:] },
		"no overshoot":     func(s *apiv1.Series) { s.Overshoot = nil },
		"below nothing":    func(s *apiv1.Series) { s.Blocked[2] = -1 },
		"overflow":         func(s *apiv1.Series) { s.Requests[0] = 1 << 62 },
		"fewer than none":  func(s *apiv1.Series) { s.Covered[0] = -1 },
		"a huge overshoot": func(s *apiv1.Series) { s.Overshoot[0] = 1e300 },
		"too many":         func(s *apiv1.Series) { s.Covered = make([]int, series.Samples+1) },
	} {
		v, other := ring(0, 100), ring(1, 300)
		before := ring(0, 100)
		change(&other)
		if err := series.Add(&v, &other); !errors.Is(err, series.ErrSeries) || !reflect.DeepEqual(v, before) {
			t.Errorf("%s: got %v and %+v, want ErrSeries and no change", name, err, v)
		}
	}
}

// FuzzAdd: whatever another analyzer answers, the sum has the same columns, and is a series again.
func FuzzAdd(f *testing.F) {
	good, err := json.Marshal(ring(1, 300))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"from":"2026-11-22T12:00:01Z","step_ns":1000000000,"covered":[1],"requests":[1],"blocked":[1],"would_block":[1],"closes":[1],"lag_ns":[1],"ended":[1],"overshoot":[1e9]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var other apiv1.Series
		if json.Unmarshal(text, &other) != nil {
			return
		}
		v := ring(0, 100)
		if series.Add(&v, &other) != nil {
			return
		}
		sum := ring(2, 0)
		if err := series.Add(&sum, &v); err != nil || len(v.Covered) != 3 {
			t.Errorf("got %v: the sum %+v is no series", err, v)
		}
	})
}
