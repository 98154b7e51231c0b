package lister

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// turn is a lock; goroutines that wait for it let the time of a test go on.
type turn chan struct{}

func (l turn) Lock()   { l <- struct{}{} }
func (l turn) Unlock() { <-l }

// owner answers as the owner of a partition does: one question at a time, and counting goes on between them.
type owner struct {
	mu      turn
	fold    *fold.Fold
	asked   int
	took    []time.Duration // by each question
	between func()          // called after each question; may be nil
	refuse  error
}

func (o *owner) Ask(ctx context.Context, partition int, f func(*fold.Fold, analyzer.At)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.refuse != nil {
		return o.refuse
	}
	o.asked++
	begun := time.Now()
	f(o.fold, analyzer.At{Partition: partition, Epoch: 3, Offset: int64(o.fold.Stats().Entries), LogTime: o.fold.LogTime()})
	o.took = append(o.took, time.Since(begun))
	if o.between != nil {
		o.between()
	}
	return nil
}

// sends sends requests of a caller.
func (o *owner) sends(at int64, kind, id string, count uint32) {
	o.fold.Entry(&schemas.Entry{Time: at, Kind: kind, ID: id, Count: count})
}

const (
	second = int64(time.Second)
	now    = foldtest.Now
)

// newOwner returns an owner with rules for two kinds, and a lister.
func newOwner(t foldtest.T) (*owner, *Lister) {
	t.Helper()
	o := &owner{mu: make(turn, 1), fold: fold.New(foldtest.Rules(t,
		"{name: ten, callers: key, limit: 10, window: 1h, algorithm: fixed, overrides: {vip: unlimited}}",
		"{name: daily, callers: key, limit: 1000, window: day, timezone: UTC}",
		"{name: bucket, callers: ip, limit: 60, window: 1h, algorithm: gcra, burst: 20}"), fold.Options{Busiest: true})}
	l := New(o)
	l.now = func() time.Time { return time.Unix(0, now) }
	return o, l
}

// all returns the lines of all rows that a query lists, in order, by sorting them.
func all(o *owner, q Query) (lines []string) {
	var rows []fold.Row
	o.fold.View().Rows(now, func(r fold.Row) bool {
		if share := shareOf(&r); (q.Rule == "" || q.Rule == r.Rule.Name) && (q.Kind == "" || q.Kind == r.Rule.Kind) && strings.HasPrefix(r.ID, q.Prefix) && share >= q.MinShare {
			rows = append(rows, r)
		}
		return true
	})
	value := func(r *fold.Row) float64 {
		switch {
		case q.ByCount:
			return float64(r.Total)
		case r.Unlimited:
			return 0
		}
		return float64(r.Total) / float64(r.Rule.Window.Capacity(r.Limit))
	}
	slices.SortFunc(rows, func(a, b fold.Row) int {
		if va, vb := value(&a), value(&b); va != vb {
			return map[bool]int{true: -1, false: 1}[va > vb]
		}
		return strings.Compare(a.Rule.Name+"\x00"+a.Rule.Kind+"\x00"+a.ID, b.Rule.Name+"\x00"+b.Rule.Kind+"\x00"+b.ID)
	})
	for _, r := range rows {
		lines = append(lines, fmt.Sprint(r.Rule.Name, " ", r.ID, " ", r.Total))
	}
	return lines
}

// TestPagesAreTheSortedList: whatever the order, the filter and the length of the pages, all of them together are all rows, sorted.
func TestPagesAreTheSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, l := newOwner(t)
		defer l.Close()
		l.now = func() time.Time { return time.Unix(0, now) }
		for range rapid.IntRange(0, 60).Draw(t, "entries") {
			o.sends(now, rapid.SampledFrom([]string{"key", "key", "ip"}).Draw(t, "kind"),
				rapid.SampledFrom([]string{"vip", "a", "ab", "abc", "b", "\xff", "10.0.0.1", "2001:db8::"}).Draw(t, "id"), rapid.Uint32Range(1, 8).Draw(t, "count"))
		}
		q := Query{ByCount: rapid.Bool().Draw(t, "by count"), Limit: rapid.IntRange(0, 5).Draw(t, "limit"), Filter: Filter{
			Rule: rapid.SampledFrom([]string{"", "", "ten", "none"}).Draw(t, "rule"), Kind: rapid.SampledFrom([]string{"", "", "key", "ip"}).Draw(t, "kind"),
			Prefix: rapid.SampledFrom([]string{"", "", "a", "ab", "zz"}).Draw(t, "prefix"), MinShare: rapid.SampledFrom([]float64{0, 0, 0.1, 0.9}).Draw(t, "min share"),
		}}
		want := all(o, q)
		var got []string
		for {
			page, err := l.Top(t.Context(), 5, q)
			if err != nil {
				t.Fatal(err)
			}
			if page.Total != len(want) || len(page.Lines) > max(q.Limit, 1) || page.At.Partition != 5 || page.At.Epoch != 3 {
				t.Fatalf("got %d lines of %d as of %+v, want at most %d of %d", len(page.Lines), page.Total, page.At, q.Limit, len(want))
			}
			for _, line := range page.Lines {
				got = append(got, fmt.Sprint(line.Rule, " ", line.ID, " ", line.Total))
			}
			if len(page.Lines) == 0 {
				break
			}
			q.Paged, q.After = true, page.Lines[len(page.Lines)-1].Key
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		var each []string
		if err := l.Each(t.Context(), 5, q.Filter, func(piece []Line, at analyzer.At) error {
			for _, line := range piece {
				each = append(each, fmt.Sprint(line.Rule, " ", line.ID, " ", line.Total))
				if line.Offset != at.Offset {
					t.Fatalf("got a line as of offset %d in a piece as of %d", line.Offset, at.Offset)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(each)
		slices.Sort(want)
		if !slices.Equal(each, want) {
			t.Fatalf("each: got %q, want %q", each, want)
		}
	})
}

// TestRulesChangeDuringAList: the page is of the new rules alone, and a list of all rows ends with an error.
func TestRulesChangeDuringAList(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	for i := range 100_000 {
		o.sends(now, "key", fmt.Sprint(i), 5)
	}
	rules := foldtest.Rules(t, "{name: ten, callers: key, limit: 20, window: 1h, algorithm: fixed}")
	o.between = func() { o.fold.SetRules(rules); o.between = nil }
	page, err := l.Top(t.Context(), 0, Query{Limit: 3})
	if err != nil || page.Total != 100_000 || len(page.Lines) != 3 {
		t.Fatalf("got %+v and %v, want all rows of the new rules", page, err)
	}
	for _, line := range page.Lines {
		if line.Rule != "ten" || line.Share != 0.25 || line.Limit != 20 {
			t.Errorf("got %+v, want a line of the new rules", line)
		}
	}
	o.between = func() { o.fold.SetRules(rules) }
	if err := l.Each(t.Context(), 0, Filter{}, func([]Line, analyzer.At) error { return nil }); !errors.Is(err, ErrRulesChanged) {
		t.Errorf("each: got %v, want ErrRulesChanged", err)
	}
	if _, err := l.Top(t.Context(), 0, Query{Limit: 4}); !errors.Is(err, ErrRulesChanged) {
		t.Errorf("rules that change all the time: got %v, want ErrRulesChanged", err)
	}
	o.between = nil
	if _, err := l.Top(t.Context(), 0, Query{Limit: 4}); err != nil {
		t.Errorf("an error was kept: %v", err)
	}
}

// TestOneWalkServesAllWhoWait: a hundred who ask for the same, and some who ask for other things, wait for one walk; and for a second
// the same question is not asked again.
func TestOneWalkServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newOwner(t)
		l.now = time.Now
		defer l.Close()
		o.sends(now, "key", "a", 3)
		o.mu.Lock() // the owner is busy
		var all sync.WaitGroup
		ask := func(q Query) {
			all.Go(func() {
				if _, err := l.Top(t.Context(), 0, q); err != nil {
					t.Error(err)
				}
			})
		}
		ask(Query{Limit: 1})
		time.Sleep(time.Millisecond) // its walk begins
		for range 100 {
			ask(Query{Limit: 1})
			ask(Query{Limit: 2})
			ask(Query{Limit: 2, ByCount: true})
		}
		all.Go(func() {
			if b, err := l.Busy(t.Context(), 0); err != nil || b.At.Epoch != 3 {
				t.Errorf("got %+v and %v", b, err)
			}
		})
		time.Sleep(time.Millisecond)
		o.mu.Unlock()
		all.Wait()
		if o.asked != 3 {
			t.Errorf("got %d questions, want 3: one for the first, one for the rows of all others, one for the busiest", o.asked)
		}
		time.Sleep(keep / 2)
		ask(Query{Limit: 2})
		all.Wait()
		if o.asked != 3 {
			t.Errorf("within a second: got %d questions, want 3", o.asked)
		}
		time.Sleep(keep)
		ask(Query{Limit: 2})
		all.Wait()
		if o.asked != 4 {
			t.Errorf("after a second: got %d questions, want 4", o.asked)
		}
	})
}

func TestListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newOwner(t)
		l.now = time.Now
		o.mu.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range maxQueries + 1 { // the first one is being answered
			all.Go(func() {
				if _, err := l.Top(ctx, 0, Query{Limit: 1 + i}); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want context.Canceled", err)
				}
			})
			synctest.Wait()
		}
		if _, err := l.Top(t.Context(), 0, Query{Limit: 500}); !errors.Is(err, analyzer.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		cancel()
		all.Wait()
		o.mu.Unlock()
		synctest.Wait()
		l.Close()
		if _, err := l.Top(t.Context(), 1, Query{}); !errors.Is(err, analyzer.ErrBusy) {
			t.Errorf("after Close: got %v, want ErrBusy", err)
		}
		if n := len(l.partitions[0].requests); n > maxKept {
			t.Errorf("got %d answers kept, want at most %d", n, maxKept)
		}
	})
}

func TestAtMostTwoListsOfAllRowsAtATime(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	o.sends(now, "key", "a", 3)
	nested := func() error {
		return l.Each(t.Context(), 0, Filter{}, func([]Line, analyzer.At) error { return nil })
	}
	err := l.Each(t.Context(), 0, Filter{}, func([]Line, analyzer.At) error {
		return l.Each(t.Context(), 0, Filter{}, func([]Line, analyzer.At) error { return nested() })
	})
	if !errors.Is(err, analyzer.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if err := nested(); err != nil {
		t.Errorf("when they are over: got %v", err)
	}
}

func TestAnOwnerThatRefusesIsSaidSo(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	o.refuse = &analyzer.NotOwnerError{Partition: 2}
	var e *analyzer.NotOwnerError
	if _, err := l.Top(t.Context(), 2, Query{}); !errors.As(err, &e) {
		t.Errorf("top: got %v, want a NotOwnerError", err)
	}
	if _, err := l.Busy(t.Context(), 2); !errors.As(err, &e) {
		t.Errorf("busy: got %v, want a NotOwnerError", err)
	}
	if err := l.Each(t.Context(), 2, Filter{}, func([]Line, analyzer.At) error { return nil }); !errors.As(err, &e) {
		t.Errorf("each: got %v, want a NotOwnerError", err)
	}
	o.refuse = nil
	if _, err := l.Top(t.Context(), 2, Query{}); err != nil {
		t.Errorf("when it owns it: got %v", err)
	}
}

func TestTheBusiestAreSorted(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	for i := range int64(100) {
		for n, id := range []string{"a", "b", "c"} {
			o.fold.Entry(&schemas.Entry{Time: now + i*second/10, Kind: "tenant", ID: id, Count: uint32(100 + 100*n), Blocked: true})
		}
	}
	b, err := l.Busy(t.Context(), 0)
	if err != nil || len(b.Admitted.Callers) != 0 || len(b.Blocked.Callers) != 3 || b.Blocked.Callers[0].ID != "c" || b.Blocked.Callers[2].ID != "a" || b.Blocked.Callers[0].Rate < 2000 {
		t.Errorf("got %+v and %v, want c, b and a", b, err)
	}
}

func TestALineAsTheAPIWritesIt(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	o.sends(now, "key", "\xff", 12)
	o.sends(now, "key", "vip", 50)
	page, err := l.Top(t.Context(), 4, Query{Limit: 9, Filter: Filter{Rule: "ten"}})
	if err != nil || len(page.Lines) != 2 {
		t.Fatalf("got %+v and %v", page, err)
	}
	closed, vip := page.Lines[0].View(), page.Lines[1].View()
	if !closed.Closed || string(closed.Caller.IDBase64) != "\xff" || closed.Share != 1.2 || closed.Limit != 10 || closed.Partition != 4 || closed.Offset != 2 ||
		!closed.CloseAt.Equal(time.Unix(0, now)) || closed.Nth != 1 || closed.Mode != "enforce" || closed.LowerBound {
		t.Errorf("got %+v", closed)
	}
	if !vip.Unlimited || vip.Closed || vip.Count != 50 || !vip.Until.IsZero() || reflect.DeepEqual(vip, closed) {
		t.Errorf("got %+v", vip)
	}
}

// TestListsWhileCounting: an owner counts as fast as it can while many ask. The race detector and the digest watch.
func TestListsWhileCounting(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	entries := foldtest.ZipfEntries(30_000)
	var all sync.WaitGroup
	counted := make(chan struct{})
	all.Go(func() {
		defer close(counted)
		for i := range entries {
			o.mu.Lock()
			o.fold.Entry(&entries[i])
			o.mu.Unlock()
		}
	})
	for n := range 4 {
		all.Go(func() {
			for done := false; !done; {
				select {
				case <-counted:
					done = true
				default:
				}
				_, topErr := l.Top(t.Context(), 0, Query{Limit: 10 + n})
				_, busyErr := l.Busy(t.Context(), 0)
				eachErr := l.Each(t.Context(), 0, Filter{}, func([]Line, analyzer.At) error { return nil })
				if errors.Is(eachErr, analyzer.ErrBusy) {
					eachErr = nil // two at a time
				}
				if err := errors.Join(topErr, busyErr, eachErr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	alone := fold.New(o.fold.Rules(), fold.Options{})
	for i := range entries {
		alone.Entry(&entries[i])
	}
	if got, want := o.fold.Digest(now), alone.Digest(now); got != want {
		t.Errorf("digest: got %#x, want %#x as without lists", got, want)
	}
}

// TestAllCallersAreInTheWholeListOnce: callers that grow while a list is made may move to a page that was read already, and are missing then.
// The whole list in pieces has each of them once, though hundreds grow between two pieces.
func TestAllCallersAreInTheWholeListOnce(t *testing.T) {
	const callers = 5000
	o, l := newOwner(t)
	defer l.Close()
	id := func(i int) string { return fmt.Sprintf("caller-%04d", i%callers) }
	for i := range callers {
		o.sends(now, "key", id(i), uint32(1+i%7))
	}
	grown := 0
	o.between = func() {
		for range 200 {
			grown += 37
			o.sends(now, "key", id(grown), 5)
		}
	}
	missing := func(list func(see func(lines []Line))) (n int) {
		seen := map[string]int{}
		list(func(lines []Line) {
			for i := range lines {
				seen[lines[i].ID]++
			}
		})
		for i := range callers {
			switch seen[id(i)] {
			case 0:
				n++
			case 1:
			default:
				t.Errorf("got %s %d times, want it once", id(i), seen[id(i)])
			}
		}
		return n
	}
	filter := Filter{Rule: "daily"}
	if n := missing(func(see func([]Line)) {
		q := Query{Filter: filter, ByCount: true, Limit: 500}
		for {
			page, err := l.Top(t.Context(), 0, q)
			if err != nil {
				t.Fatal(err)
			}
			see(page.Lines)
			if len(page.Lines) < q.Limit {
				return
			}
			q.Paged, q.After = true, page.Lines[len(page.Lines)-1].Key
		}
	}); n == 0 {
		t.Error("got all callers in pages: the test shows nothing")
	}
	if n := missing(func(see func([]Line)) {
		pieces := 0
		if err := l.Each(t.Context(), 0, filter, func(piece []Line, _ analyzer.At) error {
			pieces++
			see(piece)
			return nil
		}); err != nil || pieces < 2 {
			t.Fatalf("got %v and %d pieces, want several", err, pieces)
		}
	}); n != 0 {
		t.Errorf("got %d of %d callers missing in the whole list, want none", n, callers)
	}
}
