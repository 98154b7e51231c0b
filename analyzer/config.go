package analyzer

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Defaults of OwnerConfig.
const (
	DefaultCheckpoint = 500 * time.Millisecond
	DefaultHeartbeat  = time.Second
	DefaultRepeat     = time.Minute
	DefaultSnapshot   = 10 * time.Minute
)

// OwnerConfig configures the owner of a partition. Zero durations are the defaults.
type OwnerConfig struct {
	Fold        fold.Options // Partition and Partitions say which partition is owned
	Requests    string       // topic
	Decisions   string       // topic
	State       string       // topic of snapshots; empty: none are written or read
	Rejects     string       // topic of records that could not be read; empty: they are only counted
	Control     string       // topic of what people decide by hand, and where owners apply it
	Events      string       // topic of events (see package schemas/event); empty: none are written
	API         string       // address of this analyzer's API, host:port, for heartbeats; empty: it has none
	Dir         string       // of the partition's store
	Rules       *rules.Set
	RulesFile   string                         // where the rules come from, for people; it is the Reason of the record that notes them
	Name        string                         // of this analyzer, for people
	Lease       func(now time.Time) bool       // reports whether this owner may still publish for the partition; nil: always
	Checkpoint  time.Duration                  // from the start of one checkpoint to that of the next, while entries come
	Heartbeat   time.Duration                  // between heartbeats
	Repeat      time.Duration                  // between cycles that republish all closures in force
	Snapshot    time.Duration                  // between cycles that write all rows to State
	SnapshotBy  int64                          // bytes of messages after which a cycle ends before its time; 0: it never does
	SnapshotNow func() bool                    // reports whether the log has no room: a cycle ends at once then, because it makes room; nil: there is room
	Sync        func() error                   // called before each checkpoint, makes durable what the log has; nil: the log needs no such call
	Store       store.Options                  // for opening the store
	Logger      *slog.Logger                   // nil discards
	Observe     func(c fold.Change, lag int64) // called for each close that is published or spared, with the lag in nanoseconds; may be nil

	otherLogs  uint64      // what the owners of this partition before this one have counted as OwnerStats.OtherLogs
	otherLog   bool        // the last of them ended with errOtherLog
	closeLog   *closeLog   // shared by the owners of an analyzer; nil: one of its own
	clockNames *clockNames // shared in the same way
	notes      *ruleNotes  // shared in the same way
}

// author returns the name of this analyzer, for records of the control topic.
func (c *OwnerConfig) author() string {
	return cmp.Or(cut(c.Name, schemas.MaxAuthor), "an analyzer")
}

// cut returns at most length bytes of a text, as valid UTF-8.
func cut(text string, length int) string {
	text = strings.ToValidUTF8(text, "?")
	return strings.ToValidUTF8(text[:min(len(text), length)], "") // without the character that was cut
}

func (c OwnerConfig) withDefaults() OwnerConfig {
	if c.Lease == nil {
		c.Lease = func(time.Time) bool { return true }
	}
	if c.Checkpoint == 0 {
		c.Checkpoint = DefaultCheckpoint
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Repeat == 0 {
		c.Repeat = DefaultRepeat
	}
	if c.Snapshot == 0 {
		c.Snapshot = DefaultSnapshot
	}
	if c.SnapshotNow == nil {
		c.SnapshotNow = func() bool { return false }
	}
	if c.Sync == nil {
		c.Sync = func() error { return nil }
	}
	if c.Fold.Key == (schemas.PartitionKey{}) {
		c.Fold.Key = schemas.DefaultPartitionKey()
	}
	if c.Fold.MaxRows == 0 {
		c.Fold.MaxRows = fold.DefaultMaxRows
	}
	c.Fold.Busiest = true
	c.Fold.Ends = c.Events != ""
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.closeLog == nil {
		c.closeLog = newCloseLog(c.Logger)
	}
	if c.clockNames == nil {
		c.clockNames = newClockNames(c.Logger)
	}
	if c.notes == nil {
		c.notes = new(ruleNotes)
	}
	return c
}

// fetchBytes is how much of a topic is fetched at a time.
const fetchBytes = 1 << 20

// cursor returns a cursor at an offset of the owner's partition of a topic. It waits for as long as the topic cannot be read. Whatever the
// reason is, a person may repair it.
func (c *OwnerConfig) cursor(log kafkaio.Fetcher, topic string, offset int64) *kafkaio.Cursor {
	return kafkaio.NewCursor(log, kafkaio.CursorConfig{
		Topic: topic, Partition: c.Fold.Partition, Offset: offset, MaxBytes: fetchBytes,
		Retry: kafkaio.Always, Logger: c.Logger,
	})
}
