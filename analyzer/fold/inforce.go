package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// inForce is the rules that count now, and the limits of callers under them. Both come from the file of rules and the control records in
// force.
type inForce struct {
	file    *rules.Set // as it was given; set has the same rules, but in the modes of control records
	set     *rules.Set
	kinds   []kindRules
	records *override.Records
	levels  []pool.Level // of the pools, by their Index
}

// kindRules is the rules that count one kind of caller, by index.
type kindRules struct {
	kind  string
	rules []int32
}

// use makes the rules of a file those that count.
func (s *inForce) use(file *rules.Set) {
	s.file, s.set, s.kinds = file, s.records.Shadows(file), nil
	for i, r := range file.Rules {
		k := 0
		for k < len(s.kinds) && s.kinds[k].kind != r.Kind {
			k++
		}
		if k == len(s.kinds) {
			s.kinds = append(s.kinds, kindRules{kind: r.Kind})
		}
		s.kinds[k].rules = append(s.kinds[k].rules, int32(i)) // rules.MaxRules
	}
}

// onTrial reports whether a rule is in mode shadow by its file. Such a rule counts as if it were alone, were enforced, and its decisions
// took no time: requests of a caller that it has closed add nothing. A rule that a mode record has put into shadow goes on counting what gates
// let pass. Rules about requests in flight always count that: they cannot know what would be in flight otherwise.
func (s *inForce) onTrial(rule int32) bool { return s.file.Rules[rule].Mode == schemas.ModeShadow }

// ofKind returns the indexes of the rules about callers of a kind.
func (s *inForce) ofKind(kind string) []int32 {
	for k := range s.kinds {
		if s.kinds[k].kind == kind {
			return s.kinds[k].rules
		}
	}
	return nil
}

// index returns the index of the rule with a name, or −1.
func (s *inForce) index(name string) int32 {
	for i, r := range s.set.Rules {
		if r.Name == name {
			return int32(i)
		}
	}
	return -1
}

// limitOf returns the limit of a row's caller, as LimitFor does, but control records in force come first.
func (s *inForce) limitOf(r *rules.Rule, row *row) (limit int64, unlimited bool) {
	return s.limitBy(s.recordsOf(r, row), r, row.id)
}

// limitUnder is limitOf for a caller that may have no row.
func (s *inForce) limitUnder(r *rules.Rule, id string) (limit int64, unlimited bool) {
	return s.limitBy(s.records.Of(schemas.Caller{Kind: r.Kind, ID: id}), r, id)
}

// recordsOf returns the control records in force about a row's caller.
func (s *inForce) recordsOf(r *rules.Rule, row *row) override.List {
	if row.flags&hasRecords == 0 {
		return override.List{}
	}
	return s.records.Of(schemas.Caller{Kind: r.Kind, ID: row.id})
}

// flagNew notes in a new row whether there are control records about its caller.
func (s *inForce) flagNew(r *row, kind string) {
	if s.records.AboutCallers() {
		r.flag(hasRecords, s.records.Of(schemas.Caller{Kind: kind, ID: r.id}).Len() > 0)
	}
}

// closedByRecord reports whether control records close a caller, at log time.
func (s *inForce) closedByRecord(kind, id string) bool {
	c, rule := s.records.Closure(kind, s.records.Of(schemas.Caller{Kind: kind, ID: id}), s.records.Modes())
	return c.Nth > 0 && rule.Mode == schemas.ModeEnforce
}

// LimitFor returns the limit that a caller is counted under, and whether the caller has none. A caller without a limit is counted under the
// limit of the rule, so that its counts are right when it gets a limit. A caller of a pool has none by its rule: only a level gives it one.
func LimitFor(r *rules.Rule, id string) (limit int64, unlimited bool) {
	if r.Pool != nil {
		return r.Limit, true
	}
	limit, unlimited = r.LimitFor(id)
	if unlimited {
		limit = r.Limit
	}
	return limit, unlimited
}

// levelOf returns the level of a rule's pool: none if the rule is not in force any more.
func (s *inForce) levelOf(r *rules.Rule) *pool.Level {
	if pools := s.set.Pools(); r.Pool.Index < len(pools) && pools[r.Pool.Index].Pool == r.Pool {
		return &s.levels[r.Pool.Index]
	}
	return &pool.Level{}
}

// fairShare returns the limit of a caller of a pool in pool.Units, by the records in force about it, or else by the level; math.MaxInt64 if it
// has none.
func (s *inForce) fairShare(l override.List, r *rules.Rule, id string) int64 {
	if l.Len() > 0 {
		switch given, opened := l.Limit(r.Name); {
		case opened:
			return math.MaxInt64
		case given > 0:
			return min(integer.MulDiv(given, pool.Unit, 1), math.MaxInt64-pool.Unit)
		}
	}
	return s.levelOf(r).Limit(&r.Pool.Terms, r.Pool.Weight(id))
}

// limitOfShare returns the limit that a fair share is, in requests, rounded up.
func limitOfShare(r *rules.Rule, share int64) (limit int64, unlimited bool) {
	if share == math.MaxInt64 {
		return r.Limit, true
	}
	return (share + pool.Unit - 1) / pool.Unit, false
}

// limitBy returns the limit of a caller by the records in force about it, or else by the rule.
func (s *inForce) limitBy(l override.List, r *rules.Rule, id string) (limit int64, unlimited bool) {
	if r.Pool != nil {
		return limitOfShare(r, s.fairShare(l, r, id))
	}
	limit, unlimited = LimitFor(r, id)
	if l.Len() > 0 {
		given, opened := l.Limit(r.Name)
		if given > 0 {
			limit, unlimited = given, false
		}
		unlimited = unlimited || opened
	}
	return limit, unlimited
}
