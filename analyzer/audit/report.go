package audit

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// Report is what an audit found in one partition.
type Report struct {
	Partition   int
	Dir         string
	From, To    int64      // the offsets that were recounted: From ≤ offset < To
	LogTime     int64      // Unix nanoseconds: as of when totals are compared
	Log         fold.Stats // of the recount
	Agreed      int        // rows of the store and of the recount that are the same
	LowerBounds int        // rows of the store that may lack weight, and say so; none counts more than the log holds
	Differences []Difference
	Unaudited   []Difference // differences that prove nothing, by rule and caller; Why says what is missing
	// Partly says that some rows were compared in part, because they are older than the log. Their counts agree. The log does not say
	// what closures they had before it begins, or which frames their producers had sent.
	Partly bool
	// LostControls says that the control topic does not have all that the analyzer has applied.
	LostControls bool
	Damage       error // the rows are not those that the store's own digest stands for; nil: they are
}

// Exact reports whether no difference was found. Unaudited and Partly say what was not compared.
func (r *Report) Exact() bool { return len(r.Differences) == 0 && r.Damage == nil }

// Approximate reports whether the log was counted without some of what people decided, or by rules that are not all known, because
// the control topic has lost records.
func (r *Report) Approximate() bool { return r.LostControls }

// Difference is one rule and one caller about which the store and the log disagree.
type Difference struct {
	Rule   string // empty for the rows of producers and sources
	Caller string // kind:id; or producer:, source: and its id in hexadecimal
	Store  int64  // weight in the window
	Log    int64  // likewise, by the recount
	Start  int64  // Unix nanoseconds: where the window begins
	Why    string
}

// What a Difference can be.
const (
	WhyCount     = "counts differ"
	WhyAbove     = "a lower bound above the log's count"
	WhyState     = "same count, other times"
	WhyClosure   = "same count, other closure"
	WhyExtra     = "not in the log"
	WhyMissing   = "not in the store"
	WhyUnknown   = "no rule counts it"
	WhySender    = "other sequence numbers"
	WhyRetention = "began before the log does"
	WhyRules     = "began under earlier rules"
	WhyControl   = "the control topic has lost records"
	WhyPool      = "other demand, tallies or level of all callers together"
	WhyFull      = "the table of callers was full"
)

// compare goes over both sets of rows.
func (a *audit) compare(s *store.Store, report *Report) error {
	err := s.Load(func(key, value []byte) error {
		if fold.KindOf(key) == fold.EventRow {
			return nil // it is no count
		}
		counted, ok := a.rows[string(key)]
		if ok && counted == string(value) {
			report.Agreed++
			delete(a.rows, string(key))
			return nil
		}
		delete(a.rows, string(key))
		return a.differ(report, string(key), value, []byte(counted))
	})
	if errors.Is(err, store.ErrDigest) {
		report.Damage, err = err, nil
	}
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	for key, counted := range a.rows {
		if err := a.differ(report, key, nil, []byte(counted)); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	for _, list := range [][]Difference{report.Differences, report.Unaudited} {
		slices.SortFunc(list, func(a, b Difference) int {
			return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Caller, b.Caller))
		})
	}
	return nil
}

// partial reports whether the recount began later than the store, or by other rules: then only what counts now is
// compared, and a difference may prove nothing.
func (a *audit) partial() bool { return a.horizon > math.MinInt64 || a.changed > math.MinInt64 }

// differ judges two rows of one key that are not the same; one of them may be missing.
func (a *audit) differ(report *Report, key string, stored, counted []byte) error {
	switch {
	case fold.KindOf([]byte(key)) == fold.LossRow:
		return nil // when the table was full depends on restarts as well as on the log
	case fold.KindOf([]byte(key)) == fold.ControlRow:
		return a.differControl(report, key, stored, counted)
	case fold.KindOf([]byte(key)) == fold.PoolRow:
		a.differPool(report, key, stored, counted)
		return nil
	case fold.KindOf([]byte(key)) != fold.CountRow:
		return a.differSender(report, key, stored, counted)
	}
	name, kind, id, err := fold.ParseRowKey(key)
	if err != nil {
		return err
	}
	d := Difference{Rule: name, Caller: kind + ":" + id}
	i := slices.IndexFunc(a.config.Rules.Rules, func(r *rules.Rule) bool { return r.Name == name && r.Kind == kind })
	if i < 0 {
		d.Why = WhyUnknown
		report.Differences = append(report.Differences, d)
		return nil
	}
	rule := a.config.Rules.Rules[i]
	inStore, err := a.read(rule, id, stored)
	if err != nil {
		return fmt.Errorf("%q of %s: %w", d.Caller, name, err)
	}
	inLog, err := a.read(rule, id, counted)
	if err != nil {
		return fmt.Errorf("%q of %s, recounted: %w", d.Caller, name, err)
	}
	if len(counted) == 0 && inStore.Dropped(rule, a.at.LogTime) {
		return nil // to be deleted by the next checkpoint
	}
	d.Store, d.Log, d.Start = inStore.count.Total, inLog.count.Total, min(inStore.count.Start, inLog.count.Start)
	switch {
	case inStore.LowerBound():
		a.differBound(report, rule, id, d)
		return nil
	case a.partial() && d.Store == d.Log:
		report.Agreed++
		report.Partly = true
		return nil
	case a.beyond(&d, rule.Window.Traits().Endless):
		report.Unaudited = append(report.Unaudited, d)
		return nil
	}
	d.Why = whyRows(stored, counted, inStore, inLog)
	report.Differences = append(report.Differences, d)
	return nil
}

// differBound judges a row of the store that may lack weight. It counts no more than the log holds; what is over the limit
// says nothing, since a log forgets it. A rule in shadow mode counts by its own closures, so that its lower bounds may be
// above.
func (a *audit) differBound(report *Report, rule *rules.Rule, id string, d Difference) {
	limit, _ := fold.LimitFor(rule, id)
	if d.Store <= d.Log || d.Log >= rule.Window.Capacity(limit) || rule.Mode == schemas.ModeShadow || a.partial() {
		report.LowerBounds++
		return
	}
	d.Why = WhyAbove
	report.Differences = append(report.Differences, d)
}

// beyond reports whether the window of d can't be audited, and says why. forever says that it depends on all of the log before it.
func (a *audit) beyond(d *Difference, forever bool) bool {
	switch {
	case a.lostControls:
		d.Why = WhyControl
	case a.horizon > math.MinInt64 && (forever || d.Start <= a.horizon):
		d.Why = WhyRetention
	case a.changed > math.MinInt64 && (forever || d.Start <= a.changed):
		d.Why = WhyRules
	default:
		return false
	}
	return true
}

// row is a row that was read.
type row struct {
	fold.StoredRow

	count window.Count
}

// read decodes a row's value, as of the store's log time. No value is a row that has counted nothing.
func (a *audit) read(rule *rules.Rule, id string, value []byte) (r row, err error) {
	if r.StoredRow, err = fold.ReadRow(rule, value); err != nil {
		return r, err
	}
	limit, _ := fold.LimitFor(rule, id)
	r.count = rule.Window.View(r.State, limit, a.at.LogTime)
	return r, nil
}

func whyRows(stored, counted []byte, inStore, inLog row) string {
	switch {
	case len(counted) == 0:
		return WhyExtra
	case len(stored) == 0:
		return WhyMissing
	case inStore.count.Total != inLog.count.Total:
		return WhyCount
	case !slices.Equal(inStore.State, inLog.State):
		return WhyState
	}
	return WhyClosure
}

// differPool judges two rows of a pool that are not the same; one of them may be missing. A level follows from all levels before it, and
// demand from closures of callers that may have no row any more: only a recount of the whole log and of all callers proves a difference.
func (a *audit) differPool(report *Report, key string, stored, counted []byte) {
	d := Difference{Rule: key[1:], Caller: fold.AllCallers, Why: WhyPool}
	switch {
	case a.beyond(&d, true):
	case a.config.Fold.Only != nil:
		d.Why = WhyFull
	default:
		if len(counted) == 0 {
			d.Why = WhyExtra
		} else if len(stored) == 0 {
			d.Why = WhyMissing
		}
		report.Differences = append(report.Differences, d)
		return
	}
	report.Unaudited = append(report.Unaudited, d)
}

// differSender judges a row of the dedupe table. Where the log is not whole it depends on what is missing; and
// one that was evicted may still wait for its deletion.
func (a *audit) differSender(report *Report, key string, stored, counted []byte) error {
	if len(counted) == 0 {
		if expired, err := fold.SenderExpired([]byte(key), stored, a.at.LogTime); err != nil || expired {
			return err
		}
	}
	if a.partial() {
		report.Partly = true
		return nil
	}
	kind := map[fold.RowKind]string{fold.ProducerRow: "producer:", fold.SourceRow: "source:"}[fold.KindOf([]byte(key))]
	report.Differences = append(report.Differences, Difference{Caller: kind + hex.EncodeToString([]byte(key[1:])), Why: WhySender})
	return nil
}
