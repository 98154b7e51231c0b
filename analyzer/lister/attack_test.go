package lister

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
)

// TestAQueryThatEqualsNoQueryIsRefused: a NaN as a key of a map is never found again, so its walk would have nobody to answer.
func TestAQueryThatEqualsNoQueryIsRefused(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	o.sends(now, "key", "a", 3)
	for _, q := range []Query{
		{Filter: Filter{MinShare: math.NaN()}}, {Paged: true, After: Key{Value: math.NaN()}},
	} {
		if page, err := l.Top(t.Context(), 0, q); !errors.Is(err, errQuery) {
			t.Errorf("%+v: got %+v and %v, want errQuery", q, page, err)
		}
	}
	for _, q := range []Query{{Filter: Filter{MinShare: math.Inf(1)}}, {Paged: true, After: Key{Value: math.Inf(-1)}}, {After: Key{Value: math.NaN()}}, {Limit: math.MinInt}} {
		if _, err := l.Top(t.Context(), 0, q); err != nil {
			t.Errorf("%+v: got %v", q, err)
		}
	}
}

// TestVisitingARowDoesNotAllocate: what is visited while the owner waits costs no memory, or counting would work for the garbage
// collector, by as much as a millisecond now and then.
func TestVisitingARowDoesNotAllocate(t *testing.T) {
	const rows = 20_000
	o, l := newOwner(t)
	defer l.Close()
	for i := range rows {
		o.sends(now+int64(i), "key", fmt.Sprint(i), uint32(1+i%7))
	}
	var steps []int
	for _, limit := range []int{1, maxLines} {
		w := newWalk(l, 0, []Query{{Limit: limit}})
		got := testing.AllocsPerRun(3, func() {
			w.steps.walk = fold.Walk{}
			w.collectors[0].clear()
			for more := true; more; {
				more, _ = o.fold.View().WalkRows(&w.steps.walk, places, now, func(r *fold.Row) {
					w.collectors[0].take(r, shareOf(r), w.steps.at, now)
				})
			}
		})
		if got > 1000 {
			t.Errorf("%d rows, by %d: got %v allocations", rows, limit, got)
		}
		before := o.asked
		all := testing.AllocsPerRun(1, func() {
			w := newWalk(l, 0, []Query{{Limit: limit}})
			if err := w.run(); err != nil || w.pages[0].Total != 2*rows {
				t.Fatalf("got %v, want %d rows", err, 2*rows)
			}
		})
		if steps = append(steps, o.asked-before); all > 1000+100*float64(o.asked-before) {
			t.Errorf("a whole walk in %v questions: got %v allocations", steps, all)
		}
	}
}

// TestAPieceIsShorterForManyQueries: between two looks at the clock, all queries together visit so many places.
func TestAPieceIsShorterForManyQueries(t *testing.T) {
	_, l := newOwner(t)
	defer l.Close()
	for _, n := range []int{0, 1, 2, 63, maxQueries, 10 * places} {
		w := newWalk(l, 0, slices.Repeat([]Query{{Limit: 1}}, n))
		if got := w.steps.places; got < 1 || got > places || n <= places && got*n > places {
			t.Errorf("%d queries: got %d places, want %d together", n, got, places)
		}
	}
}

// TestAListOfAllRowsRests: a filter that lets nothing through gives a client nothing to do between its questions, and the owner has
// nine tenths of its time all the same.
func TestAListOfAllRowsRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newOwner(t)
		for i := range 100 * places {
			o.sends(now, "key", fmt.Sprint(i), 1)
		}
		const question = time.Millisecond
		l.now = func() time.Time { time.Sleep(question); return time.Unix(0, now) } // is called once in each question, which so takes that long
		begun := time.Now()
		pieces := 0
		if err := l.Each(t.Context(), 0, Filter{Prefix: "nobody"}, func(piece []Line, _ analyzer.At) error {
			pieces++
			if len(piece) > 0 {
				t.Errorf("got %+v, want none", piece)
			}
			return nil
		}); err != nil || pieces < 100 {
			t.Fatalf("got %d pieces and %v", pieces, err)
		}
		if took := time.Since(begun); took < time.Duration(pieces-1)*(1+dumpRest)*question {
			t.Errorf("got %d questions of 1 ms in %s, want rests", pieces, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		pieces = 0
		if err := l.Each(ctx, 0, Filter{}, func([]Line, analyzer.At) error { cancel(); pieces++; return nil }); !errors.Is(err, context.Canceled) || pieces != 1 {
			t.Errorf("a client that left: got %v after %d pieces, want context.Canceled after 1", err, pieces)
		}
	})
}

// TestKeptAnswersHaveABound in lines, as one that asks for many long pages costs memory.
func TestKeptAnswersHaveABound(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	for i := range 2 * maxLines {
		o.sends(now, "key", fmt.Sprint(i), 1)
	}
	for i := range 50 {
		page, err := l.Top(t.Context(), 0, Query{Limit: maxLines - i})
		if err != nil || len(page.Lines) != maxLines-i || cap(page.Lines) > maxLines+maxLines/4 {
			t.Fatalf("got %d lines in room for %d, and %v", len(page.Lines), cap(page.Lines), err)
		}
		l.mu.Lock()
		if got := l.partitions[0].kept(); got > maxKept+maxLines+1 {
			t.Errorf("after %d queries: got %d lines kept, want at most %d and one page", i+1, got, maxKept)
		}
		l.mu.Unlock()
	}
}

// TestARowThatWasMadeAnewIsListedOnce, by its first line, and the page is as long as it should be: a client takes a short one for the last.
func TestARowThatWasMadeAnewIsListedOnce(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	for i := range 100 {
		o.sends(now, "key", fmt.Sprintf("%02d", i), uint32(100-i))
	}
	c := newCollector(Query{ByCount: true, Limit: 10, Filter: Filter{Rule: "daily"}})
	for again := range spare {
		o.fold.View().Rows(now, func(r fold.Row) bool {
			if again == 0 || r.ID == "03" {
				r.Total -= int64(again)
				c.take(&r, shareOf(&r), analyzer.At{}, now)
			}
			return true
		})
	}
	var got []string
	for _, line := range c.page(analyzer.At{}).Lines {
		got = append(got, fmt.Sprint(line.ID, "=", line.Total))
	}
	if want := "00=100 01=99 02=98 03=97 04=96 05=95 06=94 07=93 08=92 09=91"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestPagesWhileRowsComeAndGo: who is there from the first page to the last, and does not change, is listed once, whatever the others do.
func TestPagesWhileRowsComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, l := newOwner(t)
		defer l.Close()
		ids := []string{"a", "aa", "ab", "b", "\xff", "\xff\x00", strings.Repeat("x", 256), strings.Repeat("x", 255) + "y", "a\x00"}
		want := make(map[string]int64)
		for _, id := range ids {
			n := rapid.Uint32Range(1, 3).Draw(t, "weight") // many ties
			o.sends(now, "key", id, n)
			want[id] = int64(n)
		}
		q := Query{ByCount: rapid.Bool().Draw(t, "by count"), Limit: rapid.IntRange(1, 4).Draw(t, "limit"), Filter: Filter{Rule: "ten"}}
		listed := make(map[string]int64)
		for {
			page, err := l.Top(t.Context(), 0, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range page.Lines {
				if _, ok := want[line.ID]; ok && listed[line.ID] != 0 {
					t.Fatalf("%q is listed twice", line.ID)
				}
				listed[line.ID] = line.Total
			}
			if len(page.Lines) < q.Limit {
				break
			}
			q.Paged, q.After = true, page.Lines[len(page.Lines)-1].Key
			for range rapid.IntRange(0, 3).Draw(t, "others") {
				o.sends(now, "key", fmt.Sprint("other-", rapid.IntRange(0, 5).Draw(t, "other")), rapid.Uint32Range(1, 3).Draw(t, "more"))
			}
		}
		for id, n := range want {
			if listed[id] != n {
				t.Fatalf("%q: got %d, want %d", id, listed[id], n)
			}
		}
	})
}

// TestAHundredClientsGetWhatASortSays: all at once, for all kinds of queries, and some leave before they have an answer.
func TestAHundredClientsGetWhatASortSays(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	for i := range 3000 {
		o.sends(now, []string{"key", "ip"}[i%2], fmt.Sprint(i%997), uint32(1+i%13))
	}
	want := make(map[Query][]string)
	var queries []Query
	for i := range 40 {
		q := Query{ByCount: i%2 == 1, Limit: 1 + i*7%50, Filter: Filter{Rule: []string{"", "ten", "bucket"}[i%3], Prefix: []string{"", "1", "99"}[i/3%3]}}
		queries = append(queries, q)
		lines := all(o, q)
		want[q] = lines[:min(q.Limit, len(lines))]
	}
	var clients sync.WaitGroup
	for i := range 100 {
		clients.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				cancel()
			}
			q := queries[i%len(queries)]
			page, err := l.Top(ctx, 0, q)
			if err != nil {
				if i%5 != 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("client %d: got %v", i, err)
				}
				return
			}
			var got []string
			for _, line := range page.Lines {
				got = append(got, fmt.Sprint(line.Rule, " ", line.ID, " ", line.Total))
			}
			if !slices.Equal(got, want[q]) {
				t.Errorf("%+v: got %q, want %q", q, got, want[q])
			}
		})
	}
	clients.Wait()
}

// TestAnOwnerDiesDuringAWalk: all who wait are answered, by its error, which is not kept; and whoever asks the next owner gets a list.
func TestAnOwnerDiesDuringAWalk(t *testing.T) {
	o, l := newOwner(t)
	defer l.Close()
	for i := range 20_000 {
		o.sends(now, "key", fmt.Sprint(i), 5)
	}
	o.between = func() { o.refuse = &analyzer.NotRunningError{Partition: 0} }
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			var e *analyzer.NotRunningError
			if page, err := l.Top(t.Context(), 0, Query{Limit: 1 + i, Filter: Filter{Rule: "ten"}}); !errors.As(err, &e) {
				t.Errorf("client %d: got %+v and %v, want NotRunningError", i, page, err)
			}
		})
	}
	clients.Wait()
	o.between, o.refuse = nil, nil
	for i := range 20 {
		if page, err := l.Top(t.Context(), 0, Query{Limit: 1 + i, Filter: Filter{Rule: "ten"}}); err != nil || page.Total != 20_000 || len(page.Lines) != 1+i {
			t.Errorf("client %d: got %+v and %v, want a list", i, page, err)
		}
	}
}

// TestCloseDuringAWalkAndARest: nobody waits for ever, and no goroutine is left, or the test would not end.
func TestCloseDuringAWalkAndARest(t *testing.T) {
	for _, resting := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o, l := newOwner(t)
			l.now = time.Now
			o.sends(now, "key", "a", 1)
			if resting {
				l.partitions[0] = &partition{requests: make(map[Query]*request), rested: time.Now().Add(time.Hour)}
			} else {
				o.mu.Lock()
			}
			var client sync.WaitGroup
			client.Go(func() {
				if page, err := l.Top(t.Context(), 0, Query{}); !errors.Is(err, context.Canceled) {
					t.Errorf("resting %v: got %+v and %v, want context.Canceled", resting, page, err)
				}
			})
			synctest.Wait()
			if !resting {
				go func() { time.Sleep(time.Second); o.mu.Unlock() }()
			}
			begun := time.Now()
			l.Close()
			client.Wait()
			if took := time.Since(begun); took > time.Second {
				t.Errorf("resting %v: close took %s", resting, took)
			}
		})
	}
}

// crowded refuses the first questions, since too many others wait.
type crowded struct {
	owner *owner
	left  int
}

func (c *crowded) Ask(ctx context.Context, partition int, f func(*fold.Fold, analyzer.At)) error {
	if c.left--; c.left >= 0 {
		return fmt.Errorf("ask: %w", analyzer.ErrBusy)
	}
	return c.owner.Ask(ctx, partition, f)
}

// TestAWalkWaitsForABusyOwner, but not for ever.
func TestAWalkWaitsForABusyOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, first := newOwner(t)
		first.Close()
		o.sends(now, "key", "a", 1)
		l := New(&crowded{o, 50})
		defer l.Close()
		if page, err := l.Top(t.Context(), 0, Query{}); err != nil || page.Total != 2 {
			t.Errorf("got %+v and %v, want both rows in the end", page, err)
		}
		never := New(&crowded{o, math.MaxInt})
		defer never.Close()
		begun := time.Now()
		_, err := never.Top(t.Context(), 0, Query{})
		if !errors.Is(err, analyzer.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > walkTime+time.Second {
			t.Errorf("got %v after %s, want ErrBusy after %s", err, time.Since(begun), walkTime)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := never.Each(ctx, 0, Filter{}, nil); !errors.Is(err, analyzer.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("each: got %v, want ErrBusy when its time is over", err)
		}
	})
}
