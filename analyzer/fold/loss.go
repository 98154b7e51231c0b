package fold

import (
	"encoding/binary"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// ruleLosses is what the fold keeps of one rule as a whole: how many rows it has, and what it could not count.
//
// While the table is full, weight of callers without a row is lost. When a row is made later, it is unknown whether its caller lost weight.
// So such a row is marked: its count is a lower bound, and row.since says up to which log time weight may be missing. The first entry whose
// count and closure cannot depend on weight that old removes the mark: then the row is exact again. All rows without a mark are exact.
//
// The two log times below are stored, and are part of each snapshot: each rule has one row for them. Nothing else of the waiting room is
// stored. It is not needed: weight of callers that waited when an analyzer stopped is not newer than the stored loss.
type ruleLosses struct {
	coarse    window.Coarse
	rows      int
	lost      int64 // log time of the newest weight that no row counted; never if there was none
	dropped   int64 // the latest expiry of a row that was dropped early: late entries no longer find that row
	uncounted uint64
	recovered uint64 // the part of uncounted that rows count after all, made for callers that had waited

	dirty  bool
	shown  bool   // the scan under way has returned the two times as they are now
	stored uint64 // rows.Sum of the row as last committed; 0 if it never was
}

// losses is the losses of all rules. One goroutine may use it.
type losses struct {
	rules   *inForce
	byRule  []ruleLosses
	changed []int32      // rules whose losses changed since the last checkpoint took them
	removed rows.Removed // shared with the table
	noStore bool
}

func newRuleLosses(set *rules.Set) []ruleLosses {
	losses := make([]ruleLosses, len(set.Rules))
	for i, r := range set.Rules {
		losses[i] = ruleLosses{coarse: r.Window.Coarse(), lost: never, dropped: never}
	}
	return losses
}

// forgottenAt returns a time. After it, an entry that is missing from s and is not newer than lost changes nothing: no count and no
// closure. A rule in shadow mode may count by its own closures, so that for it the same time must pass once more.
func forgottenAt(r *rules.Rule, s window.State, limit, lost int64) int64 {
	at := integer.Add(r.Window.Forgets(s, limit, lost), policy.Reach(r))
	if r.Mode == schemas.ModeShadow {
		at = integer.Add(r.Window.Forgets(s, limit, at), policy.Reach(r))
	}
	return at
}

// keepsMark reports whether a marked row must keep its mark at an entry at t. The row's closure may have begun at another time than with
// all weight, and until it ends it hides closes that the true count would make. So the mark stays until all such closures are over. It also
// stays until no late entry can prolong one of them: until they end before the window begins.
func (r *row) keepsMark(rule *rules.Rule, limit, t int64) bool {
	if r.flags&hasEarly != 0 {
		return true // early weight may be missing as well
	}
	since := r.since
	if r.closure.Nth > 0 {
		since = max(since, r.closure.Until)
	}
	start := rule.Window.View(r.state, limit, t).Start
	return start < forgottenAt(rule, r.state, limit, since) || start < r.closure.Expiry(rule)
}

func lossKey(r *rules.Rule) []byte { return append([]byte{byte(LossRow)}, r.Name...) }

// lossValue encodes the losses of a rule: a version, the shape of the rule, and the two times.
func lossValue(r *rules.Rule, a *ruleLosses) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{rowVersion}, r.Shape())
	b = binary.AppendVarint(b, a.lost)
	return binary.AppendVarint(b, a.dropped)
}

// lose notes weight that no row counts.
func (l *losses) lose(rule int32, weight, now int64) {
	a := &l.byRule[rule]
	a.uncounted += uint64(max(weight, 0)) // ≥ 0
	if a.lost < now {
		a.lost = now
		l.change(rule)
	}
}

// change puts the losses of a rule on the list of the next checkpoint, and makes the scan under way return them again.
func (l *losses) change(rule int32) {
	a := &l.byRule[rule]
	a.shown = false
	if !a.dirty && !l.noStore {
		a.dirty = true
		l.changed = append(l.changed, rule)
	}
}

// since returns the mark of a row that is made for an entry at t: the log time up to which the row may lack weight, or never.
func (l *losses) since(rule int32, limit, t int64) int64 {
	a, since := &l.byRule[rule], int64(never)
	r := l.rules.set.Rules[rule]
	if a.lost != never && r.Window.View(nil, limit, t).Start < forgottenAt(r, nil, limit, a.lost) {
		since = a.lost
	}
	if t < a.dropped {
		since = max(since, a.dropped)
	}
	return since
}

// move gives each rule that keeps its counts its old losses. moved[i] is the new index of old rule i, or −1 if its counts end.
func (l *losses) move(old []ruleLosses, before *rules.Set, moved []int32, now int64) {
	for i := range old {
		a := &old[i]
		to := moved[i]
		if to < 0 {
			l.removed.Add(lossKey(before.Rules[i]), a.stored)
			continue
		}
		next := &l.byRule[to]
		next.lost, next.dropped, next.stored = a.lost, a.dropped, a.stored
		next.uncounted, next.recovered = a.uncounted, a.recovered
		if a.dirty {
			l.change(to)
		}
		if a.lost != never && before.Rules[i].Fingerprint() != l.rules.set.Rules[to].Fingerprint() {
			l.lose(to, 0, now) // how long a loss matters depends on limits and closures, which may have been others
		}
	}
}

// take appends the losses that changed since the last checkpoint, for the store.
func (l *losses) take(changes []rows.Change) []rows.Change {
	for _, i := range l.changed {
		a := &l.byRule[i]
		key, value := lossKey(l.rules.set.Rules[i]), lossValue(l.rules.set.Rules[i], a)
		if a.stored == 0 && len(l.removed) > 0 {
			a.stored = l.removed.Take(key)
		}
		changes = append(changes, rows.Change{Key: key, Value: value, Old: a.stored})
		a.stored, a.dirty = rows.Sum(key, value), false
	}
	l.changed = l.changed[:0]
	return changes
}

// scan returns the losses that have changed since the scan returned them, or that it has not returned yet.
func (l *losses) scan() []rows.Change {
	var list []rows.Change
	for i := range l.byRule {
		if a := &l.byRule[i]; !a.shown && (a.lost != never || a.dropped != never) {
			list = append(list, rows.Change{Key: lossKey(l.rules.set.Rules[i]), Value: lossValue(l.rules.set.Rules[i], a)})
			a.shown = true
		}
	}
	return list
}

// restore adds a stored loss. stored is its sum in the store, or 0 if it comes from a snapshot. If the rule has a loss already, the later
// times count. If no such rule exists, or if it counts differently now, the loss is dropped.
func (l *losses) restore(key, value []byte, stored uint64) error {
	if len(value) < 9 || value[0] != rowVersion {
		return fmt.Errorf("%w: got a loss of %d bytes", errRow, len(value))
	}
	b := value[9:]
	lost, n := binary.Varint(b)
	dropped, m := binary.Varint(b[max(0, n):])
	if n <= 0 || m <= 0 || n+m != len(b) {
		return fmt.Errorf("%w: got a loss cut short", errRow)
	}
	i := l.rules.index(string(key[1:]))
	if i < 0 || l.rules.set.Rules[i].Shape() != binary.LittleEndian.Uint64(value[1:]) {
		l.removed.Add(key, stored)
		return nil
	}
	a := &l.byRule[i]
	a.lost, a.dropped = max(a.lost, lost), max(a.dropped, dropped)
	if a.stored = stored; stored == 0 {
		l.change(i)
	}
	return nil
}
