package outbox

import (
	"fmt"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

const poolPartitions = 4

// poolRules returns two rules with a capacity.
func poolRules(t *testing.T) []*rules.Rule {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n"+
		"  - {name: a, callers: key, capacity: 1000, window: 1s}\n  - {name: b, callers: key, capacity: 1000, window: 1s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return set.Rules
}

func newPools() *Pools {
	return NewPools(schemas.DefaultPartitionKey(), schemas.ProducerID{7}, 2, poolPartitions)
}

// tallyAt and levelAt make what a fold makes at the end of a quarter.
func tallyAt(r *rules.Rule, quarter int64) fold.PoolTally {
	return fold.PoolTally{Rule: r, Tally: pool.Tally{Quarter: quarter, Total: 10}, At: now}
}

func levelAt(r *rules.Rule, quarter int64) fold.PoolLevel {
	return fold.PoolLevel{Rule: r, Level: pool.Level{Quarter: quarter, Level: 5, Asked: 10}, At: now}
}

// read returns the frame that waits for a partition.
func read(t *testing.T, p *Pools, to int) schemas.Frame {
	t.Helper()
	value, err := p.Frame(to, now+5)
	if err != nil {
		t.Fatal(err)
	}
	var f schemas.Frame
	if err := f.Decode(value); err != nil {
		t.Fatal(err)
	}
	return f
}

// say returns the entries of a frame as KIND ID QUARTER.
func say(t *testing.T, f schemas.Frame) (list []string) {
	t.Helper()
	for _, e := range f.Entries {
		var quarter int64
		if e.Kind == schemas.KindLevel {
			l, err := pool.ReadLevel([]byte(e.Resource[9:]))
			if err != nil {
				t.Fatal(err)
			}
			quarter = l.Quarter
		} else {
			tally, err := pool.ReadTally([]byte(e.Resource[10:]))
			if err != nil {
				t.Fatal(err)
			}
			quarter = tally.Quarter
		}
		list = append(list, fmt.Sprintf("%s %c %d", e.Kind, e.ID[0], quarter))
	}
	return list
}

func expect(t *testing.T, p *Pools, to int, seq uint64, want ...string) {
	t.Helper()
	f := read(t, p, to)
	if got := say(t, f); !slices.Equal(got, want) || f.Seq != seq {
		t.Errorf("partition %d: got %v with number %d, want %v with %d", to, got, f.Seq, want, seq)
	}
}

// TestTalliesGoHomeAndLevelsEverywhere: each entry is in the partition in which readers look for its caller.
func TestTalliesGoHomeAndLevelsEverywhere(t *testing.T) {
	p, rule, key := newPools(), poolRules(t)[0], schemas.DefaultPartitionKey()
	home := fold.PoolHome(key, "a", poolPartitions)
	if idle, dropped := p.Offer([]fold.PoolTally{tallyAt(rule, 8)}, nil); !slices.Equal(idle, []int{home}) || dropped != 0 {
		t.Errorf("got %v, %d dropped, want partition %d", idle, dropped, home)
	}
	idle, dropped := p.Offer(nil, []fold.PoolLevel{levelAt(rule, 8)})
	if idle = append(idle, home); !slices.Equal(slices.Sorted(slices.Values(idle)), []int{0, 1, 2, 3}) || dropped != 0 {
		t.Errorf("got %v, %d dropped, want all partitions but %d", idle[:len(idle)-1], dropped, home)
	}
	for to := range poolPartitions {
		f := read(t, p, to)
		want := []string{"_level a 8"}
		if to == home {
			want = append(want, "_tally a 8")
		}
		if got := say(t, f); !slices.Equal(got, want) {
			t.Errorf("partition %d: got %v, want %v", to, got, want)
		}
		for _, e := range f.Entries {
			if got := schemas.Partition(key.Hash(e.Kind, e.ID), poolPartitions); got != to || e.Time != now {
				t.Errorf("partition %d: got an entry of partition %d at %d", to, got, e.Time)
			}
		}
		if f.Producer != (schemas.ProducerID{7}) || f.Partitions != poolPartitions || f.Fingerprint != key.Fingerprint() || f.Flushed != now+5 || f.Seq != 1 {
			t.Errorf("partition %d: got frame %+v", to, f)
		}
	}
}

// TestTheNewestWaits tells what is offered while frames are on their way: numbers follow each other without a gap, and nothing goes twice.
func TestTheNewestWaits(t *testing.T) {
	p, list := newPools(), poolRules(t)
	a, b := list[0], list[1]
	home := fold.PoolHome(schemas.DefaultPartitionKey(), "a", poolPartitions)
	offer := func(wantIdle []int, wantDropped int, tallies ...fold.PoolTally) {
		t.Helper()
		if idle, dropped := p.Offer(tallies, nil); !slices.Equal(idle, wantIdle) || dropped != wantDropped {
			t.Errorf("got %v and %d dropped, want %v and %d", idle, dropped, wantIdle, wantDropped)
		}
	}
	acked := func(want bool) {
		t.Helper()
		if more := p.Acked(home); more != want {
			t.Errorf("got more %v, want %v", more, want)
		}
	}
	offer([]int{home}, 0, tallyAt(a, 8))
	expect(t, p, home, 1, "_tally a 8")
	offer(nil, 1, tallyAt(a, 9)) // it waits for the answer
	acked(true)
	expect(t, p, home, 2, "_tally a 9")
	acked(false)

	offer([]int{home}, 0, tallyAt(a, 10))
	expect(t, p, home, 3, "_tally a 10") // fails
	expect(t, p, home, 3, "_tally a 10") // fails again
	offer(nil, 2, tallyAt(a, 11), tallyAt(a, 12))
	expect(t, p, home, 3, "_tally a 12")
	acked(false)

	if other := fold.PoolHome(schemas.DefaultPartitionKey(), "b", poolPartitions); other != home {
		offer([]int{home, other}, 0, tallyAt(a, 13), tallyAt(b, 13)) // partitions do not wait for each other
		expect(t, p, home, 4, "_tally a 13")
		expect(t, p, other, 1, "_tally b 13")
	}
	if idle, _ := p.Offer(nil, []fold.PoolLevel{levelAt(b, 14), levelAt(a, 14)}); slices.Contains(idle, home) {
		t.Errorf("got %v, though a frame is on its way to %d", idle, home)
	}
	acked(true)
	expect(t, p, home, 5, "_level a 14", "_level b 14")
	acked(false)
	if idle, dropped := p.Offer(nil, nil); len(idle) > 0 || dropped > 0 {
		t.Errorf("got %v, %d dropped of nothing", idle, dropped)
	}
}
