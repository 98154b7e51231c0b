package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// poll is how often an owner is asked how far it is.
const poll = 20 * time.Millisecond

// runOwner runs an owner until done returns nil or an error.
func runOwner(ctx context.Context, o *analyzer.Owner, done func(ctx context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error { return o.Run(running) })
	g.Go(func() error {
		defer stop()
		return done(ctx)
	})
	return g.Wait()
}

// finishSources lets the source count up to the end of its log, and notes how far that is.
func (m *migration) finishSources(ctx context.Context) error {
	m.note = newNote()
	for p := range m.partitions {
		m.Progress(p, Counting)
		o := analyzer.NewOwner(m.Source, m.owner(p))
		err := runOwner(ctx, o, func(ctx context.Context) error {
			for !o.Stats().State.Decides() { // before that it folds the log up to its end
				if err := kafkaio.Sleep(ctx, poll); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("count the rest of partition %d of the source: %w", p, err)
		}
		s, err := m.source(p)
		if err != nil {
			return err
		}
		m.note.Sources = append(m.note.Sources, s)
	}
	return m.writeNote()
}

// checkSources compares the source with the note.
func (m *migration) checkSources() error {
	for p := range m.partitions {
		s, err := m.source(p)
		if err != nil {
			return err
		}
		if was := &m.note.Sources[p]; s.Next != was.Next || s.Digest != was.Digest {
			return fmt.Errorf("%w: partition %d: got offset %d and digest %016x, want %d and %016x as in %s: make all topics of the target anew, "+
				"and delete that directory", ErrCountedOn, p, s.Next, s.Digest, was.Next, was.Digest, m.Dir)
		}
	}
	return nil
}

// source returns what the store of a partition of the source has.
func (m *migration) source(p int) (source, error) {
	s, err := store.Open(m.sourceDir(p), m.Owner.Store)
	if err != nil {
		return source{}, fmt.Errorf("open the store of the source: %w", err)
	}
	at := s.Checkpoint()
	if want := m.Owner.Rules.ID(); at.Next < 0 || at.RulesID != want {
		err = fmt.Errorf("partition %d of the source: got a store up to offset %d, counted by rules %016x, want 0 or more and rules %016x", p, at.Next, at.RulesID, want)
	}
	return source{Next: at.Next, Digest: at.Digest, LogTime: at.LogTime, Rows: at.Rows, Epoch: at.Epoch}, errors.Join(err, s.Close())
}

// load calls row for each row of a store of the source. row must not keep key and value.
func (m *migration) load(ctx context.Context, p int, row func(key, value []byte) error) error {
	s, err := store.Open(m.sourceDir(p), m.Owner.Store)
	if err != nil {
		return fmt.Errorf("open the store of the source: %w", err)
	}
	err = s.Load(func(key, value []byte) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return row(key, value)
	})
	return errors.Join(err, s.Close())
}

// rows calls row for each row that a store of the target gets. It gets no rows of pools: what callers asked for in the last seconds before
// the migration says nothing of what they ask for behind it, and the owners of the target send tallies and levels of their own.
func (m *migration) rows(ctx context.Context, p int, row func(key, value []byte) error) error {
	return m.load(ctx, p, func(key, value []byte) error {
		switch fold.KindOf(key) {
		case fold.PoolRow:
			return nil
		case fold.ControlRow:
			var err error
			if key, value, err = m.moved(p, key, value); err != nil {
				return err
			}
		}
		return row(key, value)
	})
}

// stage makes the store of a partition of the target, unless it is there.
func (m *migration) stage(ctx context.Context, p int) error {
	dir := m.targetDir(p)
	if store.Exists(dir) {
		return nil
	}
	if err := os.RemoveAll(dir + ".new"); err != nil { // of a call that was interrupted
		return fmt.Errorf("remove half a store: %w", err)
	}
	s, err := store.Open(dir+".new", m.Owner.Store)
	if err != nil {
		return err
	}
	if err := errors.Join(m.fill(ctx, p, s), s.Close()); err != nil {
		return err
	}
	if err := renameSynced(dir+".new", dir); err != nil {
		return fmt.Errorf("rename store: %w", err)
	}
	return nil
}

// fill commits all rows of a partition. Until the last commit the store is incomplete.
func (m *migration) fill(ctx context.Context, p int, s *store.Store) error {
	from := &m.note.Sources[p]
	at := store.Checkpoint{
		Next: store.Incomplete, RulesID: m.Owner.Rules.ID(), RulesFrom: from.Base, LogTime: from.LogTime,
		TailOffset: from.tail.Offset, TailCRC: from.tail.CRC, Epoch: from.Epoch, // no place of the target was applied yet
	}
	var changes []store.Change
	room := s.MaxBytes()
	err := m.rows(ctx, p, func(key, value []byte) error {
		c := store.Change{Key: bytes.Clone(key), Value: bytes.Clone(value)}
		size := store.Bytes(&c)
		if len(changes) == s.MaxChanges() || size > room {
			if err := s.Commit(at, changes); err != nil {
				return err
			}
			changes, room = changes[:0], s.MaxBytes()
		}
		changes, room = append(changes, c), room-size
		return nil
	})
	if err != nil {
		return err
	}
	at.Next = from.Base
	return s.Commit(at, changes)
}

// renameSynced renames a directory, whose parent stays the same, and returns when that is on disk.
func renameSynced(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
