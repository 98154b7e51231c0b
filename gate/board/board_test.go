package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// closing returns a decision that closes a caller from one time until another, in seconds after noon.
func closing(rule, id string, from, until float64) schemas.Decision {
	return schemas.Decision{
		Rule: rule, Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce,
		CloseAt: at(from).UnixNano(), Until: at(until).UnixNano(),
	}
}

// ready returns a board of n partitions that has caught up.
func ready(n int, o Options) *Board {
	b := New(o)
	b.Resize(n)
	for p := range n {
		b.Loaded(p)
	}
	return b
}

// kinds returns the kinds of the changes behind a number, the oldest first.
func (b *Board) kinds(behind uint64) (kinds []Kind) {
	for _, e := range b.Changes(MaxChanges) {
		if e.Number > behind {
			kinds = append(kinds, e.Kind)
		}
	}
	slices.Reverse(kinds)
	return kinds
}

// TestBoardSaysWhatChanges applies one decision after the other. Repetitions, which owners publish every minute, are no news.
func TestBoardSaysWhatChanges(t *testing.T) {
	shadow := closing("r", "a", 0, 20)
	shadow.Mode = schemas.ModeShadow
	forever := closing("r", "f", 0, 1)
	forever.Until = math.MaxInt64
	late := closing("r", "l", 0, 1)
	late.CloseAt, late.Until = math.MaxInt64-5, math.MaxInt64
	b := ready(1, Options{})
	for _, step := range []struct {
		name string
		at   float64
		d    schemas.Decision
		want Kind
		size int
	}{
		{"opens who is not closed", 0, closing("r", "a", 5, 5), None, 0},
		{"ended before it came", 11, closing("r", "a", 0, 10), None, 0},
		{"closes", 1, closing("r", "a", 0, 10), Closed, 1},
		{"the same again", 2, closing("r", "a", 0, 10), None, 1},
		{"another rule", 2, closing("q", "a", 0, 10), Closed, 2},
		{"another caller", 2, closing("r", "b", 0, 10), Closed, 3},
		{"longer", 3, closing("r", "a", 0, 20), Changed, 3},
		{"now on trial", 3, shadow, Changed, 3},
		{"opened", 4, closing("r", "a", 3, 3), Opened, 2},
		{"opened again", 4, closing("r", "a", 3, 3), None, 2},
		{"shortened into the past", 5, closing("r", "b", 0, 4), Opened, 1},
		{"begins later", 5, closing("r", "c", 60, 70), Closed, 2},
		{"longer than a closure may be", 5, forever, Closed, 3},
		{"at the end of time: over before it begins", 5, late, None, 3},
	} {
		before := b.changed
		b.Apply([]schemas.Decision{step.d}, at(step.at))
		got := None
		if kinds := b.kinds(before); len(kinds) == 1 {
			got = kinds[0]
		}
		if got != step.want || b.Len() != step.size || b.changed-before > 1 {
			t.Errorf("%s: got %v and %d in force, want %v and %d", step.name, got, b.Len(), step.want, step.size)
		}
	}
	if ds := b.Of(forever.Caller); len(ds) != 1 || ds[0].Until != ds[0].CloseAt+int64(schemas.MaxClosure) {
		t.Errorf("got %+v, want one closure of a year and a day", ds)
	}
	if e := b.Changes(1); len(e) != 1 || e[0].Kind != Closed || e[0].Decision.Caller.ID != "f" || !e[0].At.Equal(at(5)) {
		t.Errorf("got %+v, want the newest change", e)
	}
}

// TestBoardKnowsWhatComesAheadOfTime: an early closure, one that is confirmed, the next closure, and a share. A decision is in force until
// the last of them is over.
func TestBoardKnowsWhatComesAheadOfTime(t *testing.T) {
	early := closing("r", "a", 10, 12)
	early.Early = true
	confirmed := closing("r", "a", 10, 12)
	next := confirmed
	next.Next = schemas.Span{CloseAt: at(20).UnixNano(), Until: at(22).UnixNano(), Early: true}
	forever := next
	forever.Next.Until = math.MaxInt64
	shared := closing("r", "a", 10, 10)
	shared.Share = &schemas.Share{From: at(10).UnixNano(), Until: at(30).UnixNano(), Period: 1, Demand: 1, DemandUntil: 1}
	renewed := shared
	renewed.Share = &schemas.Share{From: at(10).UnixNano(), Until: at(40).UnixNano(), Period: 1, Demand: 1, DemandUntil: 1}
	again := *renewed.Share
	same := renewed
	same.Share = &again
	b := ready(1, Options{})
	for _, step := range []struct {
		name string
		at   float64
		d    schemas.Decision
		want []Kind
	}{
		{"early", 9, early, []Kind{Closed}},
		{"the same again", 9, early, nil},
		{"confirmed", 11, confirmed, []Kind{Changed}},
		{"with the next one", 11, next, []Kind{Changed}},
		{"which holds although the first is over", 15, next, nil},
		{"for ever", 15, forever, []Kind{Changed}},
		{"a share instead", 15, shared, []Kind{Changed}},
		{"renewed", 16, renewed, []Kind{Changed}},
		{"repeated", 17, same, nil},
		{"all over", 50, same, []Kind{Opened}},
		{"the next one alone", 19, next, []Kind{Closed}},
		{"opened", 19, closing("r", "a", 19, 19), []Kind{Opened}},
	} {
		before := b.changed
		b.Apply([]schemas.Decision{step.d}, at(step.at))
		if got := b.kinds(before); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
		for d := range b.All {
			if d.Next.Until > at(step.at).Add(schemas.MaxClosure).UnixNano() {
				t.Errorf("%s: got a next closure until %v, want a year and a day", step.name, time.Unix(0, d.Next.Until))
			}
			if want := step.d; want.Next.Until != math.MaxInt64 && !reflect.DeepEqual(d, want) {
				t.Errorf("%s: got %+v, want %+v", step.name, d, want)
			}
		}
	}
	b.Apply([]schemas.Decision{next}, at(11))
	b.Expire(at(21))
	if b.Len() != 1 {
		t.Errorf("got %d in force, want one: it ends with its second closure", b.Len())
	}
	b.Expire(at(22))
	if b.Len() != 0 {
		t.Errorf("got %d in force, want none", b.Len())
	}
}

// TestBoardEndsClosuresAtTheirTime, each once, the first that ended first.
func TestBoardEndsClosuresAtTheirTime(t *testing.T) {
	b := ready(1, Options{})
	for i, id := range []string{"a", "b", "c", "d"} {
		d := closing("r", id, 0, []float64{30, 10, 20, 10}[i])
		d.Next = schemas.Span{CloseAt: at(50).UnixNano(), Until: at(50).UnixNano()} // it closes nothing
		b.Apply([]schemas.Decision{d}, at(0))
	}
	for _, step := range []struct {
		at   float64
		want string
	}{{9.999, ""}, {10, "bd"}, {10, ""}, {100, "ca"}} {
		before, got := b.changed, ""
		b.Expire(at(step.at))
		for _, e := range b.Changes(MaxChanges) {
			if e.Number > before {
				got = e.Decision.Caller.ID + got
				if e.Kind != Ended {
					t.Errorf("got %v", e.Kind)
				}
			}
		}
		if got != step.want {
			t.Errorf("at %v s: got %q ended, want %q", step.at, got, step.want)
		}
	}
	if b.Len() != 0 {
		t.Errorf("got %d in force", b.Len())
	}
}

// TestNamesOfKinds that programs read.
func TestNamesOfKinds(t *testing.T) {
	var got []string
	for k := range Kind(10) {
		got = append(got, k.String())
	}
	if want := []string{"none", "closed", "changed", "opened", "ended", "in_force", "current", "lost", "lost", "lost"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOldRecordsChangeNothing: a follower that has lost its place reads again what was replaced since. The fence refuses a
// zombie's records before the board sees them; the board refuses what is older than what it holds.
func TestOldRecordsChangeNothing(t *testing.T) {
	b := ready(2, Options{})
	numbered := func(d schemas.Decision, p int32, epoch, seq uint64) schemas.Decision {
		d.Partition, d.Epoch, d.Seq = p, epoch, seq
		return d
	}
	long := closing("r", "a", 0, 60)
	for _, step := range []struct {
		name     string
		d        schemas.Decision
		until    float64
		outdated uint64
	}{
		{"the owner's", numbered(long, 0, 5, 10), 60, 0},
		{"its copy", numbered(long, 0, 5, 10), 60, 0},
		{"what it said before", numbered(closing("r", "a", 0, 0), 0, 5, 9), 60, 1},
		{"the owner before, whose numbers are higher", numbered(closing("r", "a", 0, 30), 0, 4, 99), 60, 2},
		{"the next owner, whose numbers begin again", numbered(closing("r", "a", 0, 40), 0, 6, 1), 40, 2},
		{"another partition after there are more of them: epochs do not compare", numbered(closing("r", "a", 0, 50), 1, 3, 1), 50, 2},
		{"of a partition that there is not", numbered(long, 2, 9, 9), 50, 2},
		{"of a negative one", numbered(long, -1, 9, 9), 50, 2},
	} {
		b.Apply([]schemas.Decision{step.d}, at(1))
		s := b.Status()
		if ds := b.Of(step.d.Caller); len(ds) != 1 || ds[0].Until != at(step.until).UnixNano() || s.Outdated != step.outdated {
			t.Errorf("%s: got %+v and %+v, want until %v s and %d outdated", step.name, ds, s, step.until, step.outdated)
		}
	}
	if s := b.Status(); s.Foreign != 2 {
		t.Errorf("got %+v, want 2 foreign", s)
	}
}

// TestTheBoardAgreesWithAPlainMap: a thousand random decisions, repeats, openings and ends, in a small table that is rebuilt.
func TestTheBoardAgreesWithAPlainMap(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := ready(3, Options{})
		want := map[Key]schemas.Decision{}
		callers := 20_000 >> (2 * seed) // few callers: most decisions replace another
		for step := range 30_000 {
			now := at(float64(step) / 100)
			d := closing(fmt.Sprint("rule-", rng.IntN(3)), fmt.Sprint(rng.IntN(callers)), float64(step)/100-1, float64(step)/100+rng.Float64()*100-5)
			d.Partition, d.Epoch, d.Seq = int32(len(d.Caller.ID)%3), 1, uint64(step+1)
			key := Key{d.Rule, d.Caller}
			b.Apply([]schemas.Decision{d}, now)
			if delete(want, key); d.Until > now.UnixNano() && d.Until > d.CloseAt {
				want[key] = d
			}
			if step%1000 == 0 {
				b.Expire(now)
				for k, d := range want {
					if d.Until <= now.UnixNano() {
						delete(want, k)
					}
				}
				check(t, b, want)
			}
		}
		b.Expire(at(1000))
		check(t, b, nil)
		if seed == 0 && (len(b.table.order) > 1 || b.table.arena.memory > 2*chunkSize) {
			t.Errorf("got %d pages and %d bytes for nothing, want the memory of the peak given back", len(b.table.order), b.table.arena.memory)
		}
	}
}

// check compares what is in force with what is wanted, by all the ways to ask.
func check(t *testing.T, b *Board, want map[Key]schemas.Decision) {
	t.Helper()
	seen, number := 0, uint64(0)
	for page := b.After(0, 300); len(page) > 0; page = b.After(number, 300) {
		for _, n := range page {
			if n.Number <= number || !reflect.DeepEqual(want[Key{n.Decision.Rule, n.Decision.Caller}], n.Decision) {
				t.Fatalf("got %+v behind %d, want %+v", n, number, want[Key{n.Decision.Rule, n.Decision.Caller}])
			}
			number = n.Number
			seen++
		}
	}
	if seen != len(want) || b.Len() != len(want) {
		t.Fatalf("got %d listed and %d in force, want %d", seen, b.Len(), len(want))
	}
	for key := range want {
		ds := b.Of(key.Caller)
		if !slices.IsSortedFunc(ds, func(x, y schemas.Decision) int { return len(x.Rule) - len(y.Rule) }) || !slices.ContainsFunc(ds, func(d schemas.Decision) bool { return d.Rule == key.Rule }) {
			t.Fatalf("got %+v of %v, want %s in it", ds, key.Caller, key.Rule)
		}
	}
}

// TestAllGoesOnWhileTheBoardChanges: what is in force throughout comes exactly once.
func TestAllGoesOnWhileTheBoardChanges(t *testing.T) {
	b := ready(1, Options{})
	for i := range 5000 {
		b.Apply([]schemas.Decision{closing("r", fmt.Sprint("stays-", i), 0, 100), closing("r", fmt.Sprint("ends-", i), 0, 10)}, at(1))
	}
	seen := map[string]int{}
	for d := range b.All {
		seen[d.Caller.ID]++
		switch len(seen) {
		case 100:
			b.Expire(at(20)) // half of the places are removed, and the order is packed
		case 200:
			for i := range 3000 {
				b.Apply([]schemas.Decision{closing("r", fmt.Sprint("later-", i), 0, 100), closing("r", fmt.Sprint("stays-", i), 0, 200)}, at(20))
			}
		}
	}
	for i := range 5000 {
		if n := seen[fmt.Sprint("stays-", i)]; n != 1 {
			t.Fatalf("stays-%d came %d times, want once", i, n)
		}
	}
	if seen["later-0"] != 0 {
		t.Error("got a closure that arrived after the call")
	}
	for range b.All {
		break // and that is all right, too
	}
}

// TestAFullBoardSaysSo until cycles of repeats have found room: a heartbeat names each.
func TestAFullBoardSaysSo(t *testing.T) {
	b := ready(2, Options{MaxClosures: 2})
	beat := func(p int32, seq uint64, from int64) {
		b.Beat(&schemas.Heartbeat{Partition: p, Epoch: 1, Seq: seq, From: from}, at(0))
	}
	close3 := func() {
		for _, id := range []string{"a", "b", "c"} {
			b.Apply([]schemas.Decision{closing("r", id, 0, 100)}, at(0))
		}
	}
	want := func(when string, incomplete []int, dropped uint64) {
		t.Helper()
		if s := b.Status(); !slices.Equal(s.Incomplete, incomplete) || s.Dropped != dropped || s.Max != 2 {
			t.Errorf("%s: got %+v, want %v incomplete and %d dropped", when, s, incomplete, dropped)
		}
	}
	beat(0, 1, 10)
	want("at first", nil, 0)
	close3()
	want("full", []int{0}, 1)
	beat(0, 2, 10)
	want("the same cycle", []int{0}, 1)
	beat(0, 3, 20)
	want("a cycle that had begun before", []int{0}, 1)
	close3()
	want("repeated in vain", []int{0}, 2)
	b.Apply([]schemas.Decision{closing("r", "a", 1, 1)}, at(1))
	beat(0, 4, 30)
	want("a cycle that had begun before there was room", []int{0}, 2)
	close3()
	beat(0, 5, 40)
	want("repeated, and there was room for c", []int{0}, 3)
	b.Apply([]schemas.Decision{closing("r", "a", 2, 2), closing("r", "b", 2, 2)}, at(2))
	beat(0, 6, 50)
	beat(0, 7, 60)
	want("two cycles later", nil, 3)
}

// TestTheNewestHeartbeatOfTheHighestEpoch counts, in whatever order they come.
func TestTheNewestHeartbeatOfTheHighestEpoch(t *testing.T) {
	b := ready(2, Options{})
	if _, ok := b.Heartbeat(0); ok || b.Freshness(0, at(0)) != gate.Cold || b.Partitions() != 2 {
		t.Error("got a heartbeat of nobody")
	}
	for i, h := range []schemas.Heartbeat{
		{Epoch: 5, Seq: 9, Watermark: 1}, {Epoch: 5, Seq: 8, Watermark: 2}, {Epoch: 6, Seq: 1, Watermark: 3}, {Epoch: 5, Seq: 10, Watermark: 4},
		{Epoch: 6, Seq: 1, Watermark: 5}, {Epoch: 6, Seq: 2, Watermark: 6}, {Partition: 2, Epoch: 9, Seq: 1}, {Partition: -1, Epoch: 9, Seq: 1},
	} {
		b.Beat(&h, at(float64(i)))
		want := []int64{1, 1, 3, 3, 3, 6, 6, 6}[i]
		if got, ok := b.Heartbeat(0); !ok || got.Watermark != want {
			t.Errorf("after %d: got %+v, want watermark %d", i, got, want)
		}
	}
	if s := b.Status(); s.Outdated != 3 || s.Foreign != 2 {
		t.Errorf("got %+v, want 3 outdated and 2 foreign", s)
	}
	for seconds, want := range map[float64]gate.Freshness{5: gate.Fresh, 7.9: gate.Fresh, 8: gate.Stale} {
		if got := b.Freshness(0, at(seconds)); got != want {
			t.Errorf("at %v s: got %v, want %v", seconds, got, want)
		}
	}
	if got := b.Freshness(1, at(0)); got != gate.Cold {
		t.Errorf("got %v, want cold", got)
	}
	if _, ok := b.Heartbeat(7); ok {
		t.Error("got a heartbeat of a partition that there is not")
	}
	b.Resize(3)
	if h, ok := b.Heartbeat(0); !ok || h.Watermark != 6 || b.Ready() {
		t.Errorf("got %+v and ready %v, want the heartbeat kept, and a board that loads again", h, b.Ready())
	}
}
