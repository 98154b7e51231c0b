package migrate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// The owner of the target is in a hurry: it writes its first snapshot as fast as it can, and then announces it at once.
const (
	checkpointEvery = 20 * time.Millisecond
	heartbeatEvery  = 100 * time.Millisecond
	snapshotEvery   = time.Second
)

// publish runs an owner of the target until it has announced a snapshot, and then reads the snapshot.
func (m *migration) publish(ctx context.Context, p int) error {
	c, t := m.owner(p), &m.Topics
	c.Requests, c.Decisions, c.State, c.Rejects, c.Control, c.Events = t.Requests, t.Decisions, t.State, "", t.Control, t.Events
	c.Dir, c.Observe = m.targetDir(p), nil
	c.Checkpoint, c.Heartbeat, c.Snapshot = checkpointEvery, heartbeatEvery, snapshotEvery
	o := analyzer.NewOwner(m.Target, c)
	at := int64(-1)
	err := runOwner(ctx, o, func(ctx context.Context) error {
		for {
			var err error
			if at, err = m.announced(ctx, p, o.Stats().Publish.Epoch); err != nil || at >= 0 {
				return err
			}
			if err := kafkaio.Sleep(ctx, poll); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return m.compare(ctx, p, at)
}

// announced returns the offset of the snapshot that an owner of an epoch has written and announced, or −1.
func (m *migration) announced(ctx context.Context, p int, epoch uint64) (int64, error) {
	if epoch == 0 {
		return -1, nil // it has not claimed the partition
	}
	place, err := decisions.Find(ctx, m.cursor(m.Topics.Decisions, p), int32(p), time.Now) // a partition number
	if err != nil {
		return -1, err
	}
	begin, err := m.snapshots(p).BeginAt(ctx, place.Beat.State-1)
	if err != nil || begin.GetEpoch() != epoch {
		return -1, err // there is none, or only that of an owner of an interrupted call
	}
	return place.Beat.State - 1, nil
}

func (m *migration) snapshots(p int) *snapshot.Reader {
	return snapshot.NewReader(m.Target, m.Topics.State, p, kafkaio.Temporary, m.Logger)
}

// compare returns an ErrDiffers if a snapshot does not have what the source has counted.
func (m *migration) compare(ctx context.Context, p int, from int64) error {
	reader, source := m.snapshots(p), &m.note.Sources[p]
	s, err := reader.At(ctx, from)
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	if s.Begin.GetOffset() != source.Base || s.Last != source.Base {
		m.Logger.Info("requests came already: the snapshot is not compared with the source", "partition", p)
		return nil
	}
	got, err := m.sumOfSnapshot(ctx, p, reader, s)
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	want, err := m.sumOfSource(ctx, p)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%w: got %+v in the snapshot, want %+v", ErrDiffers, got, want)
	}
	return nil
}

// sum says in short what a fold holds.
type sum struct {
	Digest  uint64
	Senders int
	LogTime int64
}

func sumOf(f *fold.Fold) sum { return sum{f.Digest(f.LogTime()), f.Stats().Senders, f.LogTime()} }

func (m *migration) sumOfSnapshot(ctx context.Context, p int, reader *snapshot.Reader, s *snapshot.Snapshot) (sum, error) {
	f := m.newFold(p)
	for _, sender := range s.Senders {
		if sender.ID != schemas.ProducerID(m.note.id) { // a late copy of the mark
			f.RestoreSender(&sender)
		}
	}
	f.Resume(s.Begin.GetLogTime())
	err := reader.EachRow(ctx, s, func(row *pb.StateRow) error { return f.Put(row.GetKey(), row.GetValue()) })
	f.EndPuts()
	return sumOf(f), err
}

func (m *migration) sumOfSource(ctx context.Context, p int) (sum, error) {
	f := m.newFold(p)
	err := m.rows(ctx, p, f.Restore)
	f.Resume(m.note.Sources[p].LogTime)
	return sumOf(f), err
}

// newFold returns an empty fold for all rows of a partition.
func (m *migration) newFold(p int) *fold.Fold {
	o := m.Owner.Fold
	o.Partition, o.MaxRows, o.NoStore, o.OnEntry, o.OnClockAhead = p, math.MaxInt, true, nil, nil
	return fold.New(m.Owner.Rules, o)
}
