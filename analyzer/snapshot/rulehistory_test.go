package snapshot

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas/pb"
)

// TestHistoryOfRules: what counts is what the owner of the highest epoch knows.
func TestHistoryOfRules(t *testing.T) {
	a, b := foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m}"), foldtest.Rules(t, "{name: b, callers: key, limit: 3, window: 1m}")
	record := func(epoch uint64, from int64, id uint64, text []byte) *pb.StateRules {
		return &pb.StateRules{Epoch: epoch, From: from, RulesId: id, Text: text}
	}
	isA := func(epoch uint64, from int64) *pb.StateRules { return record(epoch, from, a.ID(), a.Text()) }
	isB := func(epoch uint64, from int64) *pb.StateRules { return record(epoch, from, b.ID(), b.Text()) }
	tests := map[string]struct {
		states []*pb.StateRules
		want   string
	}{
		"one":                              {[]*pb.StateRules{isA(1, 0)}, "a@0"},
		"said again each cycle":            {[]*pb.StateRules{isA(1, 0), isA(1, 0), isA(2, 0)}, "a@0"},
		"changed":                          {[]*pb.StateRules{isA(1, 0), isB(1, 50), isB(1, 50), isB(2, 50)}, "a@0 b@50"},
		"changed and back":                 {[]*pb.StateRules{isA(1, 0), isB(1, 50), isA(1, 60)}, "a@0 b@50 a@60"},
		"a copy comes late":                {[]*pb.StateRules{isA(1, 0), isB(1, 50), isA(1, 0)}, "a@0 b@50"},
		"a zombie's, late":                 {[]*pb.StateRules{isA(1, 0), isA(2, 0), isB(1, 70)}, "a@0"},
		"a zombie's, before the new owner": {[]*pb.StateRules{isA(1, 0), isB(1, 70), isA(2, 0)}, "a@0"},
		"a new owner with other rules":     {[]*pb.StateRules{isA(1, 0), isB(2, 40)}, "a@0 b@40"},
		"two changes at one offset":        {[]*pb.StateRules{isA(1, 0), isB(1, 40), isA(1, 40)}, "a@0 b@40 a@40"},
		"and said again":                   {[]*pb.StateRules{isA(1, 0), isB(1, 40), isA(1, 40), isA(1, 40), isA(2, 40)}, "a@0 b@40 a@40"},
		"without text":                     {[]*pb.StateRules{isA(1, 0), record(1, 9, b.ID(), nil)}, "a@0 ?@9"},
		"with a text that is not theirs":   {[]*pb.StateRules{record(1, 9, b.ID(), a.Text())}, "?@9"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var h History
			for _, r := range test.states {
				h.add(r)
			}
			got := ""
			for _, c := range h {
				rule := "?"
				if c.Set != nil {
					rule = c.Set.Rules[0].Name
				}
				got += fmt.Sprintf(" %s@%d", rule, c.From)
			}
			if got != " "+test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if left := h.After(1 << 40); len(left) != 0 {
				t.Errorf("after all of them: got %v, want none", left)
			}
		})
	}
}
func TestHistoriesThatDoNotSpanTheLog(t *testing.T) {
	set := foldtest.Rules(t, "{name: r, callers: key, limit: 3, window: 1m}")
	h := History{{ID: 1, From: 0, Set: set}, {ID: 2, From: 10, Set: set}, {ID: 3, From: 20, Set: set}, {ID: 4, From: 30, Set: set}}
	unknown := slices.Clone(h)
	unknown[2].Set = nil
	for name, c := range map[string]struct {
		h     History
		first int64
		id    uint64
		from  int64
		want  []uint64
	}{
		"from the start":          {h, 0, 3, 20, []uint64{1, 2, 3}},
		"from between":            {h, 15, 4, 30, []uint64{2, 3, 4}},
		"from a change":           {h, 10, 3, 20, []uint64{2, 3}},
		"begins later":            {h[1:], 5, 3, 20, nil},
		"says nothing":            {nil, 0, 1, 0, nil},
		"a text that is lost":     {unknown, 0, 4, 30, nil},
		"lost, but after":         {unknown, 0, 2, 10, []uint64{1, 2}},
		"another store's":         {h, 0, 9, 20, nil},
		"a change that never was": {h, 0, 3, 21, nil},
	} {
		var got []uint64
		for _, change := range c.h.Spanning(c.first, c.id, c.from) {
			got = append(got, change.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestChangesSinceAnUnknownOneAreAll: a store whose own change of rules is no longer in the topic is followed by every change
// that is, rather than by none.
func TestChangesSinceAnUnknownOneAreAll(t *testing.T) {
	h := History{{ID: 1, From: 0}, {ID: 2, From: 10}, {ID: 1, From: 10}, {ID: 1, From: 30}}
	for name, c := range map[string]struct {
		id   uint64
		from int64
		want int
	}{
		"the first":               {1, 0, 3},
		"the first of two at ten": {2, 10, 2},
		"the last of two at ten":  {1, 10, 1},
		"the last":                {1, 30, 0},
		"another offset":          {1, 31, 4},
		"another id":              {9, 10, 4},
	} {
		if got := h.Since(c.id, c.from); len(got) != c.want {
			t.Errorf("%s: got %v, want the last %d", name, got, c.want)
		}
	}
}

// TestRulesThatAreTooLongForARecordAreNamed: the record says which rules count, and a reader that has their file knows them.
func TestRulesThatAreTooLongForARecordAreNamed(t *testing.T) {
	short := foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m}")
	long := foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m} # "+strings.Repeat("x", pb.MaxStateRules))
	var h History
	h.add(RulesRecord(short, 5, 0))
	h.add(RulesRecord(long, 7, 0))
	if got := h.Set(short.ID()); got == nil || !bytes.Equal(got.Text(), short.Text()) || h[0].From != 5 {
		t.Errorf("short rules: got %+v, want them from 5 on", h)
	}
	if r := RulesRecord(long, 7, 0); r.GetRulesId() != long.ID() || r.GetFrom() != 7 || len(r.GetText()) != 0 {
		t.Errorf("long rules: got id %016x from %d with %d bytes, want %016x from 7 without text", r.GetRulesId(), r.GetFrom(), len(r.GetText()), long.ID())
	}
	if got := h.Set(long.ID()); short.ID() != long.ID() && got != nil {
		t.Errorf("long rules: got %v, want nil: nobody knows them", got)
	}
}
