package controls

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestAwaitReturnsWhenTheRecordIsKnown: to all who wait, at once for one that is there, and also for one that could not be read.
func TestAwaitReturnsWhenTheRecordIsKnown(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1)}, func(p *place) {
		if err := p.f.Await(p.t.Context(), 0); err != nil {
			p.t.Errorf("a record that is there: got %v, want nil", err)
		}
		var all sync.WaitGroup
		for offset := range int64(4) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(p.t.Context(), time.Hour)
				defer cancel()
				if err := p.f.Await(ctx, offset); err != nil {
					p.t.Errorf("offset %d: got %v, want nil", offset, err)
				}
				if p.f.Next() <= offset {
					p.t.Errorf("offset %d: got next %d, want the record to be known", offset, p.f.Next())
				}
			})
		}
		time.Sleep(time.Second)
		p.raw([]byte("\xff\xff damaged"))
		p.write(reset(2), reset(3))
		all.Wait()
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		defer cancel()
		if err := p.f.Await(ctx, 99); !errors.Is(err, context.DeadlineExceeded) {
			p.t.Errorf("a record that never comes: got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestTheTopicIsAway: it is deleted while it is followed, and made anew with other records at the same offsets. What was known of the old
// one is forgotten, so that nothing of it can be undone or shown.
func TestTheTopicIsAway(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1), undo(2, 1), note(3, "text")}, func(p *place) {
		p.kafka.Delete(topic)
		time.Sleep(time.Minute)
		if !p.f.Ready() || p.f.Next() != 3 {
			p.t.Errorf("while it is away: got ready %t and next %d, want what was known", p.f.Ready(), p.f.Next())
		}
		if _, err := p.f.Text(p.t.Context(), 2); err == nil {
			p.t.Error("the text of a note of a topic that is away: got no error, want one")
		}
		p.kafka.Create(1, topic)
		p.write(reset(7))
		p.await(func() bool { return slices.Equal(p.ids(math.MaxInt64), []int{7}) && p.f.Ready() })
		for n := 1; n <= 3; n++ {
			if r, ok := p.f.Find(id(n)); ok {
				p.t.Errorf("got %+v of the topic before, want nothing", r)
			}
		}
		if _, ok := p.f.Undone(id(1)); ok {
			p.t.Error("got an undo of the topic before, want none")
		}
	})
}

// TestAnEmptyTopicIsKnown at once: an installation where nobody has decided anything yet can act.
func TestAnEmptyTopicIsKnown(t *testing.T) {
	follow(t, 0, nil, func(p *place) {
		if got := p.ids(math.MaxInt64); len(got) != 0 || p.f.Next() != 0 {
			p.t.Errorf("got %v and next %d, want nothing", got, p.f.Next())
		}
		p.write(reset(1))
		p.await(func() bool { return p.f.Next() == 1 })
	})
}

// TestTwoUndoOneRecord: the first counts, also if a later one is an undo of that undo.
func TestTwoUndoOneRecord(t *testing.T) {
	follow(t, 0, []*schemas.Control{reset(1), undo(2, 1), undo(3, 1), undo(4, 2), undo(2, 1)}, func(p *place) {
		p.await(func() bool { return p.f.Next() == 5 })
		for target, want := range map[int]int64{1: 1, 2: 3} {
			if r, ok := p.f.Undone(id(target)); !ok || r.Offset != want {
				p.t.Errorf("target %d: got offset %d, want %d", target, r.Offset, want)
			}
		}
		if got := p.ids(math.MaxInt64); !slices.Equal(got, []int{2, 4, 3, 2, 1}) {
			p.t.Errorf("got %v, want each record of the log", got)
		}
	})
}
