package lister

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
)

const (
	// pieceTime is about how long one question to an owner takes: it visits some rows at a time until then.
	pieceTime = 200 * time.Microsecond
	// places is how many places of the table are visited between two looks at the clock, by all queries together: a row that is not
	// in the cache, and becomes a line of a page, takes half a microsecond.
	places = 256
	// restarts is how often a walk begins again because rules change, before it gives up.
	restarts = 10
)

// ErrRulesChanged says that the rules have changed while a list was made: what was listed until then does not count any more.
var ErrRulesChanged = errors.New("the rules have changed while the list was made: ask again")

// steps asks the owner of a partition for all its rows, some at a time. Between its questions the owner counts on.
type steps struct {
	asker     asker
	partition int
	now       func() time.Time
	places    int // of the table, that are visited between two looks at the clock

	walk      fold.Walk
	at        analyzer.At   // of the last step
	pausedFor time.Duration // for how long counting was held up, by all steps
}

// next asks for some more rows. It reports whether more are left. If the rules have changed, so that the walk begins again, it calls
// restart before the rows of the new walk.
func (s *steps) next(ctx context.Context, restart func(), row func(r *fold.Row, at analyzer.At, now int64)) (more bool, err error) {
	err = s.ask(ctx, func(f *fold.Fold, at analyzer.At) {
		begun := time.Now()
		now := max(s.now().UnixNano(), f.LogTime())
		s.at = at
		if f.View().Moved(&s.walk) {
			restart()
		}
		for {
			more, _ = f.View().WalkRows(&s.walk, s.places, now, func(r *fold.Row) { row(r, at, now) })
			if d := time.Since(begun); !more || d >= pieceTime {
				s.pausedFor += d
				return
			}
		}
	})
	if err != nil {
		return false, fmt.Errorf("list partition %d: %w", s.partition, err)
	}
	return more, nil
}

// ask asks the owner, again and again while too many others do.
func (s *steps) ask(ctx context.Context, f func(*fold.Fold, analyzer.At)) error {
	for {
		err := s.asker.Ask(ctx, s.partition, f)
		if !errors.Is(err, analyzer.ErrBusy) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}
