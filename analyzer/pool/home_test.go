package pool

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

// TestAHomeMakesOneLevelAQuarter tells what a home hears and when, and which levels follow. Two callers of each partition ask for its total.
func TestAHomeMakesOneLevelAQuarter(t *testing.T) {
	type step struct {
		partition int // −1: no tally, log time has moved
		quarter   int64
		total     int64
		at        int64 // in seconds
		ended     int64
		received  bool
		made      int64 // quarter of the level that was made; 0 is none
		asked     int64 // as the newest level says
		send      bool
	}
	for name, steps := range map[string][]step{
		"when all partitions have said it": {
			{partition: 0, quarter: 10, total: 800, at: 1, ended: 10, received: true, made: 10, asked: 800}, // nobody else is known yet
			{partition: 1, quarter: 10, total: 900, at: 1, ended: 10, received: true, asked: 800},
			{partition: 0, quarter: 11, total: 801, at: 1, ended: 11, received: true, asked: 800},
			{partition: 1, quarter: 11, total: 901, at: 1, ended: 11, received: true, made: 11, asked: 1702, send: true},
			{partition: -1, at: 1, ended: 11, asked: 1702},
		},
		"at the end of the next quarter, if one is missing": {
			{partition: 0, quarter: 10, total: 800, at: 1, ended: 10, received: true, made: 10, asked: 800},
			{partition: 1, quarter: 10, total: 900, at: 1, ended: 10, received: true, asked: 800},
			{partition: 0, quarter: 11, total: 700, at: 1, ended: 11, received: true, asked: 800},
			{partition: -1, at: 1, ended: 12, made: 11, asked: 1600, send: true}, // with the last tally of partition 1
			{partition: 1, quarter: 11, total: 100, at: 1, ended: 12, received: true, asked: 1600},
		},
		"a tally that came counts no second time, nor an older one": {
			{partition: 2, quarter: 10, total: 1800, at: 1, ended: 10, received: true, made: 10, asked: 1800, send: true},
			{partition: 2, quarter: 10, total: 1800, at: 1, ended: 10, asked: 1800},
			{partition: 2, quarter: 9, total: 50, at: 1, ended: 10, asked: 1800},
			{partition: 2, quarter: 11, total: 50, at: 1, ended: 11, received: true, made: 11, asked: 50, send: true},
		},
		"a partition that is away counts for ten seconds": {
			{partition: 0, quarter: 10, total: 800, at: 1, ended: 10, received: true, made: 10, asked: 800},
			{partition: 1, quarter: 10, total: 900, at: 2, ended: 10, received: true, asked: 800},
			{partition: 0, quarter: 45, total: 810, at: 11, ended: 45, received: true, made: 44, asked: 1710, send: true},
			{partition: 0, quarter: 46, total: 820, at: 12, ended: 46, received: true, made: 46, asked: 820, send: true},
		},
		"a partition that nobody asks is not waited for": {
			{partition: 0, quarter: 10, total: 0, at: 1, ended: 10, received: true, asked: 0}, // nor is there anything to say
			{partition: 1, quarter: 11, total: 900, at: 1, ended: 11, received: true, made: 11, asked: 900},
			{partition: 1, quarter: 12, total: 950, at: 1, ended: 12, received: true, made: 12, asked: 950},
		},
		"a partition that one request came to is waited for": {
			{partition: 0, quarter: 10, total: 1, at: 1, ended: 10, received: true, made: 10, asked: 1},
			{partition: 1, quarter: 11, total: 900, at: 1, ended: 11, received: true, asked: 1},
		},
		"a tally of a quarter that is not over makes a level of the last one that is": {
			{partition: 0, quarter: 14, total: 900, at: 1, ended: 10, received: true, made: 10, asked: 900},
		},
		"after the last demand nothing is made": {
			{partition: 0, quarter: 10, total: 900, at: 1, ended: 10, received: true, made: 10, asked: 900},
			{partition: 0, quarter: 11, total: 0, at: 1, ended: 11, received: true, made: 11},
			{partition: -1, at: 2, ended: 12},
			{partition: 0, quarter: 13, total: 0, at: 2, ended: 13, received: true},
		},
		"a level ends though everybody is away": {
			{partition: 0, quarter: 10, total: 4000, at: 1, ended: 10, received: true, made: 10, asked: 4000, send: true},
			{partition: -1, at: 11, ended: 50, made: 50, send: true}, // told once that it is over
			{partition: -1, at: 11, ended: 51},
		},
	} {
		t.Run(name, func(t *testing.T) {
			terms := &Terms{Capacity: 1000, Protect: Unit}
			var h Home
			for i, s := range steps {
				if s.partition >= 0 {
					callers := []asker{{s.total / 2, Unit}, {s.total - s.total/2, Unit}}
					tally := tallyOf(terms, callers...)
					tally.Quarter = s.quarter
					if got := h.Receive(s.partition, &tally, s.at*second); got != s.received {
						t.Errorf("step %d: got received %v, want %v", i, got, s.received)
					}
				}
				before := h.Level
				made, send := h.Next(terms, s.ended, s.at*second)
				if made != (s.made > 0) || send != s.send || made && h.Level.Quarter != s.made || h.Level.Asked != s.asked {
					t.Errorf("step %d: got %+v, made %v, send %v, want quarter %d, asked %d, send %v", i, h.Level, made, send, s.made, s.asked, s.send)
				}
				if !made && h.Level != before {
					t.Errorf("step %d: got level %+v, want %+v as before", i, h.Level, before)
				}
			}
		})
	}
}

// TestTheOldestTally is of the partition that has been silent longest, of those that had demand.
func TestTheOldestTally(t *testing.T) {
	var h Home
	if at, ok := h.Oldest(); ok {
		t.Errorf("got %d of no tally", at)
	}
	h.Receive(1, &Tally{Quarter: 1, Total: 5}, 3*second)
	h.Receive(3, &Tally{Quarter: 1, Total: 1}, 2*second)
	h.Receive(2, &Tally{Quarter: 1}, second)
	if at, ok := h.Oldest(); !ok || at != 2*second {
		t.Errorf("got %d, %v, want %d", at, ok, 2*second)
	}
	h.Receive(3, &Tally{Quarter: 2}, 4*second)
	if at, ok := h.Oldest(); !ok || at != 3*second {
		t.Errorf("got %d, %v, want %d: the other one asks for nothing any more", at, ok, 3*second)
	}
}

// TestAHomeIsWhatItHeard: a home that hears everything twice, or that is written and read back at any time, makes the same levels.
func TestAHomeIsWhatItHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := &Terms{Capacity: 1000, Protect: Unit}
		var once, other Home
		now := 100 * second
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			now += rapid.SampledFrom([]int64{0, second / 20, second / 4, 4 * second}).Draw(t, "pause")
			ended := now/(second/4) - 1
			tally := tallyOf(terms, asker{rapid.Int64Range(0, 2000).Draw(t, "asked"), Unit}, asker{200, Unit})
			tally.Quarter = ended - rapid.Int64Range(0, 3).Draw(t, "behind")
			partition := rapid.IntRange(0, 3).Draw(t, "partition")
			once.Receive(partition, &tally, now)
			other.Receive(partition, &tally, now)
			if other.Receive(partition, &tally, now) {
				t.Fatal("got a tally received twice")
			}
			once.Next(terms, ended, now)
			other.Next(terms, ended, now)
			if made, _ := other.Next(terms, ended, now); made {
				t.Fatal("got a level made twice")
			}
			if rapid.Bool().Draw(t, "written") {
				var err error
				if other, err = ReadHome(other.AppendTo(nil)); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(once, other) {
				t.Fatalf("got %+v, want %+v", other, once)
			}
		}
	})
}

func TestHomesThatAreMalformed(t *testing.T) {
	h := Home{Level: Level{1, 2, 3, 4}}
	h.Receive(1, &Tally{Quarter: 5, Total: 6, Classes: []Class{{At: 40, Callers: 1, Weight: Unit, Asked: 2}}}, math.MaxInt64)
	b := h.AppendTo(nil)
	if got, err := ReadHome(b); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
	level := len(h.Level.AppendTo(nil)) + 1                     // and when one ended
	empty := level + len((&Received{}).Tally.AppendTo(nil)) + 2 // of partition 0
	for n := range b {
		if got, err := ReadHome(b[:n]); (err == nil) != (n == level || n == empty) {
			t.Errorf("the first %d bytes: got %+v, %v", n, got, err)
		}
	}
	tooLong := append(h.Level.AppendTo(nil), 0, 2, 3, 1, 2, 3) // a tally of 3 bytes, in which a class is cut short
	if got, err := ReadHome(tooLong); err == nil {
		t.Errorf("got %+v of a tally that is cut short", got)
	}
}

// FuzzReadHome: what is read can be used, and is written and read as the same.
func FuzzReadHome(f *testing.F) {
	var h Home
	h.Receive(1, &Tally{Quarter: 8, Total: 2000, Classes: []Class{{At: 70, Callers: 4, Weight: 4 * Unit, Asked: 1900}}}, 2*second)
	f.Add(h.AppendTo(nil), int64(1000), int64(9), 3*second)
	h.Level = Level{Quarter: -1, Level: math.MaxInt64, Asked: math.MaxInt64, Above: math.MaxInt64}
	f.Add(h.AppendTo(nil), int64(1), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, b []byte, capacity, ended, now int64) {
		h, err := ReadHome(b)
		if err != nil {
			return
		}
		if again, err := ReadHome(h.AppendTo(nil)); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("got %+v, %v, want %+v", again, err, h)
		}
		terms := &Terms{Capacity: max(capacity, 1), Protect: 1}
		h.Oldest()
		if made, _ := h.Next(terms, ended, now); made && (h.Level.Level < 0 || h.Level.Asked < 0 || h.Level.Above < 0) {
			t.Fatalf("got level %+v", h.Level)
		}
		if again, err := ReadHome(h.AppendTo(nil)); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("got %+v, %v after Next, want %+v", again, err, h)
		}
	})
}
