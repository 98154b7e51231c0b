package window

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawBusy draws an algorithm and a limit that the entries of drawBusyEntries often reach.
func drawBusy(t *rapid.T, kinds []Kind) (Algorithm, int64) {
	var a Algorithm
	if rapid.IntRange(0, len(kinds)).Draw(t, "calendar if 0") == 0 {
		a = NewCalendar(Hour, time.UTC, 1)
	} else {
		a = drawKind(t, kinds, time.Duration(rapid.Int64Range(2, 60).Draw(t, "length")), 12, 9)
	}
	return a, rapid.Int64Range(1, 15).Draw(t, "limit")
}

// drawBusyEntries draws entries that follow each other within some windows, some of them late.
func drawBusyEntries(t *rapid.T, a Algorithm) []entry {
	length := a.Length(0)
	entries := make([]entry, rapid.IntRange(1, 40).Draw(t, "entries"))
	now := 100 * length
	for i := range entries {
		now += rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, length/4), rapid.Int64Range(0, 2*length)).Draw(t, "pause")
		late := rapid.OneOf(rapid.Just[int64](0), rapid.Just[int64](0), rapid.Int64Range(0, 2*length)).Draw(t, "late by")
		entries[i] = entry{now - late, rapid.Int64Range(0, 4).Draw(t, "weight")}
	}
	return entries
}

// TestCoarseStories: what halves of a window of ten seconds keep, and how they are seen from the times that follow.
func TestCoarseStories(t *testing.T) {
	type view struct{ at, total int64 }
	tests := map[string]struct {
		entries []entry
		state   State
		views   []view
	}{
		"one half, as of its first": {[]entry{{0, 1}, {2 * second, 1}, {5 * second, 1}}, State{0, 3},
			[]view{{5 * second, 3}, {10*second - 1, 3}, {10 * second, 0}}},
		"two halves": {[]entry{{0, 1}, {4 * second, 1}, {6 * second, 5}}, State{0, 2, 6 * second, 5},
			[]view{{6 * second, 7}, {10 * second, 5}, {16 * second, 0}}},
		"a half lasts five seconds, and what comes a nanosecond later begins the next": {[]entry{{0, 1}, {5*second + 1, 1}}, State{0, 1, 5*second + 1, 1},
			[]view{{5*second + 1, 2}, {10 * second, 1}}},
		"the older half makes room": {[]entry{{0, 1}, {6 * second, 5}, {12 * second, 7}}, State{6 * second, 5, 12 * second, 7},
			[]view{{12 * second, 12}, {16 * second, 7}}},
		"late, into the older half": {[]entry{{0, 1}, {6 * second, 5}, {second, 3}}, State{0, 4, 6 * second, 5},
			[]view{{6 * second, 9}, {10 * second, 5}}},
		"late, as old as the older half": {[]entry{{0, 1}, {6 * second, 5}, {0, 3}}, State{0, 4, 6 * second, 5},
			[]view{{6 * second, 9}, {10*second - 1, 9}, {10 * second, 5}}},
		"late, and its own older half": {[]entry{{6 * second, 5}, {second, 3}}, State{second, 3, 6 * second, 5},
			[]view{{6 * second, 8}, {11 * second, 5}}},
		"older than both halves": {[]entry{{second, 1}, {7 * second, 5}, {0, 3}}, State{second, 1, 7 * second, 5},
			[]view{{7 * second, 6}}},
		"older than the window":     {[]entry{{11 * second, 5}, {0, 3}}, State{11 * second, 5}, []view{{11 * second, 5}}},
		"just as old as the window": {[]entry{{10 * second, 5}, {0, 3}}, State{10 * second, 5}, []view{{10 * second, 5}}},
		"of no weight":              {[]entry{{0, 0}}, nil, []view{{0, 0}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, a := range []Algorithm{NewSliding(10*time.Second, 5), NewLog(10 * time.Second)} {
				c := a.Coarse()
				var s State
				for _, e := range test.entries {
					s, _ = c.Add(s, 100, e.at, e.weight)
				}
				if !slices.Equal(s, test.state) {
					t.Errorf("%s: got state %v, want %v", a.Shape(), s, test.state)
				}
				for _, v := range test.views {
					if got := c.View(s, 100, v.at).Total; got != v.total {
						t.Errorf("%s: at %v: got %d, want %d", a.Shape(), time.Duration(v.at), got, v.total)
					}
				}
			}
		})
	}
}

// TestACoarseStateIsFullAtTheLimit, and not before. A limit of 0 counts as 1.
func TestACoarseStateIsFullAtTheLimit(t *testing.T) {
	for _, a := range []Algorithm{NewSliding(10*time.Second, 5), NewLog(10 * time.Second)} {
		for _, test := range []struct {
			limit, weight int64
			full          bool
		}{{0, 1, true}, {1, 1, true}, {5, 4, false}, {5, 5, true}} {
			if _, count := a.Coarse().Add(nil, test.limit, second, test.weight); count.Full(second) != test.full {
				t.Errorf("%s: got %+v with %d of %d, want full %v", a.Shape(), count, test.weight, test.limit, test.full)
			}
		}
	}
}

// coarseNeverCountsMore: whatever comes, in whatever order, a coarse state and what it is refined to count no more
// than the full one, from the newest entry on. What is full for the coarse one is full. A full window says nothing about
// what is over its limit: a log forgets that.
func coarseNeverCountsMore(t *rapid.T, kinds []Kind) {
	a, limit := drawBusy(t, kinds)
	c := a.Coarse()
	var full, coarse State
	now := int64(math.MinInt64)
	for _, e := range drawBusyEntries(t, a) {
		if rapid.IntRange(0, 9).Draw(t, "displaced") == 0 && now > math.MinInt64 {
			coarse = slices.Clone(c.Coarsen(slices.Clone(full), now))
		}
		full, _ = a.Add(full, limit, e.at, e.weight)
		coarse, _ = c.Add(coarse, limit, e.at, e.weight)
		if len(coarse) > MaxCoarse || !c.Valid(coarse) {
			t.Fatalf("%s: got coarse state %v, want a valid one of at most %d", a.Shape(), coarse, MaxCoarse)
		}
		now = max(now, e.at)
		refined := c.Refine(slices.Clone(coarse), limit, now)
		if !a.Valid(refined) {
			t.Fatalf("%s: %v was refined to %v, which is not valid", a.Shape(), coarse, refined)
		}
		length := a.Length(now)
		for _, at := range []int64{now, add(now, length/3), add(now, length/2), add(now, length-1), add(now, 2*length)} {
			truth, low, row := a.View(full, limit, at), c.View(coarse, limit, at), a.View(refined, limit, at)
			if holdsItsLimit(a) && low.Full(at) && !truth.Full(at) || row.Full(at) && !truth.Full(at) {
				t.Fatalf("%s: at %d: coarse %+v, refined %+v, and the truth is open: %+v", a.Shape(), at, low, row, truth)
			}
			if !truth.Full(at) && (low.Total > truth.Total || row.Total > truth.Total) {
				t.Fatalf("%s: at %d: got %d, refined %d, more than the %d that came", a.Shape(), at, low.Total, row.Total, truth.Total)
			}
			if row.Total < low.Total && !row.Full(at) {
				t.Fatalf("%s: at %d: refined counts %d, want the coarse state's %d or more", a.Shape(), at, row.Total, low.Total)
			}
		}
	}
}

// TestCoarseOfShortStatesIsExact: fixed windows lose nothing while they wait.
func TestCoarseOfShortStatesIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, limit := drawBusy(t, Kinds())
		if _, same := a.Coarse().(itself); !same {
			return
		}
		var full, coarse State
		for _, e := range drawBusyEntries(t, a) {
			full, _ = a.Add(full, limit, e.at, e.weight)
			coarse, _ = a.Coarse().Add(coarse, limit, e.at, e.weight)
		}
		if !slices.Equal(full, coarse) {
			t.Fatalf("%s: got %v, want %v", a.Shape(), coarse, full)
		}
	})
}

// TestTheCoarseOfABucketIsItsNewestPeriod: for entries that come in order of time it is as good as the whole.
func TestTheCoarseOfABucketIsItsNewestPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _, limit, _, entries := drawBucket(t)
		var full, coarse State
		for _, e := range entries {
			var got, want Count
			full, want = a.Add(full, limit, e.at, e.weight)
			coarse, got = a.Coarse().Add(coarse, limit, e.at, e.weight)
			if got != want || !slices.Equal(coarse, full[:3]) || !slices.Equal(a.Coarse().Coarsen(full, e.at), coarse) {
				t.Fatalf("%s: got %+v and %v, want %+v and the newest period of %v", a.Shape(), got, coarse, want, full)
			}
		}
	})
}

// TestAWaitingCallerKeepsHalfOfItsWeight: the newest half, at the time of its oldest part. Just half of it is enough.
func TestAWaitingCallerKeepsHalfOfItsWeight(t *testing.T) {
	const half = minute / 2
	for name, a := range map[string]Algorithm{"sliding": NewSliding(time.Minute, 60), "log": NewLog(time.Minute)} {
		for _, test := range []struct{ older, newer int64 }{{5, 5}, {4, 5}, {6, 5}, {0, 1}} {
			var s State
			s, _ = a.Add(s, 100, second, test.older)
			s, _ = a.Add(s, 100, half, test.newer)
			want := State{half, test.newer}
			if test.older > test.newer {
				want = State{second, test.older + test.newer}
			}
			if got := a.Coarse().Coarsen(s, half); !slices.Equal(got, want) {
				t.Errorf("%s, %d and then %d: got %v, want %v", name, test.older, test.newer, got, want)
			}
		}
	}
}

// TestAnOffenderFillsItsHalves: a steady caller at 1.2 times its limit is seen full within one window after the limit,
// though older halves leave early.
func TestAnOffenderFillsItsHalves(t *testing.T) {
	const limit = 100
	for _, a := range []Algorithm{NewSliding(time.Minute, 20), NewLog(time.Minute)} {
		c := a.Coarse()
		var s State
		sent := 0
		for at := int64(0); ; at += minute / (limit * 12 / 10) {
			var n Count
			sent++
			if s, n = c.Add(s, limit, at, 1); n.Full(at) {
				break
			}
			if sent > 2*limit {
				t.Fatalf("%s: not full after %d requests of %d", a.Shape(), sent, limit)
			}
		}
	}
}

// TestALostEntryIsForgottenWhenItLeaves: not a nanosecond later than its weight would have left the window.
func TestALostEntryIsForgottenWhenItLeaves(t *testing.T) {
	for _, a := range []Algorithm{NewSliding(time.Minute, 6), NewLog(time.Minute)} {
		s, _ := a.Add(nil, 5, 7*second, 1)
		at := a.Forgets(nil, 5, 7*second)
		if before, then := a.View(s, 5, at-1).Total, a.View(s, 5, at).Total; before != 1 || then != 0 {
			t.Errorf("%s: an entry that counts %d before %v, and %d then, is forgotten at that time", a.Shape(), before, time.Duration(at), then)
		}
	}
}

// forgetsWhatWasLost: a state that never had some entries, and one that had them, count and close alike from the time
// that Forgets says, whatever comes.
func forgetsWhatWasLost(t *rapid.T, kinds []Kind) {
	a, limit := drawBusy(t, kinds)
	var whole, part State
	lost := int64(math.MinInt64)
	entries := drawBusyEntries(t, a)
	cut := rapid.IntRange(0, len(entries)).Draw(t, "lost before")
	for _, e := range entries[:cut] {
		whole, _ = a.Add(whole, limit, e.at, e.weight)
		lost = max(lost, e.at)
	}
	for i, e := range entries[cut:] {
		e.at = max(e.at, lost) // the rest is not late
		at := a.Forgets(part, limit, lost)
		before := a.View(whole, limit, e.at)
		if got := a.View(part, limit, e.at); e.at >= at && (got.Total != before.Total || got.Until != before.Until) {
			t.Fatalf("%s: entry %d at %d, forgotten from %d on: got %+v, want %+v", a.Shape(), i, e.at, at, got, before)
		}
		var n, m Count
		whole, n = a.Add(whole, limit, e.at, e.weight)
		part, m = a.Add(part, limit, e.at, e.weight)
		if at = a.Forgets(part, limit, lost); n.Until != m.Until && n.Until > at {
			t.Fatalf("%s: entry %d at %d: closed until %d because of what was lost by %d, and forgotten from %d on", a.Shape(), i, e.at, n.Until, lost, at)
		}
	}
}

const minute = 60 * second
