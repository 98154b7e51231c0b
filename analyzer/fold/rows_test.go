package fold

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// rowEntry folds one entry of a caller of kind key.
func rowEntry(f *Fold, at int64, id string, count uint32) {
	f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: count})
}

// TestARowIsChangedOnceInATransaction: rows come and go between two checkpoints, and the store is told what became of
// them, once each, on top of what it holds. fakeStore refuses anything else.
func TestARowIsChangedOnceInATransaction(t *testing.T) {
	set := foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m, algorithm: fixed}")
	const expired = 20 * minute // what was there at 0 has expired
	tests := map[string]struct {
		between func(f *Fold)
		left    int
	}{
		"new, and gone before it was stored": {func(f *Fold) {
			rowEntry(f, 0, "new", 1)
			rowEntry(f, expired, "z", 1)
		}, 1},
		"stored, and gone": {func(f *Fold) {
			rowEntry(f, expired, "z", 1)
		}, 1},
		"stored, gone, and back": {func(f *Fold) {
			rowEntry(f, expired, "z", 1)
			rowEntry(f, expired, "old", 1)
		}, 2},
		"stored, gone, back, and gone again": {func(f *Fold) {
			rowEntry(f, expired, "old", 1)
			rowEntry(f, 2*expired, "z", 1)
		}, 1},
		"stored, changed, and gone": {func(f *Fold) {
			rowEntry(f, second, "old", 1)
			rowEntry(f, expired, "z", 1)
		}, 1},
		"changed twice": {func(f *Fold) {
			rowEntry(f, second, "old", 1)
			rowEntry(f, second, "old", 1)
		}, 1},
		"gone with a rule, and back with its next life": {func(f *Fold) {
			f.SetRules(foldtest.Rules(t, "{name: b, callers: key, limit: 3, window: 1m}"))
			f.SetRules(set)
			rowEntry(f, second, "old", 1)
		}, 1},
		"gone with a rule": {func(f *Fold) {
			f.SetRules(foldtest.Rules(t, "{name: b, callers: key, limit: 3, window: 1m}"))
			f.SetRules(set)
		}, 0},
		"moved by a change of rules": {func(f *Fold) {
			rowEntry(f, second, "old", 1)
			f.SetRules(foldtest.Rules(t, "{name: other, callers: ip, limit: 3, window: 1m}", "{name: a, callers: key, limit: 2, window: 1m, algorithm: fixed}"))
			f.SetRules(set)
		}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var kept fakeStore
			f := New(set, Options{})
			rowEntry(f, 0, "old", 1)
			kept.commit(t, f)
			test.between(f)
			kept.commit(t, f)
			if len(kept.rows) != test.left {
				t.Errorf("got %d rows, want %d", len(kept.rows), test.left)
			}
			if got, want := rowsOf(kept.restore(t, set, Options{})), rowsOf(f); !slices.Equal(got, want) {
				t.Errorf("got rows %q after a restart, want %q", got, want)
			}
		})
	}
}

// changeOfRules is a point of a log at which rules change.
type changeOfRules struct {
	before int // the record
	set    *rules.Set
}

// randomLog is records with every kind of trouble: duplicates, gaps, late entries, long silences, many producers, lines of
// sources, canaries, and frames that are refused.
func randomLog(t *rapid.T) []Record {
	var log []Record
	now := 1_700_000_000 * second
	var seqs [3]uint64
	lines := make([]int64, 2) // the last line of each source
	for n := range rapid.IntRange(1, 40).Draw(t, "records") {
		if n > 0 && rapid.IntRange(0, 5).Draw(t, "again") == 0 {
			log = append(log, Record{Offset: int64(n), Time: now, Value: log[rapid.IntRange(0, n-1).Draw(t, "which")].Value})
			continue
		}
		now += rapid.OneOf(rapid.Int64Range(0, second), rapid.Int64Range(0, minute), rapid.Int64Range(0, 30*minute), rapid.SampledFrom([]int64{25 * hour, 25 * hour, 401 * 24 * hour})).Draw(t, "pause")
		fr := foldtest.Frame(1, now, append(drawEntries(t, now), drawPoolEntries(t, now)...)...)
		producer := rapid.IntRange(0, len(seqs)+len(lines)-1).Draw(t, "producer")
		if fr.Producer[0] = byte(producer); producer >= len(seqs) {
			fr.Source, fr.Seq = true, 0
			line := &lines[producer-len(seqs)]
			for i := range fr.Entries {
				*line += rapid.Int64Range(0, 2).Draw(t, "next line")
				fr.Entries[i].Offset = *line
			}
		} else {
			seqs[producer] += rapid.SampledFrom([]uint64{1, 1, 1, 3}).Draw(t, "step")
			fr.Seq = seqs[producer]
		}
		value := foldtest.Encode(t, fr)
		if rapid.IntRange(0, 9).Draw(t, "damaged") == 0 {
			value[rapid.IntRange(0, len(value)-1).Draw(t, "where")]++
		}
		log = append(log, Record{Offset: int64(n), Time: now, Value: value})
	}
	return log
}

// drawPoolEntries draws tallies and levels of rule shared: of any quarter that is near, of a wrong shape, or cut short.
func drawPoolEntries(t *rapid.T, now int64) (entries []schemas.Entry) {
	shared := foldtest.VariedRules(t)[0].Pools()[0]
	for range rapid.IntRange(0, 2).Draw(t, "tallies and levels") {
		quarter := integer.FloorDiv(now, 15*second) - rapid.Int64Range(-50, 3).Draw(t, "quarter")
		at := now - rapid.Int64Range(0, second).Draw(t, "late by")
		var e schemas.Entry
		if rapid.Bool().Draw(t, "is a tally") {
			tally := pool.Tally{Quarter: quarter, Total: rapid.Int64Range(0, 200).Draw(t, "asked")}
			if tally.Total > 9 {
				tally.Add(&shared.Pool.Terms, tally.Total/2, pool.Unit)
			}
			e = (&PoolTally{shared, tally, at}).Entry(rapid.IntRange(0, 1).Draw(t, "from"))
		} else {
			level := pool.Level{Quarter: quarter, Level: rapid.SampledFrom([]int64{0, 0, 4000, 6500, 20_000}).Draw(t, "level"), Asked: 60}
			e = (&PoolLevel{shared, level, at}).Entry("shared#0")
		}
		if rapid.IntRange(0, 9).Draw(t, "damaged") == 0 {
			b := []byte(e.Resource)
			b[rapid.IntRange(0, len(b)-1).Draw(t, "where")]++
			e.Resource = string(b[:rapid.IntRange(0, len(b)).Draw(t, "cut at")])
		}
		entries = append(entries, e)
	}
	return entries
}

func drawEntries(t *rapid.T, now int64) []schemas.Entry {
	entries := make([]schemas.Entry, rapid.IntRange(0, 6).Draw(t, "entries"))
	for i := range entries {
		entries[i] = schemas.Entry{
			Time: now - rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(-second, minute), rapid.Int64Range(0, 2*hour)).Draw(t, "late by"),
			Kind: rapid.SampledFrom([]string{"key", "key", "key", "ip", schemas.KindCanary}).Draw(t, "kind"),
			ID:   rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "2001:db8::1"}).Draw(t, "id"), Count: rapid.Uint32Range(1, 5).Draw(t, "count"),
			Blocked: rapid.IntRange(0, 4).Draw(t, "blocked") == 0,
		}
		entries[i].Early = entries[i].Blocked && rapid.Bool().Draw(t, "early")
		if rapid.IntRange(0, 9).Draw(t, "followed") > 0 {
			entries[i].Arrived = int64(entries[i].Count) * max(schemas.Tick(entries[i].Time), 0)
		}
		if rapid.IntRange(0, 3).Draw(t, "response") == 0 {
			entries[i].Response, entries[i].Status, entries[i].Cost = true, 500, rapid.Int64Range(0, 5).Draw(t, "cost")
			arrived := max(schemas.Tick(entries[i].Time)-rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(-100, 60_000)).Draw(t, "ran for"), 0)
			entries[i].Arrived = rapid.SampledFrom([]int64{0, arrived * int64(entries[i].Count), arrived * int64(entries[i].Count), math.MaxInt64}).Draw(t, "arrived")
		}
		if rapid.IntRange(0, 3).Draw(t, "declares") == 0 {
			entries[i].Declared = rapid.SampledFrom([]int64{1, 4, math.MaxInt64}).Draw(t, "declared")
		}
	}
	return entries
}

// TestKillsChangeNothing: an analyzer that is killed anywhere and goes on from its last checkpoint decides and stores
// what one that ran through does, also where rules change and where senders are too many.
func TestKillsChangeNothing(t *testing.T) {
	sets := foldtest.VariedRules(t)
	o := Options{MaxSenders: 3}
	rapid.Check(t, func(t *rapid.T) {
		log := randomLog(t)
		change := changeOfRules{before: rapid.IntRange(0, len(log)).Draw(t, "rules change before"), set: sets[1]}
		plain := New(sets[0], o)
		want := make([][]Change, len(log))
		var derived []Change
		for i := range log {
			want[i] = foldOne(plain, log, i, change, func(c []Change) { derived = c })
		}
		var kept fakeStore
		committed, killed := 0, New(sets[0], o)
		rulesThen := sets[0]
		commit := func(next int) {
			kept.commit(t, killed)
			committed, rulesThen = next, killed.Rules()
		}
		for i := 0; i < len(log); {
			got := foldOne(killed, log, i, change, func(c []Change) {
				if !sameChanges(c, derived) {
					t.Fatalf("new rules: got changes %+v, want %+v", c, derived)
				}
				if rapid.Bool().Draw(t, "rules are committed") {
					commit(i)
				}
			})
			if !sameChanges(got, want[i]) {
				t.Fatalf("record %d: got changes %+v, want %+v", i, got, want[i])
			}
			i++
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0:
				commit(i)
			case 1:
				i = committed
				killed = kept.restore(t, rulesThen, o)
			}
		}
		if got, want := rowsOf(killed), rowsOf(plain); !slices.Equal(got, want) {
			t.Fatalf("got rows %q, want %q", got, want)
		}
		if got, want := senders(killed.dedupe), senders(plain.dedupe); !slices.Equal(got, want) {
			t.Fatalf("got senders %q, want %q", got, want)
		}
		commit(len(log))
		var whole fakeStore
		whole.commit(t, plain)
		if kept.digest != whole.digest || killed.Digest(kept.logTime) != plain.Digest(kept.logTime) {
			t.Fatalf("got digests %#x and %#x, want %#x and %#x", kept.digest, killed.Digest(kept.logTime), whole.digest, plain.Digest(kept.logTime))
		}
	})
}

func sameChanges(a, b []Change) bool { return len(a)+len(b) == 0 || reflect.DeepEqual(a, b) }

// foldOne folds record i of the log and returns what it changed. Where the rules change first, it calls changed with what
// that did, but for the offset: of the last record folded, which a restart forgets.
func foldOne(f *Fold, log []Record, i int, change changeOfRules, changed func([]Change)) []Change {
	if i == change.before && f.Rules() != change.set {
		f.SetRules(change.set)
		derived := slices.Clone(f.TakeChanges())
		for n := range derived {
			derived[n].Offset = 0
		}
		changed(derived)
	}
	_ = f.Frame(log[i]) // refused ones are part of the story
	return slices.Clone(f.TakeChanges())
}

// TestRulesChangedWhileDown: rules that changed while no analyzer ran leave the rows that a change under way leaves.
func TestRulesChangedWhileDown(t *testing.T) {
	sets := foldtest.VariedRules(t)
	rapid.Check(t, func(t *rapid.T) {
		live := New(sets[0], Options{})
		for _, rec := range randomLog(t) {
			_ = live.Frame(rec)
		}
		var kept fakeStore
		kept.commit(t, live)
		down := kept.restore(t, sets[1], Options{})
		down.SetRules(sets[1]) // as an owner does when the store says it was folded under other rules
		live.SetRules(sets[1])
		if got, want := rowsOf(down), rowsOf(live); !slices.Equal(got, want) {
			t.Fatalf("got rows %q, want %q", got, want)
		}
		other := kept.clone()
		kept.commit(t, down)
		other.commit(t, live)
		if kept.digest != other.digest || len(kept.rows) != len(other.rows) {
			t.Fatalf("got %d rows of digest %#x, want %d of %#x", len(kept.rows), kept.digest, len(other.rows), other.digest)
		}
	})
}

// TestDigestsOfPartitionsAddUp at any time from the newest entry on.
func TestDigestsOfPartitionsAddUp(t *testing.T) {
	set := foldtest.VariedRules(t)[0]
	whole := New(set, Options{})
	var parts [4]*Fold
	for p := range parts {
		parts[p] = New(set, Options{Partition: p, Partitions: len(parts)})
	}
	key := schemas.DefaultPartitionKey()
	for n := range 2000 {
		e := schemas.Entry{Time: int64(n) * second, Kind: "key", ID: fmt.Sprint(n * n % 97), Count: 1}
		whole.Entry(&e)
		parts[schemas.Partition(key.Hash(e.Kind, e.ID), len(parts))].Entry(&e)
	}
	for at := 2000 * second; at < 5*hour; at += 7 * minute {
		var sum uint64
		for _, f := range parts {
			sum += f.Digest(at)
		}
		if want := whole.Digest(at); sum != want {
			t.Errorf("at %d: got %#x, want %#x", at, sum, want)
		}
	}
	if whole.Digest(48*hour) != 0 {
		t.Errorf("got %#x when all is over, want 0", whole.Digest(48*hour))
	}
}
