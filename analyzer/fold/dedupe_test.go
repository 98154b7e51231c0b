package fold

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

func TestDedupeStories(t *testing.T) {
	type frame struct {
		seq  uint64
		want dedupeResult
		gaps uint64
	}
	tests := map[string][]frame{
		"in order":                      {{1, fresh, 0}, {2, fresh, 0}, {3, fresh, 0}},
		"the same again":                {{1, fresh, 0}, {1, duplicate, 0}, {2, fresh, 0}, {1, duplicate, 0}, {2, duplicate, 0}},
		"a gap":                         {{1, fresh, 0}, {5, fresh, 3}, {6, fresh, 3}},
		"a late original fills its gap": {{1, fresh, 0}, {5, fresh, 3}, {3, fresh, 2}, {3, duplicate, 2}, {4, fresh, 1}, {2, fresh, 0}, {2, duplicate, 0}},
		"63 back is known, 64 back is not": {
			{1, fresh, 0}, {65, fresh, 63}, {2, fresh, 62}, {2, duplicate, 62}, {1, tooOld, 62}, {66, fresh, 62}, {2, tooOld, 62}, {3, fresh, 61},
		},
		"a billion ahead": {
			{1, fresh, 0}, {1_000_000_001, fresh, 999_999_999}, {1, tooOld, 999_999_999}, {2, tooOld, 999_999_999}, {1_000_000_002, fresh, 999_999_999},
		},
		"back to the beginning": {{100, fresh, 0}, {1, tooOld, 0}, {2, tooOld, 0}, {101, fresh, 0}},
		"the first frame seen is not the first sent": {
			{100, fresh, 0}, {99, fresh, 0}, {99, duplicate, 0}, {102, fresh, 1}, {98, fresh, 1}, {101, fresh, 0},
		},
		"to the end of numbers": {
			{math.MaxUint64, fresh, 0}, {math.MaxUint64, duplicate, 0}, {math.MaxUint64 - 1, fresh, 0}, {1, tooOld, 0},
		},
		"to the end of numbers, at once": {{1, fresh, 0}, {math.MaxUint64, fresh, math.MaxUint64 - 2}, {1, tooOld, math.MaxUint64 - 2}},
	}
	for name, frames := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDedupe(10)
			for i, f := range frames {
				if got := d.frame(foldtest.Producer(1), f.seq, 0, 0); got != f.want || d.gaps != f.gaps {
					t.Fatalf("frame %d, sequence %d: got %v and %d gaps, want %v and %d", i, f.seq, got, d.gaps, f.want, f.gaps)
				}
			}
			if got := d.frame(foldtest.Producer(2), 1, 0, 0); got != fresh {
				t.Errorf("another producer: got %v, want fresh", got)
			}
		})
	}
}

// TestDoubleDelivery: however frames are repeated and shuffled, as long as none comes more than 63 behind the newest,
// each is folded once, and the gaps are those that never came.
func TestDoubleDelivery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDedupe(10)
		folded := make(map[uint64]int)
		first := rapid.OneOf(rapid.Just[uint64](1), rapid.Uint64Range(1, 1e9)).Draw(t, "first")
		high := first
		for i := range rapid.IntRange(1, 300).Draw(t, "deliveries") {
			seq := first
			if i > 0 {
				seq = high + 3 - rapid.Uint64Range(0, min(66, high+2)).Draw(t, "back")
			}
			if high > seq && high-seq > 63 {
				continue
			}
			high = max(high, seq)
			switch d.frame(foldtest.Producer(1), seq, 0, 0) {
			case fresh:
				folded[seq]++
			case duplicate:
				if folded[seq] == 0 {
					t.Fatalf("sequence %d is called a duplicate, but was never folded", seq)
				}
			default:
				t.Fatalf("sequence %d was refused with %d the newest", seq, high)
			}
			if folded[seq] != 1 {
				t.Fatalf("sequence %d was folded %d times", seq, folded[seq])
			}
		}
		var missing uint64
		for seq := first; seq <= high; seq++ {
			if folded[seq] == 0 {
				missing++
			}
		}
		if d.gaps != missing {
			t.Fatalf("got %d gaps, want %d", d.gaps, missing)
		}
	})
}

func TestSendersExpireByLogTime(t *testing.T) {
	const day = 24 * hour
	d := newDedupe(10)
	d.frame(foldtest.Producer(1), 1, 0, 0)
	d.frame(foldtest.Producer(2), 1, 0, 0)
	d.frame(foldtest.Producer(3), 1, 0, hour) // its messages are ahead of log time
	d.frame(foldtest.Producer(2), 1, hour, hour)
	for _, step := range []struct {
		at   int64
		left int
	}{{day, 3}, {day + 1, 2}, {day + hour, 2}, {day + hour + 1, 0}} {
		d.expire(step.at)
		if len(d.rows) != step.left {
			t.Errorf("at %v: got %d senders, want %d", time.Duration(step.at), len(d.rows), step.left)
		}
	}
	if got := d.frame(foldtest.Producer(1), 1, 2*day, 2*day); got != fresh {
		t.Errorf("a producer forgotten: got %v, want fresh", got)
	}
}

// TestNoSenderIsEvictedTooEarly: a full table lets go of who was silent for longest, in an order that depends on the log
// alone, and of nobody who was heard of within ten minutes.
func TestNoSenderIsEvictedTooEarly(t *testing.T) {
	const limit = 30
	d := newDedupe(limit)
	for n := range limit {
		d.frame(foldtest.Producer(n), 1, 0, int64(n%5)*minute)
	}
	for now, want := range map[int64]dedupeResult{0: crowded, 10 * minute: crowded} {
		if got := d.frame(foldtest.Producer(99), 1, now, now); got != want {
			t.Errorf("at %v: got %v, want %v", time.Duration(now), got, want)
		}
	}
	if got := d.frame(foldtest.Producer(7), 2, 10*minute, 10*minute); got != fresh {
		t.Errorf("a producer that is known: got %v, want fresh", got)
	}
	if got := d.frame(foldtest.Producer(99), 1, 10*minute+1, 10*minute+1); got != fresh {
		t.Errorf("got %v, want room: six have been silent for longer", got)
	}
	for _, forgotten := range []int{0, 5, 10, 15} { // a tenth and one of those silent since 0, in the order of ids
		if d.rows[senderID{id: foldtest.Producer(forgotten)}] != nil {
			t.Errorf("producer %d is still there", forgotten)
		}
	}
	if len(d.rows) != limit-4+1 {
		t.Errorf("got %d senders, want %d", len(d.rows), limit-4+1)
	}
}

// TestSourcesExpireLaterThanWindows: a producer is forgotten after a day, and a source only when no window has room for its lines.
func TestSourcesExpireLaterThanWindows(t *testing.T) {
	if sourceExpiry <= schemas.MaxClosure {
		t.Errorf("got %v, want more than the longest window, %v", sourceExpiry, schemas.MaxClosure)
	}
	d := newDedupe(10)
	producer, source := senderID{id: foldtest.Producer(1)}, senderID{id: foldtest.Producer(1), source: true}
	d.row(producer, 0, 0)
	d.row(source, 0, 0)
	for _, step := range []struct {
		at               int64
		producer, source bool
	}{
		{24 * hour, true, true}, {24*hour + 1, false, true}, {int64(sourceExpiry), false, true}, {int64(sourceExpiry) + 1, false, false},
	} {
		d.expire(step.at)
		if d.rows[producer] != nil != step.producer || d.rows[source] != nil != step.source {
			t.Errorf("at %v: got %d senders, want the producer %t, the source %t", time.Duration(step.at), len(d.rows), step.producer, step.source)
		}
	}
}

// TestTheKindWithMoreSendersMakesRoom: a full table forgets producers before sources, although sources were silent for longer, unless it is
// sources that fill it. It accepts a sender if a row of either kind may be forgotten for it.
func TestTheKindWithMoreSendersMakesRoom(t *testing.T) {
	const limit, now = 10, hour
	for name, test := range map[string]struct {
		sources                      int
		sourcesLast, producersLast   int64
		want                         dedupeResult
		sourcesLeft, producersBefore int // producersBefore: of those that were there before
	}{
		"a few sources, silent for longer":             {3, 0, minute, fresh, 3, 5},
		"as many sources":                              {5, 0, minute, fresh, 5, 3},
		"more sources":                                 {7, minute, 0, fresh, 5, 3},
		"a few sources, and no producer is silent":     {3, 0, now, fresh, 1, 7},
		"more sources, of which none is silent":        {7, now, 0, fresh, 7, 1},
		"no sender was silent for longer than a grace": {3, now - int64(dedupeGrace), now, crowded, 3, 7},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDedupe(limit)
			for n := range limit {
				if n < test.sources {
					d.row(senderID{id: foldtest.Producer(n), source: true}, 0, test.sourcesLast)
				} else {
					d.row(senderID{id: foldtest.Producer(n)}, 0, test.producersLast)
				}
			}
			if got := d.frame(foldtest.Producer(99), 1, now, now); got != test.want {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			producers := d.producers.Len()
			if test.want == fresh {
				producers--
			}
			if d.sources.Len() != test.sourcesLeft || producers != test.producersBefore || d.sources.Len()+d.producers.Len() != len(d.rows) {
				t.Errorf("got %d sources and %d producers left, want %d and %d", d.sources.Len(), producers, test.sourcesLeft, test.producersBefore)
			}
		})
	}
}

// TestAFloodOfProducers: a flood of producers neither grows the table nor makes each of them search it.
func TestAFloodOfProducers(t *testing.T) {
	const limit = 20_000
	d := newDedupe(limit)
	began := time.Now()
	for n := range 300_000 {
		if got, want := d.frame(foldtest.Producer(n), 1, hour, hour), n < limit; (got == fresh) != want {
			t.Fatalf("producer %d: got %v", n, got)
		}
	}
	if len(d.rows) != limit || len(d.changed) != limit {
		t.Errorf("got %d senders, %d changed, want %d", len(d.rows), len(d.changed), limit)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v: each one searched the table", took)
	}
}

// TestEvictionDependsOnTheLogAlone: two tables of one history, of which one was stored and restored in between, and which
// range over their maps in another order anyway, hold the same senders.
func TestEvictionDependsOnTheLogAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 8
		a, b := newDedupe(limit), newDedupe(limit)
		var now int64
		for range rapid.IntRange(1, 100).Draw(t, "frames") {
			now += rapid.Int64Range(0, 5*minute).Draw(t, "pause")
			at := now + rapid.Int64Range(-minute, minute).Draw(t, "message")
			id, seq := foldtest.Producer(rapid.IntRange(0, 15).Draw(t, "producer")), rapid.Uint64Range(1, 4).Draw(t, "seq")
			if rapid.IntRange(0, 2).Draw(t, "a source") == 0 {
				source := senderID{id: id, source: true}
				if ra, rb := a.row(source, now, max(now, at)), b.row(source, now, max(now, at)); (ra == nil) != (rb == nil) {
					t.Fatalf("got %v and %v", ra, rb)
				}
			} else if va, vb := a.frame(id, seq, now, at), b.frame(id, seq, now, at); va != vb {
				t.Fatalf("got %v and %v", va, vb)
			}
			if rapid.Bool().Draw(t, "restart") {
				b = restarted(t, b)
			}
			if sa, sb := senders(a), senders(b); !slices.Equal(sa, sb) {
				t.Fatalf("got %q and %q", sa, sb)
			}
		}
	})
}

// restarted returns a table restored from what another would store.
func restarted(t foldtest.T, d *dedupe) *dedupe {
	t.Helper()
	to := newDedupe(d.max)
	for id, s := range d.rows {
		if err := to.restore(id.key(), s.value(), 1); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func senders(d *dedupe) []string {
	var all []string
	for id, s := range d.rows {
		all = append(all, string(id.key())+string(s.value()))
	}
	slices.Sort(all)
	return all
}

func TestSendersThatCannotBeRead(t *testing.T) {
	id := senderID{id: foldtest.Producer(1)}
	s := sender{highestSeq: 1 << 40, bitmap: math.MaxUint64, last: -5}
	good := s.value()
	source := senderID{id: foldtest.Producer(1), source: true}.key()
	for n := range good {
		if err := newDedupe(1).restore(id.key(), good[:n], 1); !errors.Is(err, errRow) {
			t.Errorf("cut to %d bytes: got %v, want %v", n, err, errRow)
		}
	}
	for name, row := range map[string]struct{ key, value []byte }{
		"more behind it":         {id.key(), append(slices.Clone(good), 0)},
		"another version":        {id.key(), append([]byte{9}, good[1:]...)},
		"a short key":            {id.key()[:16], good},
		"another kind":           {append([]byte{'x'}, id.key()[1:]...), good},
		"an offset beyond int64": {source, (&sender{highestSeq: math.MaxUint64, bitmap: 1}).value()},
		"a number too long":      {id.key(), append([]byte{rowVersion}, slices.Repeat([]byte{0xff}, 30)...)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDedupe(1)
			if err := d.restore(row.key, row.value, 1); !errors.Is(err, errRow) || len(d.rows) != 0 {
				t.Errorf("got %v and %d rows, want %v and none", err, len(d.rows), errRow)
			}
		})
	}
	if err := newDedupe(1).restore(source, (&sender{highestSeq: math.MaxInt64, bitmap: 1}).value(), 1); err != nil {
		t.Errorf("the largest offset: got %v, want it read", err)
	}
	d := newDedupe(1)
	if err := d.restore(id.key(), good, 7); err != nil {
		t.Fatal(err)
	}
	if got := *d.rows[id]; got.highestSeq != s.highestSeq || got.bitmap != s.bitmap || got.last != s.last || got.stored != 7 {
		t.Errorf("got %+v, want %+v", got, s)
	}
}

func TestAgoEndsAtTheFirstOfTimes(t *testing.T) {
	for _, at := range []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64 + hour} {
		if got := ago(at, time.Hour); got != math.MinInt64 {
			t.Errorf("an hour before %d: got %d", at, got)
		}
	}
	if got := ago(0, time.Hour); got != -hour {
		t.Errorf("got %d, want an hour before 0", got)
	}
}
