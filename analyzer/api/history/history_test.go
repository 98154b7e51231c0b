package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// noon is when the events of these tests begin.
func noon(after time.Duration) time.Time {
	return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Add(after)
}

// topic is events in memory.
type topic struct {
	*kafkaiotest.Kafka

	t *testing.T
}

func newTopic(t *testing.T, partitions int) *topic {
	t.Helper()
	k := kafkaiotest.New()
	k.Create(partitions, "events")
	k.SetMaxRecords(5)
	return &topic{k, t}
}

// closes writes a close of a caller, a moment after it happened.
func (k *topic) closes(partition int, after time.Duration, caller string) {
	k.t.Helper()
	e := event.Event{
		Type: event.Closed, Time: noon(after), Partition: partition, Offset: int64(after), Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: caller}),
		Rule: "r", Mode: "enforce", CloseAt: noon(after), Until: noon(after + time.Minute),
	}
	e.Identify()
	k.write(partition, after, e.Encode())
}

func (k *topic) write(partition int, after time.Duration, value []byte) {
	k.t.Helper()
	if _, err := k.Produce(k.t.Context(), "events", partition, kafkaio.Message{Time: noon(after + 5*time.Millisecond).UnixNano(), Value: value}); err != nil {
		k.t.Fatal(err)
	}
}

// callers returns who a page is about.
func callers(p *Page) string {
	var ids []string
	for i := range p.Events {
		ids = append(ids, p.Events[i].Caller.ID)
	}
	return strings.Join(ids, " ")
}

// TestAPageIsInTheOrderOfTime: what partitions say is merged, from a time on, and pages follow each other.
func TestAPageIsInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	k := newTopic(t, 2)
	k.closes(0, 1*time.Second, "a")
	k.closes(1, 2*time.Second, "b")
	k.closes(1, 3*time.Second, "c")
	k.closes(0, 4*time.Second, "d")
	k.closes(0, 4*time.Second, "d") // a copy
	k.closes(1, 5*time.Second, "e")
	h := New(k, "events", 2)
	for _, c := range []struct {
		since time.Duration
		limit int
		pages []string
	}{
		{0, 10, []string{"a b c d e"}},
		{2 * time.Second, 10, []string{"b c d e"}},
		{2*time.Second + 1, 10, []string{"c d e"}},
		{0, 2, []string{"a b", "c d", "d e"}}, // of copies on one page one is left out
		{time.Hour, 10, []string{""}},
	} {
		q := Query{Since: noon(c.since), Limit: c.limit}
		for i, want := range c.pages {
			p, err := h.Page(t.Context(), q)
			if err != nil || callers(&p) != want {
				t.Errorf("since %v, page %d: got %q, %v, want %q", c.since, i, callers(&p), err, want)
			}
			if last := i == len(c.pages)-1; last != (p.Next == nil) {
				t.Errorf("since %v, page %d: got next %v, want one unless it is the last", c.since, i, p.Next)
			}
			q.After = p.Next
		}
	}
}

// TestEachEventIsOnOnePage: whatever the size of pages and the filter are, all pages together have all events, once, and in the order
// of each partition.
func TestEachEventIsOnOnePage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	k := newTopic(t, 3)
	var want []string
	at := time.Duration(0)
	for i := range 300 {
		at += time.Duration(random.Int64N(int64(time.Second)))
		caller := fmt.Sprintf("c%03d", i)
		if k.closes(random.IntN(3), at, caller); at >= time.Minute && i%3 > 0 {
			want = append(want, caller)
		}
	}
	h := New(k, "events", 3)
	keep := func(e *event.Event) bool {
		var n int
		_, err := fmt.Sscanf(e.Caller.ID, "c%d", &n)
		return err == nil && n%3 > 0
	}
	for _, limit := range []int{1, 7, 50, 1000} {
		var got []string
		q := Query{Since: noon(time.Minute), Limit: limit, Keep: keep}
		for more := true; more; more = q.After != nil {
			p, err := h.Page(t.Context(), q)
			if err != nil || len(p.Events) > limit {
				t.Fatalf("got %d events, %v, want at most %d", len(p.Events), err, limit)
			}
			got = append(got, strings.Fields(callers(&p))...)
			q.After = p.Next
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %d events\n%v\nwant %d\n%v", limit, len(got), got, len(want), want)
		}
	}
}

// TestWhatIsNoEventIsCounted, and nothing ends because of it.
func TestWhatIsNoEventIsCounted(t *testing.T) {
	t.Parallel()
	k := newTopic(t, 1)
	k.write(0, time.Second, []byte("{}"))
	k.closes(0, 2*time.Second, "a")
	k.write(0, 3*time.Second, []byte(`{"id":"00112233445566778899aabbccddeeff","type":"of a later version","time":"2026-11-22T12:00:03Z","partition":0,"offset":1}`))
	p, err := New(k, "events", 1).Page(t.Context(), Query{Since: noon(0), Limit: 10})
	if err != nil || len(p.Events) != 2 || p.Unreadable != 1 {
		t.Errorf("got %d events, %d unreadable, %v, want 2 and 1", len(p.Events), p.Unreadable, err)
	}
}

// TestErrorsAreReturned: there is no topic, Kafka is away, or nobody waits any more.
func TestErrorsAreReturned(t *testing.T) {
	t.Parallel()
	k := newTopic(t, 1)
	if _, err := New(k, "none", 1).Page(t.Context(), Query{Since: noon(0), Limit: 1}); err == nil {
		t.Error("got no error without a topic, want one")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	h := New(k, "events", 1)
	for range turns {
		h.turns <- struct{}{}
	}
	if _, err := h.Page(over, Query{Since: noon(0), Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that nobody waits", err)
	}
	if p, err := New(k, "events", 1).Page(t.Context(), Query{Since: noon(0), Limit: 1, After: []int64{99}}); err == nil && p.Next != nil {
		t.Errorf("got %+v behind the end, want no more", p)
	}
}

// TestTheTimeIsFoundInALongTopic: whatever the time is, the page begins with the first event that is not older.
func TestTheTimeIsFoundInALongTopic(t *testing.T) {
	t.Parallel()
	k := newTopic(t, 1)
	const n = 97
	for i := range n {
		k.closes(0, time.Duration(i)*time.Second, fmt.Sprint("c", i))
	}
	h := New(k, "events", 1)
	for i := range n + 2 {
		p, err := h.Page(t.Context(), Query{Since: noon(time.Duration(i)*time.Second - time.Millisecond), Limit: 1})
		want := fmt.Sprint("c", i)
		if i >= n {
			want = ""
		}
		if err != nil || callers(&p) != want {
			t.Errorf("since %d s: got %q, %v, want %q", i, callers(&p), err, want)
		}
	}
}
