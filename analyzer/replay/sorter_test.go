package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// sorted runs lines of these times, named by their number, through a sorter, and returns their names as they come out and
// the number of late ones.
func sorted(s func(emit func(*ingest.Line)) *sorter, times []int64) (names []string, late int, out *sorter) {
	var at []int64
	out = s(func(l *ingest.Line) {
		names = append(names, strings.Clone(l.IDs[0]))
		at = append(at, l.Time)
	})
	for i, t := range times {
		if !out.push(&ingest.Line{Time: t, IDs: []string{fmt.Sprint(i)}, Resource: "/r"}) {
			late++
		}
	}
	out.flush()
	if !slices.IsSorted(at) {
		names = append(names, "not in order of time")
	}
	return names, late, out
}

// naive is what a sorter must do: drop the late ones, sort the rest by time, ties as they came.
func naive(span int64, times []int64) (names []string, late int) {
	type line struct {
		at   int64
		name string
	}
	var lines []line
	newest := int64(-1)
	for i, t := range times {
		if t < newest-span {
			late++
			continue
		}
		newest = max(newest, t)
		lines = append(lines, line{t, fmt.Sprint(i)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return int(max(-1, min(1, a.at-b.at))) })
	for _, l := range lines {
		names = append(names, l.name)
	}
	return names, late
}

func TestSorterSortsLikeSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := time.Duration(rapid.SampledFrom([]int64{0, 1, int64(time.Millisecond), int64(time.Second), int64(10 * time.Second), int64(2 * time.Minute), int64(3 * time.Hour)}).Draw(t, "span"))
		unit := rapid.SampledFrom([]int64{1, int64(time.Millisecond), int64(time.Second)}).Draw(t, "unit")
		base := rapid.SampledFrom([]int64{0, 1_431_857_103_000_000_000}).Draw(t, "base")
		var times []int64
		for now, n := base, rapid.IntRange(0, 200).Draw(t, "lines"); n > 0; n-- {
			now += unit * rapid.SampledFrom([]int64{0, 0, 1, 7, 1000, 100_000}).Draw(t, "step")
			back := rapid.Int64Range(0, int64(span)+int64(span)/4).Draw(t, "back")
			times = append(times, max(0, now-back/unit*unit))
		}
		want, wantLate := naive(int64(span), times)
		got, late, s := sorted(func(emit func(*ingest.Line)) *sorter { return newSorter(span, 1, DefaultMaxBuffer, emit) }, times)
		if !slices.Equal(got, want) || late != wantLate {
			t.Fatalf("span %v, times %v:\n got %v, %d late\nwant %v, %d late", span, times, got, late, want, wantLate)
		}
		if s.waiting != 0 || s.chunks.taken != 0 || s.early != 0 {
			t.Fatalf("left over: %d lines, %d chunks, %d early", s.waiting, s.chunks.taken, s.early)
		}
	})
}

// TestSorterAtTheCap: with room for a few lines only, none is lost and none is out of order; what is too old is late.
func TestSorterAtTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "lines")
		limit := rapid.IntRange(0, 3).Draw(t, "chunks")
		id := strings.Repeat("x", 200)
		var got []int64
		s := newSorter(2*time.Minute, 1, int64(limit)*chunkSize, func(l *ingest.Line) { got = append(got, l.Time) })
		late := 0
		for range n {
			at := int64(time.Hour) + rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "at")
			if !s.push(&ingest.Line{Time: at, IDs: []string{id}}) {
				late++
			}
		}
		s.flush()
		if len(got)+late != n || !slices.IsSorted(got) || s.chunks.taken != 0 || s.waiting != 0 {
			t.Fatalf("of %d lines got %d and %d late, sorted %v", n, len(got), late, slices.IsSorted(got))
		}
		if (s.early > 0) != (len(got) > len(got)-int(s.early)) || s.early == 0 && late > 0 {
			t.Fatalf("%d late, %d early", late, s.early)
		}
	})
}

func TestSorterKeepsLinesOfOneTimeAtTheCap(t *testing.T) {
	// All lines of a log at one time: more than fit, and yet none is late.
	n := 0
	s := newSorter(time.Minute, 1, chunkSize, func(*ingest.Line) { n++ })
	for range 10_000 {
		if !s.push(&ingest.Line{Time: 1e18, IDs: []string{"a caller of some length"}}) {
			t.Fatal("late")
		}
	}
	s.flush()
	if n != 10_000 || s.early == 0 {
		t.Errorf("got %d lines, %d of them early", n, s.early)
	}
}

func TestSorterReturnsWhatItWasGiven(t *testing.T) {
	long := strings.Repeat("l", 256)
	lines := []ingest.Line{
		{Time: 0, IDs: []string{"", "", ""}},
		{Time: 1, End: 1, IDs: []string{"a", "", "c"}, Resource: "/x", Cost: math.MaxInt64, Status: 599},
		{Time: 2, End: math.MaxInt64, IDs: []string{long, long, long}, Resource: strings.Repeat("r", 1024), Cost: 1, Arrived: math.MaxInt64, Declared: math.MaxInt64},
		{Time: 3, End: 3, IDs: []string{"\x00", "\xff", "é"}, Resource: "\n", Status: math.MaxUint16, Declared: 1, Blocked: true},
		{Time: 4, End: 5, IDs: []string{"b", "", ""}, Blocked: true},
	}
	i := 0
	s := newSorter(time.Second, 3, DefaultMaxBuffer, func(l *ingest.Line) {
		w := lines[i%len(lines)]
		if l.Time != w.Time || !slices.Equal(l.IDs, w.IDs) || l.Resource != w.Resource || l.Cost != w.Cost || l.Status != w.Status ||
			l.End != w.End || l.Arrived != w.Arrived || l.Declared != w.Declared || l.Blocked != w.Blocked {
			t.Errorf("line %d: got %+v, want %+v", i, l, w)
		}
		i++
	})
	for _, l := range lines {
		s.push(&l)
	}
	if s.flush(); i != len(lines) {
		t.Errorf("got %d lines", i)
	}
}

func TestAChunkHoldsTheLongestLine(t *testing.T) {
	l := ingest.Line{Resource: strings.Repeat("r", 1024), End: 1}
	for range ingest.MaxCallers + 1 {
		l.IDs = append(l.IDs, strings.Repeat("i", 256))
	}
	if c := (&chunks{}).take(); !c.add(&l) || len(c.data) != maxPacked || maxPacked > chunkSize {
		t.Errorf("a line of %d bytes does not fit into %d", maxPacked, chunkSize)
	}
}

func TestSorterReusesItsMemory(t *testing.T) {
	s := newSorter(10*time.Second, 1, DefaultMaxBuffer, func(*ingest.Line) {})
	l := ingest.Line{IDs: []string{"203.0.113.9"}, Resource: "/index.html"}
	step := func() {
		for i := range int64(100) {
			l.Time += int64(time.Second) / 3
			l.Time -= i % 3 * int64(time.Millisecond) // buckets need sorting
			s.push(&l)
		}
	}
	for range 20 {
		step()
	}
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
