package fold

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// never is the log time of what has not happened.
const never = math.MinInt64

// account is what the fold keeps of one rule as a whole: its part of the table, and what it could not count.
//
// While the table is full, weight is lost: callers without a row send it. When a row is made later, it is unknown whether its
// caller was one of them. So such a row is marked: its count is a lower bound, and since says up to which log time its
// caller's weight may be missing. The first entry whose count and closure cannot depend on weight that old removes the mark:
// the row is then exact again. All rows without a mark are exact.
//
// The two log times below are stored and are part of each snapshot, as a row of their own for each rule. Nothing else of
// the waiting room is: what waited when an analyzer stopped was lost no later than the loss that is stored.
type account struct {
	coarse    window.Coarse
	rows      int
	lost      int64 // log time of the newest weight that no row counted; never if there was none
	dropped   int64 // newest expiry of a row that was dropped at once, so that later entries of its time don't find it
	uncounted uint64
	recovered uint64  // of the uncounted weight, what rows made of waiting callers count
	use       ruleUse // what came that the rule might have counted
	predicts  bool    // its closes are predicted
	tracks    int64   // rows that hold less than half of this, and of their limit, are not tracked

	enforced, shadowed           Tally  // what the rule did in each mode; not stored
	counted, blocked, wouldBlock uint64 // likewise: see RuleStats

	dirty  bool
	shown  bool   // the scan under way has handed out the times as they are
	stored uint64 // rows.Sum of the row as last committed; 0 if it never was
}

func newAccounts(set *rules.Set) []account {
	accounts := make([]account, len(set.Rules))
	for i, r := range set.Rules {
		accounts[i] = account{coarse: r.Window.Coarse(), lost: never, dropped: never, use: newUse(r)}
	}
	return accounts
}

// lose notes weight that no row counts.
func (f *Fold) lose(rule int32, weight int64) {
	a := &f.accounts[rule]
	a.uncounted += uint64(max(weight, 0)) // ≥ 0
	if a.lost < f.now {
		a.lost = f.now
		f.lossChanged(rule)
	}
}

// lossChanged puts the losses of a rule on the lists of the next checkpoint and of the scan under way.
func (f *Fold) lossChanged(rule int32) {
	a := &f.accounts[rule]
	a.shown = false
	if !a.dirty && !f.opts.NoStore {
		a.dirty = true
		f.losses = append(f.losses, rule)
	}
}

// lowerBoundSince returns the mark of a row that is made for an entry at t: since when it may lack weight, or never.
func (f *Fold) lowerBoundSince(rule int32, limit, t int64) int64 {
	a, since := &f.accounts[rule], int64(never)
	r := f.set.Rules[rule]
	if a.lost != never && r.Window.View(nil, limit, t).Start < forgets(r, nil, limit, a.lost) {
		since = a.lost
	}
	if t < a.dropped {
		since = max(since, a.dropped)
	}
	return since
}

// forgets returns a time. After it, an entry that is missing from s and is not newer than lost changes nothing: no count and no closure.
// A rule in shadow mode counts by its own closures, so that what it counts must be forgotten once more.
func forgets(r *rules.Rule, s window.State, limit, lost int64) int64 {
	at := integer.Add(r.Window.Forgets(s, limit, lost), policy.Reach(r))
	if r.Mode == schemas.ModeShadow {
		at = integer.Add(r.Window.Forgets(s, limit, at), policy.Reach(r))
	}
	return at
}

// remembers reports whether a marked row must keep its mark through an entry at t. The row's own closure may have begun at
// another time than the true one, and it hides what the true count closes until it ends. So the mark stays until all such
// closures are over, and until no entry can come late that would prolong one: until they end before the window begins.
func (r *row) remembers(rule *rules.Rule, limit, t int64) bool {
	if r.beside&hasEarly != 0 {
		return true // early weight may be missing as well
	}
	since := r.since
	if r.closure.Nth > 0 {
		since = max(since, r.closure.Until)
	}
	start := rule.Window.View(r.state, limit, t).Start
	return start < forgets(rule, r.state, limit, since) || start < r.closure.Expiry(rule)
}

// MayBeClosed reports whether a caller that has no row may rightly be closed under a rule, given by its name and fingerprint:
// the rule is the same and has not counted all weight of late.
func (f *Fold) MayBeClosed(rule string, fingerprint uint64, id string) bool {
	i := f.ruleIndex(rule)
	if i < 0 || f.accounts[i].lost == never || f.set.Rules[i].Fingerprint() != fingerprint {
		return false
	}
	r := f.set.Rules[i]
	limit, _ := f.limitUnder(r, id)
	return f.now < forgets(r, nil, limit, f.accounts[i].lost)
}

// moveAccounts gives each rule that keeps its counts its account; moved says which rule each old one is now, or −1.
func (f *Fold) moveAccounts(old []account, before *rules.Set, moved []int32) {
	for i := range old {
		a := &old[i]
		to := moved[i]
		if to < 0 {
			f.removed.Add(lossKey(before.Rules[i]), a.stored)
			continue
		}
		now := &f.accounts[to]
		now.lost, now.dropped, now.stored = a.lost, a.dropped, a.stored
		now.uncounted, now.recovered, now.use = a.uncounted, a.recovered, a.use
		now.enforced, now.shadowed = a.enforced, a.shadowed
		now.counted, now.blocked, now.wouldBlock = a.counted, a.blocked, a.wouldBlock
		if a.dirty {
			f.lossChanged(to)
		}
		if a.lost != never && before.Rules[i].Fingerprint() != f.set.Rules[to].Fingerprint() {
			f.lose(to, 0) // how long a loss matters depends on limits and closures, which may have been others
		}
	}
}

func lossKey(r *rules.Rule) []byte { return append([]byte{byte(LossRow)}, r.Name...) }

// lossValue is a version, the shape of the rule, and the two times.
func lossValue(r *rules.Rule, a *account) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{rowVersion}, r.Shape())
	b = binary.AppendVarint(b, a.lost)
	return binary.AppendVarint(b, a.dropped)
}

// takeLosses appends the losses that changed, for the store.
func (f *Fold) takeLosses(changes []rows.Change) []rows.Change {
	for _, i := range f.losses {
		a := &f.accounts[i]
		key, value := lossKey(f.set.Rules[i]), lossValue(f.set.Rules[i], a)
		if a.stored == 0 && len(f.removed) > 0 {
			a.stored = f.removed.Take(key)
		}
		changes = append(changes, rows.Change{Key: key, Value: value, Old: a.stored})
		a.stored, a.dirty = rows.Sum(key, value), false
	}
	f.losses = f.losses[:0]
	return changes
}

// scanLosses hands out the losses that the scan has not handed out as they are now.
func (f *Fold) scanLosses() []rows.Change {
	var list []rows.Change
	for i := range f.accounts {
		if a := &f.accounts[i]; !a.shown && (a.lost != never || a.dropped != never) {
			list = append(list, rows.Change{Key: lossKey(f.set.Rules[i]), Value: lossValue(f.set.Rules[i], a)})
			a.shown = true
		}
	}
	return list
}

// restoreLoss takes in a loss from a store, where it has the given sum, or from a snapshot, with none. Of two the later
// counts. That of a rule that is not there, or counts otherwise now, is dropped.
func (f *Fold) restoreLoss(key, value []byte, stored uint64) error {
	if len(value) < 9 || value[0] != rowVersion {
		return fmt.Errorf("%w: got a loss of %d bytes", errRow, len(value))
	}
	b := value[9:]
	lost, n := binary.Varint(b)
	dropped, m := binary.Varint(b[max(0, n):])
	if n <= 0 || m <= 0 || n+m != len(b) {
		return fmt.Errorf("%w: got a loss cut short", errRow)
	}
	i := f.ruleIndex(string(key[1:]))
	if i < 0 || f.set.Rules[i].Shape() != binary.LittleEndian.Uint64(value[1:]) {
		f.removed.Add(key, stored)
		return nil
	}
	a := &f.accounts[i]
	a.lost, a.dropped = max(a.lost, lost), max(a.dropped, dropped)
	if a.stored = stored; stored == 0 {
		f.lossChanged(i)
	}
	return nil
}
