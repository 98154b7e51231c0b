package analyzer

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ledger is what is counted of one partition: the fold, the store that keeps it, and how far into the log both reach.
// Checkpoints fall between records. Only the owner's goroutine may use it, but for what is atomic.
type ledger struct {
	*lifecycle

	config    OwnerConfig
	durable   atomic.Int64 // the offset before which all is counted in the store
	stats     atomic.Pointer[fold.Stats]
	mark      atomic.Pointer[ruleMark]
	openStore func(dir string, o store.Options) (rowStore, error) // tests put faults here

	fold         *fold.Fold
	store        rowStore
	epoch        uint64 // that the owner has claimed
	tailOffset   int64  // the last record folded, …
	tailCRC      uint32 // … and its checksum
	rulesFrom    int64
	rulesControl int64                // the next control record when the rules changed
	control      atomic.Int64         // the next control record to apply
	place        schemas.ControlPlace // where the last ones were applied
	controlTail  schemas.ControlTail  // the last control record that was read
	schedule     control.Schedule     // those that are to be applied again in the log that is folded again
	history      snapshot.History     // the changes of rules that are still to come in the log that is folded again
	events       *eventlog.Queue      // what is still to be written to the topic of events, …
	described    int                  // … where so many of the fold's changes are already
	partial      bool                 // rows of a snapshot are missing: what the fold holds must not be committed yet
	commits      *committer
	took         *histogram.Histogram // how long checkpoints took, in seconds
	committed    time.Time            // when the last checkpoint was started
}

// ruleMark is which rules count, and since which offset.
type ruleMark struct {
	id   uint64
	from int64
}

func newLedger(c OwnerConfig) *ledger {
	l := &ledger{
		lifecycle: &lifecycle{logger: c.Logger}, config: c, openStore: openStore, took: histogram.New(histogram.Seconds()), events: eventlog.NewQueue(),
	}
	l.stats.Store(&fold.Stats{})
	l.mark.Store(&ruleMark{})
	return l
}

// open opens the store and reads its rows. A store that cannot be trusted is moved aside, and counting starts from the
// log: that is slower, never wrong.
func (l *ledger) open() error {
	err := l.load()
	if err == nil || errors.Is(err, store.ErrLocked) {
		return err
	}
	return l.quarantine(err)
}

// load opens the store and fills a new fold from it.
func (l *ledger) load() error {
	l.fold = fold.New(l.config.Rules, l.config.Fold)
	l.events.Reset()
	l.described = 0
	l.setRulesFrom(0) // heartbeats say so, also of a partition that nobody has counted before
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
	l.tailOffset, l.tailCRC = at.TailOffset, at.TailCRC
	l.control.Store(at.Control)
	l.place, l.controlTail = at.Place, at.ControlTail
	l.setRulesFrom(at.RulesFrom)
	l.rulesControl = 0 // state[p] says it
	if at.RulesID != l.config.Rules.ID() {
		l.fold.SetRules(l.config.Rules) // the same windows, decided upon by other rules
		l.setRulesFrom(at.Next)
	}
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
	l.tailOffset, l.tailCRC = 0, 0
	l.control.Store(0)
	l.place, l.controlTail = schemas.ControlPlace{}, schemas.ControlTail{}
	if err := l.load(); err != nil {
		return err
	}
	l.setRulesFrom(0)
	return nil
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

// count folds one record. refused is why the fold did not count it, or nil.
func (l *ledger) count(r *kafkaio.Record) (refused, err error) {
	if err := l.changeRulesBefore(r.Offset + 1); err != nil {
		return nil, err
	}
	if !l.partial && l.fold.Dirty() >= l.store.MaxChanges()/2 {
		if err := l.commitNow(); err != nil {
			return nil, err
		}
	}
	record := fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}
	refused = l.fold.Frame(record)
	l.tailOffset, l.tailCRC = r.Offset, record.Checksum()
	l.next.Store(r.Offset + 1)
	failpoint.Here(failpoint.RecordFolded)
	return refused, nil
}

// changeRulesBefore applies the changes of rules that the log was counted by, up to those from offset−1 on.
func (l *ledger) changeRulesBefore(offset int64) error {
	return l.changeRulesTo(offset, -1)
}

// changeRulesTo is changeRulesBefore, and applies those from offset on as well that came before a control record.
func (l *ledger) changeRulesTo(offset, control int64) error {
	for len(l.history) > 0 && (l.history[0].From < offset || l.history[0].From == offset && l.history[0].Control <= control) {
		c := l.history[0]
		l.history = l.history[1:]
		switch {
		case c.ID == l.fold.Rules().ID():
		case c.Set == nil:
			l.config.Logger.Warn("the log was counted by rules that are not known", "from", c.From, "rules_id", fmt.Sprintf("%016x", c.ID))
		default:
			l.setRules(c.Set, c.From)
			l.rulesControl = c.Control
			if l.partial {
				continue
			}
			if err := l.commitNow(); err != nil {
				return err
			}
		}
	}
	return nil
}

// setRulesFrom notes that the rules of the fold count from an offset on.
func (l *ledger) setRulesFrom(from int64) {
	l.rulesFrom, l.rulesControl = from, l.control.Load()
	l.mark.Store(&ruleMark{l.fold.Rules().ID(), from})
}

// showStats lets other goroutines see the stats of the fold.
func (l *ledger) showStats() {
	s := l.fold.Stats()
	l.stats.Store(&s)
}
