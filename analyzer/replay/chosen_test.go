package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// TestAFullSorterLooksAtABucketOnce: once the cap is reached, every few lines push others out. That costs no search through
// the buckets that were emptied before, however the times of lines are chosen.
func TestAFullSorterLooksAtABucketOnce(t *testing.T) {
	const span = time.Hour
	long := strings.Repeat("x", 250)
	second := int64(time.Second)
	tests := map[string]func(i int) int64{
		"all at once":              func(int) int64 { return int64(span) },
		"one bucket after another": func(i int) int64 { return int64(i) * second },
		"old and new in turn":      func(i int) int64 { return int64(span) + int64(i%2)*3000*second },
	}
	for name, timeOf := range tests {
		t.Run(name, func(t *testing.T) {
			const lines = 20_000
			s := newSorter(span, 1, 2*chunkSize, func(*ingest.Line) {})
			for i := range lines {
				s.push(&ingest.Line{Time: timeOf(i), IDs: []string{long}})
			}
			if s.early == 0 {
				t.Fatal("no line left early: the test misses what it is for")
			}
			if limit := int64(2*lines + 2*len(s.buckets)); s.looks > limit {
				t.Errorf("got %d looks at buckets for %d lines, want at most %d", s.looks, lines, limit)
			}
		})
	}
}

// TestChosenCallersMeetInNoOtherRun: ids whose hashes share bits in one run do not share them in another, because each run
// draws a seed. So nobody can choose ids that make the set of callers slow, or the estimate wrong.
func TestChosenCallersMeetInNoOtherRun(t *testing.T) {
	var public distinct
	public.add(0, "")
	var chosen []string
	for i := 0; len(chosen) < 4096; i++ { // the attacker's search, by the seed of a run of its own
		id := fmt.Sprint("caller ", i)
		if public.hash(0, id)&0xff == 1 {
			chosen = append(chosen, id)
		}
	}
	var d distinct
	meet := 0
	for _, id := range chosen {
		d.add(0, id)
		if d.hash(0, id)&0xff == 1 {
			meet++
		}
	}
	if n, _ := d.count(); n != 4096 || meet > 100 { // 16 expected
		t.Errorf("got %d callers, of which %d meet, want 4096 and at most 100", n, meet)
	}
}

// BenchmarkChosenInput adds callers to the set of callers, and lines to a sorter that is full.
func BenchmarkChosenInput(b *testing.B) {
	random, chosen := make([]string, 1<<14), make([]string, 0, 1<<14)
	for i := range random {
		random[i] = fmt.Sprint("caller ", rand.Uint64())
	}
	var public distinct
	public.add(0, "")
	for i := 0; len(chosen) < cap(chosen); i++ {
		if id := fmt.Sprint("caller ", i); public.hash(0, id)&0xff == 1 {
			chosen = append(chosen, id)
		}
	}
	for name, ids := range map[string][]string{"random": random, "chosen": chosen} {
		b.Run("distinct/"+name, func(b *testing.B) {
			var d distinct
			for i := 0; b.Loop(); i++ {
				if i%len(ids) == 0 {
					d = distinct{}
				}
				d.add(0, ids[i%len(ids)])
			}
		})
	}
	for name, timeOf := range map[string]func(i int) int64{
		"in order": func(i int) int64 { return int64(i) * int64(time.Microsecond) },
		"random":   func(i int) int64 { return int64(i)*int64(time.Microsecond) + rand.Int64N(int64(time.Second)) },
		"chosen":   func(i int) int64 { return int64(i)*int64(time.Microsecond) + int64(i%2)*int64(time.Second)*10 },
	} {
		b.Run("sorter/"+name, func(b *testing.B) {
			s := newSorter(time.Hour, 1, 64*chunkSize, func(*ingest.Line) {})
			line := ingest.Line{IDs: []string{strings.Repeat("x", 250)}}
			for i := 0; b.Loop(); i++ {
				line.Time = timeOf(i)
				s.push(&line)
			}
		})
	}
}
