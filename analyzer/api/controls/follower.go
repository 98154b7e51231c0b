package controls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// maxRecords is how many records a Follower keeps. It forgets the oldest.
const maxRecords = 1 << 17

// Config configures a Follower.
type Config struct {
	Log    kafkaio.Fetcher
	Topic  string       // the control topic; it has one partition
	Max    int          // records that are kept; 0 is 131,072
	Logger *slog.Logger // nil discards
}

// Follower knows the newest records of the control topic. New makes one; call Run once. The other methods may be called from any
// goroutine.
type Follower struct {
	config Config

	mu        sync.RWMutex
	records   []api.Record              // guarded by mu: by offset, without Text
	forgotten int                       // guarded by mu: how many records were forgotten
	byID      map[schemas.ControlID]int // guarded by mu: the first record with the id: forgotten + its index in records
	undone    map[schemas.ControlID]int // guarded by mu: by target, the first record that undoes it
	next      int64                     // guarded by mu
	ready     bool                      // guarded by mu
	wake      chan struct{}             // guarded by mu: closed when next changes

	versions versions // guarded by mu
	modes    modes    // guarded by mu
}

// New returns a Follower that knows nothing yet.
func New(c Config) *Follower {
	if c.Max <= 0 {
		c.Max = maxRecords
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Follower{config: c, wake: make(chan struct{})}
	f.clear()
	return f
}

func (f *Follower) clear() {
	f.records, f.forgotten, f.next, f.ready, f.versions, f.modes = nil, 0, 0, false, versions{}, nil
	f.byID, f.undone = make(map[schemas.ControlID]int), make(map[schemas.ControlID]int)
}

// Run reads the topic until ctx ends, and then returns nil. While Kafka or the topic is away it tries again. If the topic was
// truncated or made anew, it forgets everything and reads it from the start.
func (f *Follower) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no failure
		}
		f.config.Logger.Warn("reading the control topic from its start", "topic", f.config.Topic, "error", err)
		f.mu.Lock()
		f.clear()
		f.mu.Unlock()
		if !errors.Is(err, kafkaio.ErrTruncated) {
			return fmt.Errorf("follow the control topic: %w", err)
		}
	}
	return nil
}

// follow reads until the topic is not the one that was read before.
func (f *Follower) follow(ctx context.Context) error {
	cursor := kafkaio.NewCursor(f.config.Log, kafkaio.CursorConfig{
		Topic: f.config.Topic, Offset: kafkaio.Earliest, Retry: kafkaio.Always, Logger: f.config.Logger,
	})
	_, end, err := cursor.Range(ctx)
	if err != nil {
		return err
	}
	for {
		f.reached(cursor.Offset(), end)
		batch, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		f.apply(&batch)
	}
}

// reached notes whether all is known that the topic held at the start.
func (f *Follower) reached(next, end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = f.ready || next >= end || end == 0
}

func (f *Follower) apply(b *kafkaio.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	skipped := control.Decode(b, func(r *control.Record) {
		if !r.Control.OfPeople() && r.Control.Action != schemas.ControlRules {
			return // the others say where owners apply records: they are not listed
		}
		r.Control.Text = nil
		f.add(api.Record{Control: r.Control, Offset: r.Offset})
	})
	if skipped.Sum() > 0 {
		f.config.Logger.Warn("control records cannot be listed", "before", b.Next, "later_version", skipped.Later,
			"unreadable", skipped.Unreadable, "lost", skipped.Lost)
	}
	f.next = b.Next
	close(f.wake)
	f.wake = make(chan struct{})
}

// Await waits until the record at an offset is known, or could not be read. The error is that of ctx.
func (f *Follower) Await(ctx context.Context, offset int64) error {
	for {
		f.mu.RLock()
		next, wake := f.next, f.wake
		f.mu.RUnlock()
		if next > offset {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Follower) add(r api.Record) {
	f.versions.add(&r)
	if _, twice := f.byID[r.ID]; !twice {
		f.modes.add(&r)
	}
	if len(f.records) >= f.config.Max {
		f.forget(f.config.Max/8 + 1)
	}
	place := f.forgotten + len(f.records)
	f.records = append(f.records, r)
	if _, twice := f.byID[r.ID]; !twice {
		f.byID[r.ID] = place
	}
	if r.Action == schemas.ControlUndo {
		if _, before := f.undone[r.Target]; !before {
			f.undone[r.Target] = place
		}
	}
}

// forget drops the n oldest records.
func (f *Follower) forget(n int) {
	n = min(n, len(f.records))
	for i := range f.records[:n] {
		r := &f.records[i]
		if f.byID[r.ID] == f.forgotten+i {
			delete(f.byID, r.ID)
		}
		if place, ok := f.undone[r.Target]; ok && place == f.forgotten+i {
			delete(f.undone, r.Target)
		}
	}
	f.records = append(make([]api.Record, 0, f.config.Max), f.records[n:]...)
	f.forgotten += n
}

// Ready reports whether all is known that the topic held when Run began.
func (f *Follower) Ready() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.ready
}

// Next returns the offset of the next record.
func (f *Follower) Next() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.next
}

// Find returns the first record with an id.
func (f *Follower) Find(id schemas.ControlID) (api.Record, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	place, ok := f.byID[id]
	if !ok {
		return api.Record{}, false
	}
	return f.records[place-f.forgotten], true
}

// Undone returns the first record that undoes the record with an id.
func (f *Follower) Undone(id schemas.ControlID) (api.Record, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	place, ok := f.undone[id]
	if !ok {
		return api.Record{}, false
	}
	return f.records[place-f.forgotten], true
}

// pieceRecords is how many records Before copies at a time.
const pieceRecords = 256

// Before returns the records before an offset, the newest first. Records may come meanwhile.
func (f *Follower) Before(offset int64) iter.Seq[api.Record] {
	return func(yield func(api.Record) bool) {
		for {
			piece := f.before(offset)
			for i := range piece {
				if !yield(piece[i]) {
					return
				}
			}
			if len(piece) < pieceRecords {
				return
			}
			offset = piece[len(piece)-1].Offset
		}
	}
}

// before returns a copy of the newest records before an offset.
func (f *Follower) before(offset int64) []api.Record {
	f.mu.RLock()
	defer f.mu.RUnlock()
	end, _ := slices.BinarySearchFunc(f.records, offset, func(r api.Record, offset int64) int { return cmp.Compare(r.Offset, offset) })
	piece := slices.Clone(f.records[max(0, end-pieceRecords):end])
	slices.Reverse(piece)
	return piece
}

// errNoText says that there is no note at an offset.
var errNoText = errors.New("no note of rules is there")

// Text reads the text of the note at an offset from the topic.
func (f *Follower) Text(ctx context.Context, offset int64) ([]byte, error) {
	cursor := kafkaio.NewCursor(f.config.Log, kafkaio.CursorConfig{
		Topic: f.config.Topic, Offset: offset, MaxWait: -1, Retry: kafkaio.Never, Logger: f.config.Logger,
	})
	batch, err := cursor.Next(ctx)
	if err != nil {
		return nil, fmt.Errorf("read a note of rules: %w", err)
	}
	if len(batch.Records) == 0 || batch.Records[0].Offset != offset {
		return nil, fmt.Errorf("offset %d: %w", offset, errNoText)
	}
	c, err := pb.DecodeControl(batch.Records[0].Value)
	if err != nil {
		return nil, fmt.Errorf("offset %d: %w", offset, err)
	}
	if c.Action != schemas.ControlRules {
		return nil, fmt.Errorf("offset %d: %w", offset, errNoText)
	}
	return c.Text, nil
}
