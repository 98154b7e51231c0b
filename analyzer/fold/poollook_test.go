package fold

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/schemas"
)

const poolSecond = int64(1e9)

// tells folds a tally of a partition.
func tells(f *Fold, partition int, at int64, t pool.Tally) {
	t.Quarter = at/(poolSecond/4) - 1
	e := (&PoolTally{Rule: f.rules.set.Pools()[0], Tally: t, At: at}).Entry(partition)
	f.poolEntry(&e)
}

// TestOnlyTheHomeOfAPoolShowsIt, so that sums over partitions and analyzers have each pool once.
func TestOnlyTheHomeOfAPoolShowsIt(t *testing.T) {
	set := foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}", "{name: r, callers: key, limit: 10, window: 1m}")
	home := PoolHome(schemas.DefaultPartitionKey(), "search", 4)
	for p := range 4 {
		got := New(set, Options{Partition: p, Partitions: 4}).Stats().Pools
		if (len(got) == 1) != (p == home) || p == home && got[0] != (PoolStats{Rule: "search", Capacity: 5000}) {
			t.Errorf("partition %d: got %+v, and the home is %d", p, got, home)
		}
	}
}

// TestAPoolTellsWhetherAnybodyIsToBlame: a crowd of equals pushes the level down to what the rule protects.
func TestAPoolTellsWhetherAnybodyIsToBlame(t *testing.T) {
	for _, c := range []struct {
		callers, asked int64 // of each
		protected      bool
	}{{900, 6, false}, {1100, 6, true}, {500, 6, false}} {
		f := New(foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}"), Options{})
		var demand pool.Tally
		for range c.callers {
			demand.Add(&f.Rules().Rules[0].Pool.Terms, c.asked, pool.Unit)
		}
		demand.Total = c.callers * c.asked
		tells(f, 0, 1000*poolSecond, demand)
		got := f.Stats().Pools[0]
		if got.Protected != c.protected || got.Level.Asked != demand.Total {
			t.Errorf("%d callers that ask for %d: got %+v, want protected %v", c.callers, c.asked, got, c.protected)
		}
	}
}

// TestThePartitionThatIsSilentLongestShows, also when its tally counts no more. One whose callers ask for nothing is not silent.
func TestThePartitionThatIsSilentLongestShows(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}"), Options{
		Partition: PoolHome(schemas.DefaultPartitionKey(), "search", 4), Partitions: 4,
	})
	age := func() int64 { return f.Stats().Pools[0].TallyAge / poolSecond }
	if got := age(); got != 0 {
		t.Errorf("before any tally: got an age of %d s, want 0", got)
	}
	tells(f, 0, 1000*poolSecond, pool.Tally{Total: 7})
	tells(f, 1, 1010*poolSecond, pool.Tally{Total: 0})
	tells(f, 2, 1060*poolSecond, pool.Tally{Total: 7})
	if got := age(); got != 60 {
		t.Errorf("partition 0 is silent: got an age of %d s, want 60", got)
	}
	tells(f, 0, 1065*poolSecond, pool.Tally{Total: 0})
	if got := age(); got != 5 {
		t.Errorf("the callers of partition 0 ask for nothing: got an age of %d s, want that of partition 2, 5", got)
	}
}

// TestWhatIsNotFoldedOfPoolsIsCounted by reason.
func TestWhatIsNotFoldedOfPoolsIsCounted(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}"), Options{})
	tells(f, 0, 1000*poolSecond, pool.Tally{Total: 7})
	tells(f, 0, 1000*poolSecond, pool.Tally{Total: 8})
	f.poolEntry(&schemas.Entry{Kind: schemas.KindTally, ID: "search", Resource: "x"})
	got := f.Stats()
	if got.PoolDropped[PoolOld] != 1 || got.PoolDropped[PoolMalformed] != 1 || got.Pools[0].Level.Asked != 7 {
		t.Errorf("got %v and %+v, want one old and one malformed, and the first tally", got.PoolDropped, got.Pools)
	}
}

// TestALookKnowsOfOtherPartitionsOnlyAtTheHome, and only as long as the tallies count.
func TestALookKnowsOfOtherPartitionsOnlyAtTheHome(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}"), Options{})
	begin := 1000 * poolSecond
	f.Entry(&schemas.Entry{Time: begin, Kind: "key", ID: "a", Count: 3})
	look := func(at int64) *PoolLook { return f.View().Look(schemas.Caller{Kind: "key", ID: "a"}, at).Rules[0].Pool }
	if got := look(begin); got.Asked != 3 || got.Whole {
		t.Errorf("before any tally: got %+v, want the 3 of this partition", got)
	}
	tells(f, 0, begin+poolSecond/4, pool.Tally{Total: 70})
	if got := look(begin + 9*poolSecond); got.Asked != 70 || !got.Whole {
		t.Errorf("after a tally: got %+v, want its 70 of all partitions", got)
	}
	if got := look(begin + 11*poolSecond); got.Asked != 0 || got.Whole {
		t.Errorf("when the tally counts no more: got %+v, want the 0 of this partition", got)
	}
}

// TestForgedTalliesAndLevels: who may write requests lowers a limit to what is protected, at most, and must go on doing so.
func TestForgedTalliesAndLevels(t *testing.T) {
	set := foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s, protect: 1%}")
	begin := 1000 * poolSecond
	forged := func(ahead int64, level int64) *Fold {
		f := New(set, Options{})
		f.Entry(&schemas.Entry{Time: begin, Kind: "key", ID: "quiet", Count: 40})
		l := PoolLevel{Rule: set.Rules[0], At: begin, Level: pool.Level{Quarter: (begin + ahead) / (poolSecond / 4), Level: level, Asked: 1 << 62}}
		e := l.Entry("search#0")
		f.poolEntry(&e)
		return f
	}
	limit := func(f *Fold, at int64) (int64, bool) {
		l := f.View().Look(schemas.Caller{Kind: "key", ID: "quiet"}, at).Rules[0]
		return l.Limit, !l.Unlimited
	}
	f := forged(10*poolSecond, 1)
	if got, limited := limit(f, begin); got != 50 || !limited {
		t.Errorf("a level of nothing: got a limit of %d, %v, want the 50 that are protected", got, limited)
	}
	if _, limited := limit(f, begin+10*poolSecond); limited {
		t.Error("got a limit 10 s later, want none")
	}
	if _, limited := limit(forged(10*poolSecond+poolSecond/4, 1), begin); limited {
		t.Error("got a limit by a level of more than 10 s ahead, want it dropped")
	}
	f = New(set, Options{})
	tells(f, 0, begin, pool.Tally{Total: 1 << 62})
	if got := f.Stats().Pools[0].Level; got.Level != 50*pool.Unit {
		t.Errorf("a tally of endless demand: got %+v, want the level that is protected, 50", got)
	}
}

// TestADraftAtTheHomeHasTheLevel, also where tallies of other partitions have come: the fold of a trial has one partition.
func TestADraftAtTheHomeHasTheLevel(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}"), Options{
		Partition: PoolHome(schemas.DefaultPartitionKey(), "search", 4), Partitions: 4,
	})
	begin := 1000 * poolSecond
	tells(f, 3, begin, pool.Tally{Total: 7000})
	l := PoolLevel{Rule: f.rules.set.Pools()[0], At: begin, Level: pool.Level{Quarter: begin/(poolSecond/4) - 1, Level: 80 * pool.Unit}}
	e := l.Entry("search#0")
	f.poolEntry(&e)
	o, err := Try(Trial{Count: 100, At: begin}, f.View().Draft(schemas.Caller{Kind: "key", ID: "a"}))
	if err != nil || o.Admitted != 41 {
		t.Errorf("got %+v, %v, want half a window of 80 requests and one more admitted", o, err)
	}
}
