package snapshot

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas/pb"
)

// RuleChange is rules that count from an offset of requests[p] on.
type RuleChange struct {
	ID   uint64     // of the rules
	From int64      // the first offset that they count
	Set  *rules.Set // nil if the text of the record is not that of the rules

	// Control is the first control record that was applied by them. Of those at From, the ones before it came before the rules.
	Control int64

	epoch uint64 // of the owner that wrote it last
}

// History is the changes of rules that state[p] holds, by offset.
type History []RuleChange

// add adds what a record says. Records of an epoch that was over, and copies, are passed over. An owner of a higher epoch
// does not know of changes that come after its own: they have never happened.
func (h *History) add(r *pb.StateRules) {
	list := *h
	if n := len(list); n > 0 {
		last := list[n-1]
		if r.GetEpoch() < last.epoch || r.GetEpoch() == last.epoch && r.GetFrom() < last.From {
			return
		}
		for n > 0 && list[n-1].From > r.GetFrom() {
			n--
		}
		list = list[:n]
		if n > 0 && list[n-1].ID == r.GetRulesId() {
			list[n-1].epoch = r.GetEpoch()
			*h = list
			return
		}
	}
	c := RuleChange{epoch: r.GetEpoch(), ID: r.GetRulesId(), From: r.GetFrom(), Control: r.GetControl()}
	if set, err := rules.Parse("rules in state", r.GetText()); err == nil && set.ID() == c.ID {
		c.Set = set
	}
	*h = append(list, c)
}

// Set returns the rules of an id, or nil if the history does not hold their text.
func (h History) Set(id uint64) *rules.Set {
	for _, c := range h {
		if c.ID == id && c.Set != nil {
			return c.Set
		}
	}
	return nil
}

// Since returns the changes that follow the one of this id and offset: all of them if it is not there.
func (h History) Since(id uint64, from int64) History {
	for i, c := range slices.Backward(h) {
		if c.ID == id && c.From == from {
			return h[i+1:]
		}
	}
	return h
}

// After returns the changes from behind an offset.
func (h History) After(offset int64) History {
	for len(h) > 0 && h[0].From <= offset {
		h = h[1:]
	}
	return h
}

// Spanning returns the rules in force at offset first and all later ones up to those of the given id and offset, or nil
// where the text of one of them is not known.
func (h History) Spanning(first int64, id uint64, from int64) History {
	for len(h) > 1 && h[1].From <= first {
		h = h[1:]
	}
	if len(h) == 0 || h[0].From > first {
		return nil
	}
	h = h[:len(h)-len(h.Since(id, from))]
	if len(h) == 0 || h[len(h)-1].ID != id || slices.ContainsFunc(h, func(c RuleChange) bool { return c.Set == nil }) {
		return nil
	}
	return h
}

// RulesRecord returns the record that says which rules count, since which offset, and since which of the control topic.
func RulesRecord(set *rules.Set, from, control int64) *pb.StateRules {
	text := set.Text()
	if len(text) > pb.MaxStateRules {
		text = nil // only a reader that has the file then knows what they were
	}
	return &pb.StateRules{RulesId: set.ID(), From: from, Text: text, Control: control}
}
