package analyzer

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// ledger is what is counted of one partition: the fold, the store that keeps it, and how far into the log both reach. Checkpoints fall
// between records. Only the owner's goroutine may use it; others may use its atomic fields.
type ledger struct {
	*lifecycle

	config    OwnerConfig
	end       atomic.Int64  // of the log, when it was last read
	durable   atomic.Int64  // the offset before which the store has counted all
	otherLogs atomic.Uint64 // how often the log turned out not to be the one that was counted
	stats     atomic.Pointer[fold.Stats]
	mark      atomic.Pointer[ruleMark]
	openStore func(dir string, o store.Options) (rowStore, error) // store.Open; tests replace it to inject faults

	fold      *fold.Fold
	store     rowStore
	epoch     uint64       // the epoch that the owner has claimed
	tail      kafkaio.Tail // the last record folded
	rulesFrom int64
	folded    int64           // bytes of the messages that this owner has folded
	control   atomic.Int64    // what people decided before this offset of the control topic is applied
	placed    control.Mark    // the last place that was applied
	events    *eventlog.Queue // events that are not yet in the topic of events
	described int             // how many of the fold's changes were passed to events already
	partial   bool            // rows of a snapshot are missing, so that the fold must not be committed yet
	commits   *committer
	took      *histogram.Histogram // how long checkpoints took, in seconds
	committed time.Time            // when the last checkpoint was started
}

// ruleMark is the id of the rules that count, and the offset since which they count.
type ruleMark struct {
	id   uint64
	from int64
}

func newLedger(c OwnerConfig) *ledger {
	l := &ledger{
		lifecycle: &lifecycle{logger: c.Logger}, config: c, openStore: openStore, took: histogram.New(histogram.Seconds()), events: eventlog.NewQueue(),
	}
	l.otherLogs.Store(c.otherLogs)
	l.stats.Store(&fold.Stats{})
	l.mark.Store(&ruleMark{})
	return l
}

// open opens the store and reads its rows. A store that cannot be trusted is moved aside, and all is counted again from snapshot and log.
// That is slower, but never wrong.
func (l *ledger) open() error {
	err := l.load()
	if err == nil || errors.Is(err, store.ErrLocked) || errors.Is(err, rows.ErrNewer) {
		return err
	}
	return l.quarantine(err)
}

// load opens the store and fills a new fold from it.
func (l *ledger) load() error {
	l.fold = fold.New(l.config.Rules, l.config.Fold)
	l.events.Reset()
	l.described = 0
	l.setRulesFrom(0) // heartbeats name the rules, also for a partition that nobody has counted before
	s, err := l.openStore(l.config.Dir, l.config.Store)
	if errors.Is(err, store.ErrNoSpace) {
		l.config.Logger.Error("cannot open store: counting from snapshot and log, in memory", "error", err)
		l.store = noStore{func() (rowStore, error) { return l.openStore(l.config.Dir, l.config.Store) }}
		return nil
	}
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	l.store = s
	at := s.Checkpoint()
	l.durable.Store(max(at.Next, 0))
	if at.Next == store.Incomplete {
		return fmt.Errorf("%w: the last checkpoint is incomplete", store.ErrCorrupt)
	}
	if err := s.Load(l.restore); err != nil {
		return fmt.Errorf("load store: %w", err)
	}
	if at == (store.Checkpoint{}) {
		return nil
	}
	l.fold.Resume(at.LogTime)
	l.next.Store(at.Next)
	l.tail = kafkaio.Tail{Offset: at.TailOffset, CRC: at.TailCRC}
	l.placed = control.Mark{Placed: at.Placed, Epoch: at.Epoch}
	l.setRulesFrom(at.RulesFrom)
	return nil
}

// quarantine moves the store aside because of an error, and opens an empty one.
func (l *ledger) quarantine(cause error) error {
	l.closeStore()
	moved, err := store.Quarantine(l.config.Dir, time.Now())
	if err != nil {
		return fmt.Errorf("move aside a store that cannot be used (%w): %w", cause, err)
	}
	failpoint.Here(failpoint.Quarantined)
	l.config.Logger.Error("store moved aside, counting again from snapshot and log", "to", moved, "error", cause)
	l.next.Store(0)
	l.tail = kafkaio.Tail{}
	l.placed = control.Mark{}
	return l.load()
}

// discard moves aside a store that the owner does not start from. why is the reason; nil stands for errStale.
func (l *ledger) discard(why error) error {
	if l.store.Checkpoint() == (store.Checkpoint{}) {
		return nil
	}
	if errors.Is(why, errOtherLog) && !l.config.otherLog {
		l.otherLogs.Add(1)
	}
	return l.quarantine(cmp.Or(why, errStale))
}

func (l *ledger) closeStore() {
	if l.store == nil {
		return
	}
	if err := l.store.Close(); err != nil {
		l.config.Logger.Error("close store", "error", err)
	}
	l.store = nil
}

// count folds one record. refused says why the fold did not count it; it is nil if the fold did.
func (l *ledger) count(r *kafkaio.Record) (refused, err error) {
	if !l.partial && l.fold.Dirty() >= l.store.MaxChanges()/2 {
		if err := l.commitNow(); err != nil {
			return nil, err
		}
	}
	refused = l.fold.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value})
	l.folded += int64(len(r.Value))
	l.tail = r.Tail()
	l.next.Store(r.Offset + 1)
	failpoint.Here(failpoint.RecordFolded)
	return refused, nil
}

// setRulesFrom notes that the rules of the fold count from an offset on.
func (l *ledger) setRulesFrom(from int64) {
	l.rulesFrom = from
	l.mark.Store(&ruleMark{l.fold.Rules().ID(), from})
}

// showStats publishes the stats of the fold for other goroutines.
func (l *ledger) showStats() {
	s := l.fold.Stats()
	l.stats.Store(&s)
}
