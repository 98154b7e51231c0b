package analyzer

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas/pb"
)

// rolling is the rolling snapshot as the owner's goroutine sees it: a cycle is begun each OwnerConfig.Snapshot, and its
// rows are handed to the stateWriter in pieces, so spread over the cycle that the fold is never held up for longer than a
// piece takes to encode.
type rolling struct {
	began time.Time // of the newest cycle; zero: one is due
}

// Sizes of a piece, in rows: a small table is done at once, and a large one doesn't hold up the fold for more than some
// milliseconds.
const (
	minPiece = 256
	maxPiece = 4096
)

// stepSnapshot goes on with the cycle under way, or begins the next when it is due. It never waits.
func (o *Owner) stepSnapshot(now time.Time) {
	if o.config.State == "" || o.states.busy {
		return
	}
	s := o.fold.scan
	switch {
	case s != nil && s.lost:
		o.config.Logger.Warn("snapshot given up: callers come and go faster than it is written")
		o.fold.endScan()
	case s != nil:
		o.takePiece(min(maxPiece, max(minPiece, len(s.gone), o.rolling.behind(s, now, o.config.Snapshot))))
	case o.rolling.began.IsZero() || now.Sub(o.rolling.began) >= o.config.Snapshot:
		o.beginSnapshot(now)
	}
}

// hurrySnapshot goes on at once where rows go faster than they are reached.
func (o *Owner) hurrySnapshot() {
	if s := o.fold.scan; s != nil && len(s.gone) > maxPiece {
		o.stepSnapshot(time.Now())
	}
}

// behind returns how many rows are to be handed out now for the scan to end after nine tenths of the cycle.
func (r *rolling) behind(s *scan, now time.Time, cycle time.Duration) int {
	passed := float64(now.Sub(r.began)) / (0.9 * float64(cycle))
	return int(min(passed, 1)*float64(s.end)) - int(s.at)
}

// beginSnapshot begins a cycle as of the next offset.
func (o *Owner) beginSnapshot(now time.Time) {
	o.rolling.began = now
	next := o.next.Load()
	o.states.start(stateJob{
		rules: o.rulesRecord(),
		begin: &pb.StateBegin{
			Offset: next, LogTime: o.fold.LogTime(), TailOffset: o.tailOffset, TailCrc: o.tailCRC,
			RulesId: o.fold.Rules().ID(), RulesFrom: o.rulesFrom,
		},
		senders: o.fold.beginScan(),
	})
}

// takePiece hands out the next rows, as of the next offset.
func (o *Owner) takePiece(rows int) {
	piece, more := o.fold.scanRows(rows)
	if !more {
		o.fold.endScan()
	}
	o.states.start(stateJob{rows: piece, next: o.next.Load(), end: !more})
}

// rulesRecord says which rules count, and since when.
func (o *Owner) rulesRecord() *pb.StateRules {
	set := o.fold.Rules()
	text := set.Text()
	if len(text) > pb.MaxStateRules {
		text = nil // what they were is then only known where the file is
	}
	return &pb.StateRules{RulesId: set.ID(), From: o.rulesFrom, Text: text}
}

// rulesWait is the longest that the fold waits for a change of rules to be in state[p]. It has the store as well.
const rulesWait = 2 * time.Second

// recordRules writes a change of rules to state[p], before the fold goes on. The next cycle, which begins at once, says it
// again.
func (o *Owner) recordRules(ctx context.Context) {
	o.fold.endScan()
	o.rolling.began = time.Time{}
	if o.config.State == "" {
		return
	}
	late := time.NewTimer(rulesWait)
	defer late.Stop()
	for said := false; ; {
		if !o.states.busy && said {
			return
		}
		if !o.states.busy {
			o.states.start(stateJob{rules: o.rulesRecord()})
			said = true
		}
		select {
		case <-o.states.done:
			o.states.busy = false
		case <-late.C:
			o.config.Logger.Warn("cannot write the change of rules to state yet")
			return
		case <-ctx.Done():
			return
		}
	}
}

// ruleChange is rules that count from an offset on.
type ruleChange struct {
	epoch uint64
	id    uint64
	from  int64
	set   *rules.Set // nil if the record's text is not what it says
}

// ruleHistory is the changes of rules that state[p] tells of, by offset.
type ruleHistory []ruleChange

// add takes in a record. Those of an epoch that was over, and copies, are passed over; an owner of a higher epoch doesn't
// know of changes that come after its own, so that they never happened.
func (h *ruleHistory) add(r *pb.StateRules) {
	list := *h
	if n := len(list); n > 0 {
		last := list[n-1]
		if r.GetEpoch() < last.epoch || r.GetEpoch() == last.epoch && r.GetFrom() < last.from {
			return
		}
		for n > 0 && list[n-1].from > r.GetFrom() {
			n--
		}
		list = list[:n]
		if n > 0 && list[n-1].id == r.GetRulesId() {
			list[n-1].epoch = r.GetEpoch()
			*h = list
			return
		}
	}
	c := ruleChange{epoch: r.GetEpoch(), id: r.GetRulesId(), from: r.GetFrom()}
	if set, err := rules.Parse("rules in state", r.GetText()); err == nil && set.ID() == c.id {
		c.set = set
	}
	*h = append(list, c)
}
