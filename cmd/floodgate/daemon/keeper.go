package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// keeperConfig says how much of a log is kept.
type keeperConfig struct {
	Names      schemas.TopicNames
	Partitions int
	Keep       time.Duration // of requests and rejects
	MaxBytes   int64         // of all topics
	Sync       func() error
	Logger     *slog.Logger
}

// keeper bounds the log of a host. It removes what is old, or what the log has no room for, but nothing that an owner may need: of requests,
// only what the last complete snapshot has; of snapshots and decisions, only what stands before those that heartbeats name. What makes it
// superfluous is on disk before anything is removed.
//
// Requests are appended through it: while there is no room and nothing can be removed, it refuses them, so that reading waits. Other topics
// go on. Its methods are safe for concurrent use, but one goroutine calls run.
type keeper struct {
	*filelog.Log

	config keeperConfig
	full   atomic.Pointer[string] // why requests are refused; nil: they are not
	failed atomic.Pointer[string] // why the last requests could not be written; nil: they were
	bytes  atomic.Int64           // of the log, at the last look
	looked time.Time              // when heartbeats were last read
	needed map[string][]int64     // by topic and partition: the first offset that an owner may need
}

// Parts of the room, and how often the keeper looks.
const (
	keepEvery     = time.Second
	neededEvery   = 10 * time.Second
	eventsKeep    = 30 * 24 * time.Hour
	smallPart     = 20 // events and rejects have a twentieth of the room each
	crowdedTenths = 9  // from so much of the room on, old requests are removed
)

var errFull = errors.New("the log has no room")

func newKeeper(log *filelog.Log, c keeperConfig) *keeper {
	return &keeper{Log: log, config: c, needed: make(map[string][]int64)}
}

// Produce appends to the log, unless it has no room for requests.
func (k *keeper) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error) {
	if why := k.full.Load(); why != nil && topic == k.config.Names.Requests {
		return -1, &kafkaio.RequestError{Op: "produce", Topic: topic, Partition: partition, Outcome: kafkaio.Unsent, Err: fmt.Errorf("%w: %s", errFull, *why)}
	}
	base, err := k.Log.Produce(ctx, topic, partition, msgs...)
	switch {
	case topic != k.config.Names.Requests || ctx.Err() != nil:
	case err == nil:
		k.failed.Store(nil)
	default:
		why := err.Error()
		k.failed.Store(&why)
	}
	return base, err
}

// run looks each second until ctx ends.
func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for failing := false; ; {
		err := k.look(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			k.config.Logger.Error("cannot remove old parts of the log, trying again", "error", err)
		case err == nil && failing:
			k.config.Logger.Info("old parts of the log are removed again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sealed is a segment that is complete, and where it is.
type sealed struct {
	filelog.Segment
	topic     string
	partition int
}

// look removes what need not be kept.
func (k *keeper) look(ctx context.Context, now time.Time) error {
	all, total, err := k.segments()
	if err != nil {
		return err
	}
	if k.crowded(total) || now.Sub(k.looked) >= neededEvery {
		if err := k.readNeeded(ctx, now); err != nil {
			return err
		}
		k.looked = now
	}
	for _, s := range k.removable(all, total, now) {
		if err := k.Trim(s.topic, s.partition, s.Next); err != nil {
			return err
		}
		total -= s.Bytes
	}
	k.bytes.Store(total)
	k.report(total)
	return nil
}

// topics returns the names of all topics but control, of which nothing is ever removed, and how many partitions each has.
func (k *keeper) topics() map[string]int {
	n := k.config.Names
	p := k.config.Partitions
	return map[string]int{n.Requests: p, n.Decisions: p, n.State: p, n.Events: p, n.Rejects: 1}
}

// segments returns all segments that are complete, the oldest first, and how many bytes all segments have.
func (k *keeper) segments() (all []sealed, total int64, err error) {
	for topic, partitions := range k.topics() {
		for p := range partitions {
			list, err := k.Segments(topic, p)
			if err != nil {
				return nil, 0, err
			}
			for i, s := range list {
				total += s.Bytes
				if i < len(list)-1 {
					all = append(all, sealed{s, topic, p})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sealed) int { return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Base, b.Base)) })
	return all, total, nil
}

// newest returns when the log was last appended to; the zero time if it is empty.
func (k *keeper) newest() (at time.Time) {
	for topic, partitions := range k.topics() {
		for p := range partitions {
			list, _ := k.Segments(topic, p) // none, if the log is closed
			for _, s := range list {
				if s.Changed.After(at) {
					at = s.Changed
				}
			}
		}
	}
	return at
}

// removable returns which of the segments are to be removed.
func (k *keeper) removable(all []sealed, total int64, now time.Time) (list []sealed) {
	n, c := k.config.Names, k.config
	room := map[string]int64{n.Events: c.MaxBytes / smallPart, n.Rejects: c.MaxBytes / smallPart}
	for _, s := range all {
		room[s.topic] -= s.Bytes
	}
	for _, s := range all {
		age := now.Sub(s.Changed)
		var remove bool
		switch s.topic {
		case n.Requests:
			remove = k.covered(s) && (age >= c.Keep || k.crowded(total))
		case n.State, n.Decisions:
			remove = k.covered(s)
		case n.Events:
			remove = age >= eventsKeep || room[s.topic] < 0
		case n.Rejects:
			remove = age >= c.Keep || room[s.topic] < 0
		}
		if remove {
			list = append(list, s)
			total -= s.Bytes
			room[s.topic] += s.Bytes
		}
	}
	return list
}

// covered reports whether no owner needs a segment.
func (k *keeper) covered(s sealed) bool {
	list := k.needed[s.topic]
	return s.partition < len(list) && s.Next <= list[s.partition]
}

// crowded reports whether so many bytes are nearly all that the log has room for.
func (k *keeper) crowded(total int64) bool { return total > k.config.MaxBytes/10*crowdedTenths }

// readNeeded finds out what owners may need, as a new owner would, and makes that durable.
func (k *keeper) readNeeded(ctx context.Context, now time.Time) error {
	n := k.config.Names
	needed := map[string][]int64{}
	for p := range k.config.Partitions {
		cursor := kafkaio.NewCursor(k.Log, kafkaio.CursorConfig{Topic: n.Decisions, Partition: p, MaxWait: -1, Retry: kafkaio.Never})
		at, err := decisions.Find(ctx, cursor, int32(p), func() time.Time { return now }) // a partition number
		if err != nil {
			return err
		}
		begin, err := snapshot.NewReader(k.Log, n.State, p, kafkaio.Never, k.config.Logger).BeginAt(ctx, at.Beat.State-1)
		if err != nil {
			return err
		}
		var requests, state int64
		if begin != nil {
			requests, state = begin.GetOffset(), at.Beat.State-1
		}
		needed[n.Requests] = append(needed[n.Requests], requests)
		needed[n.State] = append(needed[n.State], state)
		needed[n.Decisions] = append(needed[n.Decisions], at.Read)
	}
	if err := k.config.Sync(); err != nil {
		return err
	}
	k.needed = needed
	return nil
}

// report notes whether there is room for requests, and logs a change.
func (k *keeper) report(total int64) {
	was := k.full.Load()
	switch full := total >= k.config.MaxBytes; {
	case full && was == nil:
		why := fmt.Sprintf("got %s, --keep-bytes %s, and no complete snapshot that covers more of it", humanize.Bytes(uint64(total)), humanize.Bytes(uint64(k.config.MaxBytes)))
		k.full.Store(&why)
		k.config.Logger.Error("reading waits until there is room in the log", "because", why)
	case !full && was != nil:
		k.full.Store(nil)
		k.config.Logger.Info("there is room in the log again", "bytes", total)
	}
}

// isFull reports whether requests are refused, because the log has all that it may have.
func (k *keeper) isFull() bool { return k.full.Load() != nil }

// waits returns why reading waits, or "".
func (k *keeper) waits() string {
	if why := k.full.Load(); why != nil {
		return "the log has no room: " + *why
	}
	if why := k.failed.Load(); why != nil {
		return "the log cannot be written: " + *why
	}
	return ""
}
