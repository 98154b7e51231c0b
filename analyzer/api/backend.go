package api

import (
	"context"
	"iter"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Backend is what a Server answers from: an analyzer, and what it follows of the topics.
type Backend struct {
	Analyzer   Analyzer
	Board      Board
	Writer     Writer
	Records    Records
	Events     Events // nil: there is no topic of events
	Lists      Lists
	Series     Series
	Partitions int // of the topic of requests
	Key        schemas.PartitionKey
}

// partition returns the partition of a caller.
func (b *Backend) partition(c schemas.Caller) int {
	return schemas.Partition(b.Key.Hash(c.Kind, c.ID), b.Partitions)
}

// Analyzer is the analyzer of this process. *analyzer.Analyzer is one. Its methods are safe for concurrent use.
type Analyzer interface {
	// Ask calls f in the goroutine of the partition's owner, between two records.
	Ask(ctx context.Context, partition int, f func(*fold.Fold, analyzer.At)) error
	Stats() []analyzer.OwnerStats
	RulesStatus(now time.Time) analyzer.RulesStatus
	// Outage reports whether no broker answers.
	Outage(now time.Time) (kafkaio.Outage, bool)
}

// Board is what gates know: decisions in force, and the newest heartbeats. The board of package gate/board is one, through an
// adapter of cmd/floodgate. Its methods are safe for concurrent use.
type Board interface {
	// Of returns the decisions in force about a caller.
	Of(c schemas.Caller) []schemas.Decision
	// After returns decisions in force with numbers above this one, in the order of their numbers: at most limit, and at most 1024.
	After(number uint64, limit int) []Numbered
	// Heartbeat returns the newest heartbeat of the highest epoch of a partition.
	Heartbeat(partition int) (schemas.Heartbeat, bool)
	// AwaitHeartbeat waits for a heartbeat for which wanted returns true.
	AwaitHeartbeat(ctx context.Context, partition int, wanted func(*schemas.Heartbeat) bool) (schemas.Heartbeat, error)
	// Heard reports whether the newest heartbeat of a partition is recent.
	Heard(partition int, now time.Time) bool
	// Subscribe returns the changes after the one with a number, or all that is in force and then each change.
	Subscribe(after uint64) (Subscription, error)
	Status() BoardStatus
}

// Numbered is a decision in force with a number that it keeps.
type Numbered struct {
	Number   uint64
	Decision schemas.Decision
}

// BoardStatus says how much a Board knows.
type BoardStatus struct {
	Ready      bool
	Incomplete []int // partitions of which decisions in force may be missing
	Decisions  int
}

// Subscription gives what is in force and then each change. One goroutine uses it.
type Subscription interface {
	// Next waits for the next event. After the error of ctx it may be called again. After any other error the subscription is over.
	Next(ctx context.Context) (Event, error)
	Close()
}

// Event is a change, or tells a subscriber what it needs to know.
type Event struct {
	Kind     string // in_force, current, closed, changed, opened, ended or lost
	Number   uint64
	At       time.Time
	Decision schemas.Decision // not of current and lost
	Missed   uint64
}

// Writer appends records to the control topic. *analyzer.ControlWriter is one.
type Writer interface {
	Append(ctx context.Context, c *schemas.Control) (offset int64, err error)
}

// Record is a record of the control topic, and its offset there.
type Record struct {
	schemas.Control

	Offset int64
}

// Records is what the control topic holds. A *Follower is one. Its methods are safe for concurrent use.
type Records interface {
	Ready() bool // all that the topic held at the start is known
	Next() int64 // the offset of the next record
	// Await waits until the record at an offset is known, or ctx ends, whose error it returns.
	Await(ctx context.Context, offset int64) error
	Find(id schemas.ControlID) (Record, bool) // without Text
	// Before returns the records before an offset, without Text, the newest first.
	Before(offset int64) iter.Seq[Record]
	// Undone returns the first record that undoes a record.
	Undone(id schemas.ControlID) (Record, bool)
	// Modes returns the newest 1024 mode records that nobody has undone, the newest first. The time of some may be over.
	Modes() []Record
	// Versions returns the first note of each version of the rules, without Text, the newest first.
	Versions() []Record
	// Version returns the first note of the rules with an id, without Text.
	Version(id uint64) (Record, bool)
	// Text returns the text of the note at an offset.
	Text(ctx context.Context, offset int64) ([]byte, error)
}
