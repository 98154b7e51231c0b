package window

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// entry is one entry of a drawn history.
type entry struct{ at, weight int64 }

// properties is what holds for every algorithm, so also for one that is added to Kinds. Each draws a window of one of some kinds, and
// entries.
func properties() map[string]func(t *rapid.T, kinds []Kind) {
	return map[string]func(t *rapid.T, kinds []Kind){
		"invariants":                               invariants,
		"full at the capacity":                     fullAtTheCapacity,
		"no order closes an innocent":              noOrderClosesAnInnocent,
		"from its expiry on a state is like none":  fromItsExpiryOnAStateIsLikeNone,
		"a state survives being written":           aStateSurvivesBeingWritten,
		"parts add up to the total":                partsAddUpToTheTotal,
		"parts are bounded":                        partsAreBounded,
		"a coarse state never counts more":         coarseNeverCountsMore,
		"what was lost is forgotten when it is so": forgetsWhatWasLost,
	}
}

func TestProperties(t *testing.T) {
	for name, property := range properties() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, Kinds()) })
		})
	}
}

// drawAlgorithm draws a window of any of the kinds, or of the calendar, with any parameters, mostly of a few seconds.
func drawAlgorithm(t *rapid.T, kinds []Kind) Algorithm {
	length := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1e10), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "length")
	if rapid.IntRange(0, len(kinds)).Draw(t, "calendar if 0") == 0 {
		return drawCalendar(t)
	}
	return drawKind(t, kinds, time.Duration(length), 25, 50)
}

// drawKind draws a window of any of the kinds, with at most so many slots or such a burst.
func drawKind(t *rapid.T, kinds []Kind, length time.Duration, slots int, burst int64) Algorithm {
	k := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
	return k.New(length, rapid.IntRange(1, slots).Draw(t, "slots"), rapid.Int64Range(0, burst).Draw(t, "burst"))
}

// drawCalendar draws windows of a calendar.
func drawCalendar(t *rapid.T) Algorithm {
	loc := zone(t, rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"}).Draw(t, "zone"))
	return NewCalendar(Unit(rapid.IntRange(int(Hour), int(Year)).Draw(t, "unit")), loc, rapid.IntRange(1, 31).Draw(t, "anchor"))
}

// drawEntries draws a history whose times lie around a few windows, out of order and with extremes.
func drawEntries(t *rapid.T, a Algorithm) []entry {
	entries := make([]entry, rapid.IntRange(0, 30).Draw(t, "entries"))
	for i := range entries {
		entries[i] = entry{drawTime(t, a.Length(1_700_000_000_000_000_000)), drawWeight(t)}
	}
	return entries
}

func drawLimit(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1e18)).Draw(t, "limit")
}

// What holds for every algorithm after every entry, whatever its time and weight.
func invariants(t *rapid.T, kinds []Kind) {
	a, limit := drawAlgorithm(t, kinds), drawLimit(t)
	var s State
	for i, e := range drawEntries(t, a) {
		before := slices.Clone(s)
		ask := a.View(s, limit, e.at)
		if !slices.Equal(s, before) {
			t.Fatalf("%s: View changed %v to %v", a.Shape(), before, s)
		}
		var c Count
		s, c = a.Add(s, limit, e.at, e.weight)
		switch {
		case !a.Valid(s):
			t.Fatalf("%s: entry %d made state %v, which is not valid", a.Shape(), i, s)
		case (c.Place == Late || e.weight == 0) && !slices.Equal(s, before):
			t.Fatalf("%s: entry %d does not count and changed %v to %v", a.Shape(), i, before, s)
		case (c.Place == Late || e.weight == 0) && c != ask:
			t.Fatalf("%s: entry %d does not count: got %+v, want %+v as View said", a.Shape(), i, c, ask)
		case c.Place != ask.Place:
			t.Fatalf("%s: entry %d: place is %v in Add, %v in View", a.Shape(), i, c.Place, ask.Place)
		case c.Total < 0 || c.Until < e.at:
			t.Fatalf("%s: entry %d: got %+v", a.Shape(), i, c)
		case holdsItsLimit(a) && e.at < math.MaxInt64 && c.Full(e.at) != (c.Total >= a.Capacity(limit)):
			t.Fatalf("%s: entry %d: got %+v, want it full from %d on", a.Shape(), i, c, a.Capacity(limit))
		case a.View(s, limit, e.at) != c:
			t.Fatalf("%s: entry %d: got %+v, then view %+v", a.Shape(), i, c, a.View(s, limit, e.at))
		}
		reopened := a.View(s, limit, c.Until)
		if c.Until < math.MaxInt64 && c.Place != Past && (reopened.Full(c.Until) || holdsItsLimit(a) && reopened.Total >= a.Capacity(limit)) {
			t.Fatalf("%s: entry %d: full until %d, and still full then: %+v", a.Shape(), i, c.Until, reopened)
		}
		if last := a.View(s, limit, max(e.at, c.Until-1)); c.Full(e.at) && c.Until < math.MaxInt64 && !last.Full(max(e.at, c.Until-1)) {
			t.Fatalf("%s: entry %d: full until %d, and open just before: %+v", a.Shape(), i, c.Until, last)
		}
	}
}

// A window is full when it holds its capacity, and not before.
func fullAtTheCapacity(t *rapid.T, kinds []Kind) {
	a, limit := drawBusy(t, kinds)
	var s State
	var count Count
	at, left := 1_700_000_000_000_000_000+rapid.Int64Range(0, 1e10).Draw(t, "time"), a.Capacity(limit)
	for left > 0 {
		weight := rapid.OneOf(rapid.Just(left), rapid.Int64Range(1, left)).Draw(t, "weight")
		left -= weight
		if s, count = a.Add(s, limit, at, weight); count.Full(at) != (left == 0) || count.Total != a.Capacity(limit)-left {
			t.Fatalf("%s, limit %d: got %+v with %d of %d", a.Shape(), limit, count, a.Capacity(limit)-left, a.Capacity(limit))
		}
	}
}

// Entries that never fill a window in the order of their times do not fill it in any order. Nor does it ever hold more than what came.
func noOrderClosesAnInnocent(t *rapid.T, kinds []Kind) {
	a, limit := drawBusy(t, kinds)
	entries := drawBusyEntries(t, a)
	innocent := true
	var sum int64
	var ordered, s State
	for _, e := range slices.SortedStableFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.at, b.at) }) {
		var count Count
		ordered, count = a.Add(ordered, limit, e.at, e.weight)
		innocent = innocent && !count.Full(e.at)
	}
	for i, e := range rapid.Permutation(entries).Draw(t, "order") {
		var count Count
		s, count = a.Add(s, limit, e.at, e.weight)
		if sum += e.weight; count.Total > sum {
			t.Fatalf("%s, limit %d: got %+v after entry %d, and no more than %d came", a.Shape(), limit, count, i, sum)
		}
		if innocent && count.Full(e.at) {
			t.Fatalf("%s, limit %d: got %+v after entry %d at %d, and in order of time it is never full", a.Shape(), limit, count, i, e.at)
		}
	}
}

// From its expiry on, a state is worth nothing: nil gives the same answers and becomes the same state.
func fromItsExpiryOnAStateIsLikeNone(t *rapid.T, kinds []Kind) {
	a, limit := drawAlgorithm(t, kinds), drawLimit(t)
	var old State
	for _, e := range drawEntries(t, a) {
		old, _ = a.Add(old, limit, e.at, e.weight)
	}
	expiry := a.Expiry(old)
	if expiry == math.MaxInt64 {
		return // never
	}
	var fresh State
	for range rapid.IntRange(1, 5).Draw(t, "later entries") {
		at := add(expiry, rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 1e10), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "after"))
		weight := drawWeight(t)
		var kept, none Count
		old, kept = a.Add(old, limit, at, weight)
		fresh, none = a.Add(fresh, limit, at, weight)
		if kept != none {
			t.Fatalf("%s: at %d, after expiry %d: got %+v, want %+v as without the state", a.Shape(), at, expiry, kept, none)
		}
		if weight > 0 && !slices.Equal(old, fresh) {
			t.Fatalf("%s: at %d, after expiry %d: got state %v, want %v", a.Shape(), at, expiry, old, fresh)
		}
	}
}

// A state is its integers: written as varints and read back it goes on as if nothing had happened.
func aStateSurvivesBeingWritten(t *rapid.T, kinds []Kind) {
	a, limit := drawAlgorithm(t, kinds), drawLimit(t)
	var kept, reread State
	for _, e := range drawEntries(t, a) {
		var want, got Count
		kept, want = a.Add(kept, limit, e.at, e.weight)
		reread, got = a.Add(decode(t, encode(reread)), limit, e.at, e.weight)
		if got != want || !slices.Equal(kept, reread) {
			t.Fatalf("%s: got %+v and %v, want %+v and %v", a.Shape(), got, reread, want, kept)
		}
	}
}

func encode(s State) []byte {
	var b []byte
	for _, v := range s {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func decode(t *rapid.T, b []byte) State {
	var s State
	for r := bytes.NewReader(b); r.Len() > 0; {
		v, err := binary.ReadVarint(r)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, v)
	}
	return s
}

// Entries that are admitted only while the window is open never make more than the limit in any interval of its length,
// for sliding and for log, and for fixed in any of its windows.
func TestNoIntervalHoldsMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, 1000).Draw(t, "length")
		limit := rapid.Int64Range(1, 10).Draw(t, "limit")
		a := NewLog(time.Duration(length))
		if rapid.Bool().Draw(t, "sliding") {
			a = NewSliding(time.Duration(length), rapid.IntRange(1, 25).Draw(t, "slots"))
		}
		var s State
		var admitted []int64
		now := rapid.Int64Range(-2000, 2000).Draw(t, "begin")
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now += rapid.Int64Range(0, length/limit+1).Draw(t, "pause")
			if a.View(s, limit, now).Full(now) {
				continue
			}
			s, _ = a.Add(s, limit, now, 1)
			admitted = append(admitted, now)
			first := sort.Search(len(admitted), func(i int) bool { return admitted[i] > now-length })
			if n := int64(len(admitted) - first); n > limit {
				t.Fatalf("%s: %d admitted in (%d, %d], want at most %d", a.Shape(), n, now-length, now, limit)
			}
		}
	})
}

// The log against an oracle that keeps everything: what is open, until when, and what is late are exact, in any order.
func TestLogIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, 100).Draw(t, "length")
		limit := rapid.Int64Range(1, 12).Draw(t, "limit")
		a := NewLog(time.Duration(length))
		var s State
		var all []entry
		newest := int64(math.MinInt64)
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			e := entry{rapid.Int64Range(0, 400).Draw(t, "time"), rapid.Int64Range(1, 5).Draw(t, "weight")}
			var c Count
			s, c = a.Add(s, limit, e.at, e.weight)
			if late := newest != math.MinInt64 && e.at <= newest-length; late != (c.Place == Late) {
				t.Fatalf("entry %+v with the newest at %d: got place %v", e, newest, c.Place)
			} else if late {
				continue
			}
			newest = max(newest, e.at)
			all = append(all, e)
			total, until := logOracle(all, newest, length, limit, e.at)
			if c.Until != until || min(c.Total, limit) != min(total, limit) || c.Total > total || c.Start != newest-length {
				t.Fatalf("entry %+v: got %+v, want total %d, until %d", e, c, total, until)
			}
		}
	})
}

// logOracle walks the entries in the window from the newest until they make up the limit.
func logOracle(all []entry, newest, length, limit, now int64) (total, until int64) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b entry) int { return int(b.at - a.at) })
	until = now
	for _, e := range all {
		if e.at > newest-length {
			if total < limit && total+e.weight >= limit {
				until = e.at + length
			}
			total += e.weight
		}
	}
	return total, until
}

// Fixed windows and those of the calendar against their definition with a map of windows: an entry counts in its own window, which is the
// newest or the one before it, and there for as long as no entry came that is more than the grace behind it.
func TestFixedIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 20*int64(sec))).Draw(t, "length")
		limit, pastFor := drawLimit(t), min(int64(2*sec), length)
		a, window := NewFixed(time.Duration(length)), multiples{length}.bounds
		if rapid.Bool().Draw(t, "calendar") {
			c := drawCalendar(t)
			a, window, length, pastFor = c, c.(fixed).bounds, c.Length(0), int64(2*sec)
		}
		counts := make(map[span]int64)
		var s State
		newest := int64(math.MinInt64)
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			at, weight := rapid.Int64Range(-length, 5*length).Draw(t, "time"), rapid.Int64Range(1, 5).Draw(t, "weight")
			if rapid.Bool().Draw(t, "at a boundary") {
				at = window(at).end + rapid.Int64Range(-pastFor, 2*pastFor).Draw(t, "from it")
			}
			own, now := window(at), window(newest)
			past := newest != math.MinInt64 && own.end == now.start && newest-now.start < pastFor
			late := newest != math.MinInt64 && own.end <= now.start && !past
			var c Count
			s, c = a.Add(s, limit, at, weight)
			if (c.Place == Late) != late || (c.Place == Past) != past {
				t.Fatalf("%s: entry at %d with the newest at %d: got place %v, want late %v and past %v", a.Shape(), at, newest, c.Place, late, past)
			}
			if late {
				continue
			}
			newest = max(newest, at)
			counts[own] += weight
			want := Count{Total: counts[own], Start: own.start, Until: at, Place: c.Place}
			if want.Total >= limit {
				want.Until = own.end
			}
			if c != want {
				t.Fatalf("%s: entry at %d with the newest at %d: got %+v, want %+v", a.Shape(), at, newest, c, want)
			}
		}
	})
}

// Sliding against its definition with a map of slots, in unbounded integers.
func TestSlidingIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "length")
		slots := rapid.Int64Range(1, 25).Draw(t, "slots")
		limit := drawLimit(t)
		a := NewSliding(time.Duration(length), int(slots))
		w := new(big.Int).Div(big.NewInt(length-1), big.NewInt(slots))
		slot := w.Add(w, big.NewInt(1)).Int64() // ceil
		counts := make(map[int64]*big.Int)
		var s State
		var newest int64
		for i := range rapid.IntRange(1, 30).Draw(t, "entries") {
			at, weight := drawTime(t, length), max(drawWeight(t), 1)
			index := integer.FloorDiv(at, slot)
			var c Count
			s, c = a.Add(s, limit, at, weight)
			if late := i > 0 && big.NewInt(index).Cmp(new(big.Int).Sub(big.NewInt(newest), big.NewInt(slots))) < 0; late != (c.Place == Late) {
				t.Fatalf("%s: slot %d with the newest %d: got late %v", a.Shape(), index, newest, c.Place)
			} else if late {
				continue
			}
			if i == 0 || index > newest {
				newest = index
			}
			if counts[index] == nil {
				counts[index] = new(big.Int)
			}
			counts[index].Add(counts[index], big.NewInt(weight))
			want := slidingOracle(counts, newest, slots, slot, limit, at)
			if want.Start = c.Start; c != want {
				t.Fatalf("%s: slot %d: got %+v, want %+v", a.Shape(), index, c, want)
			}
		}
	})
}

func slidingOracle(counts map[int64]*big.Int, newest, slots, slot, limit, at int64) Count {
	sum := func(k *big.Int) *big.Int { // of slots k−slots … k
		total := new(big.Int)
		for index, weight := range counts {
			age := new(big.Int).Sub(k, big.NewInt(index))
			if age.Sign() >= 0 && age.Cmp(big.NewInt(slots)) <= 0 {
				total.Add(total, weight)
			}
		}
		return total
	}
	k := big.NewInt(newest)
	c := Count{Total: clamp(sum(k)).Int64(), Until: at}
	if sum(k).Cmp(big.NewInt(limit)) < 0 {
		return c
	}
	for sum(k).Cmp(big.NewInt(limit)) >= 0 {
		k.Add(k, big.NewInt(1))
	}
	c.Until = clamp(new(big.Int).Mul(k, big.NewInt(slot))).Int64()
	return c
}
