package apid

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
)

// boardView is a board.Board as package api wants it: analyzers and gates do not import each other.
type boardView struct{ *board.Board }

// After implements api.Board.
func (b boardView) After(number uint64, limit int) []api.Numbered {
	page := b.Board.After(number, limit)
	list := make([]api.Numbered, len(page))
	for i := range page {
		list[i] = api.Numbered{Number: page[i].Number, Decision: page[i].Decision}
	}
	return list
}

// Heard implements api.Board.
func (b boardView) Heard(partition int, now time.Time) bool {
	return b.Freshness(partition, now) == gate.Fresh
}

// Status implements api.Board.
func (b boardView) Status() api.BoardStatus {
	s := b.Board.Status()
	return api.BoardStatus{Ready: s.Ready, Incomplete: s.Incomplete, Decisions: s.Closures}
}

// Subscribe implements api.Board.
func (b boardView) Subscribe(after uint64) (api.Subscription, error) {
	s, err := b.Board.Subscribe(after)
	if err != nil {
		return nil, err
	}
	return subscription{s}, nil
}

// subscription is a board.Subscription as package api wants it.
type subscription struct{ of *board.Subscription }

// Next implements api.Subscription.
func (s subscription) Next(ctx context.Context) (api.Event, error) {
	e, err := s.of.Next(ctx)
	if err != nil {
		return api.Event{}, err
	}
	v := api.Event{Kind: e.Kind.String(), Number: e.Number, At: e.At, Missed: e.Missed}
	if e.Kind != board.Current && e.Kind != board.Lost {
		v.Decision = e.Decision
	}
	return v, nil
}

// Close implements api.Subscription.
func (s subscription) Close() { s.of.Close() }
