package analyzer

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/store"
)

// AuditReport is what an Audit found in one partition.
type AuditReport struct {
	Partition   int
	Dir         string
	From, To    int64     // the offsets that were recounted: From ≤ offset < To
	LogTime     int64     // Unix nanoseconds: as of when totals are compared
	Log         FoldStats // of the recount
	Agreed      int       // rows of the store and of the recount that are the same
	Differences []Difference
	Unaudited   []Difference // differences that prove nothing, by rule and caller; Why says what is missing
	Damage      error        // the rows are not those that the store's own digest stands for; nil: they are
}

// Exact reports whether nothing was found.
func (r *AuditReport) Exact() bool { return len(r.Differences) == 0 && r.Damage == nil }

// Difference is one rule and caller of whom the store says otherwise than the log.
type Difference struct {
	Rule   string // empty for the rows by which duplicates are told
	Caller string // kind:id; or producer:, source: and its id in hexadecimal
	Store  int64  // weight in the window
	Log    int64  // likewise, by the recount
	Start  int64  // Unix nanoseconds: where the window begins
	Why    string
}

// What a Difference can be.
const (
	WhyCount     = "counts differ"
	WhyState     = "same count, other times"
	WhyClosure   = "same count, other closure"
	WhyExtra     = "not in the log"
	WhyMissing   = "not in the store"
	WhyUnknown   = "no rule counts it"
	WhySender    = "other sequence numbers"
	WhyRetention = "began before the log does"
	WhyRules     = "began under earlier rules"
)

// compare goes over both sets of rows.
func (a *audit) compare(s *store.Store, report *AuditReport) error {
	err := s.Load(func(key, value []byte) error {
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
func (a *audit) differ(report *AuditReport, key string, stored, counted []byte) error {
	if key != "" && key[0] != windowPrefix {
		return a.differSender(report, key, stored, counted)
	}
	name, kind, id, err := parseRowKey(key)
	if err != nil {
		return err
	}
	d := Difference{Rule: name, Caller: kind + ":" + id}
	i := a.fold.ruleIndex(name)
	if i < 0 || a.config.Rules.Rules[i].Kind != kind {
		d.Why = WhyUnknown
		report.Differences = append(report.Differences, d)
		return nil
	}
	rule := a.config.Rules.Rules[i]
	was, err := a.read(rule, id, stored)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", d.Caller, name, err)
	}
	is, err := a.read(rule, id, counted)
	if err != nil {
		return fmt.Errorf("%s of %s, recounted: %w", d.Caller, name, err)
	}
	if len(counted) == 0 && was.gone(rule, a.at.LogTime) {
		return nil // to be deleted by the next checkpoint
	}
	d.Store, d.Log, d.Start = was.count.Total, is.count.Total, min(was.count.Start, is.count.Start)
	switch {
	case a.partial() && d.Store == d.Log:
		report.Agreed++
		return nil
	case a.beyond(rule, &d):
		report.Unaudited = append(report.Unaudited, d)
		return nil
	}
	d.Why = whyRows(stored, counted, was, is)
	report.Differences = append(report.Differences, d)
	return nil
}

// beyond reports whether the window of d can't be audited, and says why. A bucket remembers for ever.
func (a *audit) beyond(rule *rules.Rule, d *Difference) bool {
	forever := rule.Window.Name() == window.NameGCRA
	switch {
	case a.horizon > math.MinInt64 && (forever || d.Start <= a.horizon):
		d.Why = WhyRetention
	case a.changed > math.MinInt64 && (forever || d.Start <= a.changed):
		d.Why = WhyRules
	default:
		return false
	}
	return true
}

// auditRow is a row that was read.
type auditRow struct {
	state   window.State
	closure policy.Closure
	count   window.Count
}

// read decodes a row's value, as of the store's log time. No value is a row that has counted nothing.
func (a *audit) read(rule *rules.Rule, id string, value []byte) (r auditRow, err error) {
	shape := rule.Shape()
	if len(value) > 0 {
		if shape, r.closure, r.state, err = parseRowValue(value); err != nil {
			return r, err
		}
	}
	if shape != rule.Shape() || !rule.Window.Valid(r.state) {
		return r, fmt.Errorf("%w: got a state that is not one of %s", errRow, rule.Window.Shape())
	}
	limit, _ := limitFor(rule, id)
	r.count = rule.Window.View(r.state, limit, a.at.LogTime)
	return r, nil
}

// gone reports whether a fold at log time now would have dropped the row.
func (r *auditRow) gone(rule *rules.Rule, now int64) bool {
	at := max(rule.Window.Expiry(r.state), r.closure.Expiry(rule))
	return at <= math.MaxInt64-int64(expirySlack) && minuteOf(at+int64(expirySlack)) < minuteOf(now)
}

func whyRows(stored, counted []byte, was, is auditRow) string {
	switch {
	case len(counted) == 0:
		return WhyExtra
	case len(stored) == 0:
		return WhyMissing
	case was.count.Total != is.count.Total:
		return WhyCount
	case !slices.Equal(was.state, is.state):
		return WhyState
	}
	return WhyClosure
}

// differSender judges a row by which duplicates are told. Where the log is not whole it depends on what is missing; and
// one that was evicted may still wait for its deletion.
func (a *audit) differSender(report *AuditReport, key string, stored, counted []byte) error {
	if a.partial() {
		return nil
	}
	if len(counted) == 0 {
		d := newDedupe(1)
		if err := d.restore([]byte(key), stored, 1); err != nil {
			return err
		}
		if d.oldest < ago(a.at.LogTime, dedupeGrace) {
			return nil
		}
	}
	kind := map[byte]string{producerPrefix: "producer:", sourcePrefix: "source:"}[key[0]]
	report.Differences = append(report.Differences, Difference{Caller: kind + hex.EncodeToString([]byte(key[1:])), Why: WhySender})
	return nil
}
