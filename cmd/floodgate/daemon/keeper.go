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
// only what the last complete snapshot has; of snapshots and decisions, only what stands before those that heartbeats name. All that is on
// disk before anything is removed.
//
// It is the log for those who append requests: while there is no room and nothing can be removed, it refuses them, so that reading waits.
// Topics other than requests go on. Its methods are safe for concurrent use, but one goroutine calls run.
type keeper struct {
	*filelog.Log

	config keeperConfig
	full   atomic.Pointer[string] // why requests are refused; nil: they are not
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
	return k.Log.Produce(ctx, topic, partition, msgs...)
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

// old is a segment that may be removed.
type old struct {
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
	crowded := total > k.config.MaxBytes/10*crowdedTenths
	if crowded || now.Sub(k.looked) >= neededEvery {
		if err := k.readNeeded(ctx, now); err != nil {
			return err
		}
		k.looked = now
	}
	for _, o := range k.removable(all, total, now) {
		if err := k.Trim(o.topic, o.partition, o.Next); err != nil {
			return err
		}
		total -= o.Bytes
	}
	k.bytes.Store(total)
	k.report(total)
	return nil
}

// topics returns the names of all topics but control, of which nothing is ever removed, and how many partitions each has.
func (k *keeper) topics() map[string]int {
	n := k.config.Names
	return map[string]int{n.Requests: k.config.Partitions, n.Decisions: k.config.Partitions, n.State: k.config.Partitions, n.Events: k.config.Partitions, n.Rejects: 1}
}

// segments returns all segments that are complete, the oldest first, and how many bytes the log has.
func (k *keeper) segments() (all []old, total int64, err error) {
	for topic, partitions := range k.topics() {
		for p := range partitions {
			list, err := k.Segments(topic, p)
			if err != nil {
				return nil, 0, err
			}
			for i, s := range list {
				total += s.Bytes
				if i < len(list)-1 {
					all = append(all, old{s, topic, p})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b old) int { return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Base, b.Base)) })
	return all, total, nil
}

// newest returns when the log was last appended to; the zero time if it is empty.
func (k *keeper) newest() (at time.Time) {
	for topic, partitions := range k.topics() {
		for p := range partitions {
			list, err := k.Segments(topic, p)
			for i := range list {
				if err == nil && list[i].Changed.After(at) {
					at = list[i].Changed
				}
			}
		}
	}
	return at
}

// removable returns which of the segments are to be removed.
func (k *keeper) removable(all []old, total int64, now time.Time) (list []old) {
	n, c := k.config.Names, k.config
	room := map[string]int64{n.Events: c.MaxBytes / smallPart, n.Rejects: c.MaxBytes / smallPart}
	for _, o := range slices.Backward(all) {
		room[o.topic] -= o.Bytes
	}
	for _, o := range all {
		age := now.Sub(o.Changed)
		var remove bool
		switch o.topic {
		case n.Requests:
			remove = o.Next <= k.first(o) && (age >= c.Keep || total > c.MaxBytes/10*crowdedTenths)
		case n.State, n.Decisions:
			remove = o.Next <= k.first(o)
		case n.Events:
			remove = age >= eventsKeep || room[o.topic] < 0
		case n.Rejects:
			remove = age >= c.Keep || room[o.topic] < 0
		}
		if remove {
			list = append(list, o)
			total -= o.Bytes
			room[o.topic] += o.Bytes
		}
	}
	return list
}

// first returns the first offset of a segment's partition that an owner may need.
func (k *keeper) first(o old) int64 {
	if list := k.needed[o.topic]; o.partition < len(list) {
		return list[o.partition]
	}
	return 0
}

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

// waits returns why requests are refused, or "".
func (k *keeper) waits() string {
	if why := k.full.Load(); why != nil {
		return "the log has no room: " + *why
	}
	return ""
}
