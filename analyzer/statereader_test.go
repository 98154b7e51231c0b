package analyzer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// stateLog is a state/0 that is written by hand.
type stateLog struct {
	t *testing.T
	*memLog
}

func newStateLog(t *testing.T) stateLog { t.Helper(); return stateLog{t, newMemLog()} }

func (l stateLog) reader() reader {
	return reader{l.memLog, OwnerConfig{Requests: "requests", Decisions: "decisions", State: "state"}.withDefaults()}
}

func (l stateLog) raw(value []byte) int64 {
	l.t.Helper()
	base, err := l.Produce(l.t.Context(), "state", 0, kafkaio.Message{Value: value})
	if err != nil {
		l.t.Fatal(err)
	}
	return base
}

func (l stateLog) add(r *pb.StateRecord) int64 {
	l.t.Helper()
	value, err := pb.AppendState(nil, r)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.raw(value)
}

func (l stateLog) begin(epoch, cycle uint64, offset int64, part, parts uint32, senders ...byte) int64 {
	l.t.Helper()
	b := &pb.StateBegin{Epoch: epoch, Cycle: cycle, Offset: offset, Part: part, Parts: parts}
	for _, s := range senders {
		b.Dedupe = append(b.Dedupe, dedupeRow(sent{senderID{id: schemas.ProducerID{s}}, sender{high: 1, below: 1}}))
	}
	return l.add(&pb.StateRecord{Record: &pb.StateRecord_Begin{Begin: b}})
}

func (l stateLog) row(epoch, cycle uint64, next int64, key string) {
	l.t.Helper()
	l.add(&pb.StateRecord{Record: &pb.StateRecord_Row{Row: &pb.StateRow{Epoch: epoch, Cycle: cycle, Next: next, Key: []byte(key), Value: []byte{1}}}})
}

func (l stateLog) end(epoch, cycle uint64, rows, from int64) {
	l.t.Helper()
	l.add(&pb.StateRecord{Record: &pb.StateRecord_End{End: &pb.StateEnd{Epoch: epoch, Cycle: cycle, Rows: rows, From: from}}})
}

// rows returns the snapshot's rows as a reader is told of them.
func (l stateLog) rows(s *snapshot) (rows []string) {
	l.t.Helper()
	if err := l.reader().eachRow(l.t.Context(), s, func(row *pb.StateRow) error {
		rows = append(rows, fmt.Sprintf("%s@%d", row.GetKey(), row.GetNext()))
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return rows
}

// TestASnapshotIsReadAmongOtherThings: what a zombie writes in between, and copies that arrive late, are passed over.
func TestASnapshotIsReadAmongOtherThings(t *testing.T) {
	l := newStateLog(t)
	l.row(5, 1, 3, "an older cycle's")
	from := l.begin(6, 1, 10, 0, 2, 1, 2)
	l.begin(5, 9, 11, 0, 1, 7) // a zombie's
	l.row(5, 9, 12, "zombie")
	l.begin(6, 1, 10, 1, 2, 3)
	l.begin(6, 1, 10, 1, 2, 3) // sent twice
	l.row(6, 1, 11, "a")
	l.row(6, 1, 14, "b")
	l.end(5, 9, 1, 0)
	l.row(6, 1, 11, "a")   // a copy that was long under way
	l.row(6, 1, 14, "b")   // and one that was not
	l.raw([]byte{0x7a, 0}) // of a kind to come
	l.row(6, 1, 20, "c")
	l.end(6, 1, 3, from)
	l.end(6, 1, 3, from)
	l.row(6, 2, 21, "the next cycle's")
	s, err := l.reader().findSnapshot(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.senders) != 3 || s.last != 20 || s.begin.GetOffset() != 10 {
		t.Errorf("got %d senders, as of %d to %d, want 3, as of 10 to 20", len(s.senders), s.begin.GetOffset(), s.last)
	}
	if got, want := l.rows(s), []string{"a@11", "b@14", "b@14", "c@20"}; !slices.Equal(got, want) {
		t.Errorf("got rows %v, want %v", got, want)
	}
}

// TestWhatIsNoSnapshot is refused, whatever is missing.
func TestWhatIsNoSnapshot(t *testing.T) {
	tests := map[string]func(l stateLog){
		"nothing":               func(stateLog) {},
		"no begin":              func(l stateLog) { l.row(6, 1, 11, "a"); l.end(6, 1, 1, 0) },
		"no end":                func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.row(6, 1, 11, "a") },
		"another's end":         func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.end(5, 1, 0, 0); l.end(6, 2, 0, 0) },
		"half a begin":          func(l stateLog) { l.begin(6, 1, 10, 0, 2); l.end(6, 1, 0, 0) },
		"a part of another":     func(l stateLog) { l.begin(6, 1, 10, 0, 2); l.begin(6, 1, 11, 1, 2); l.end(6, 1, 0, 0) },
		"a row less":            func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.row(6, 1, 11, "a"); l.end(6, 1, 2, 0) },
		"a row before its time": func(l stateLog) { l.begin(6, 1, 10, 0, 1); l.row(6, 1, 9, "a"); l.end(6, 1, 1, 0) },
		"noise in between": func(l stateLog) {
			l.begin(6, 1, 10, 0, 1)
			l.row(6, 1, 11, "a")
			l.raw([]byte("\xff\xff noise"))
			l.end(6, 1, 1, 0)
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			l := newStateLog(t)
			write(l)
			if s, err := l.reader().findSnapshot(t.Context(), 0); !errors.Is(err, errIncomplete) || s != nil {
				t.Errorf("got %+v and %v, want %v", s, err, errIncomplete)
			}
			if _, err := l.reader().findSnapshot(t.Context(), -1); !errors.Is(err, errIncomplete) {
				t.Errorf("from before the log: got %v, want %v", err, errIncomplete)
			}
		})
	}
}

// TestTheLastSnapshotIsFoundFromTheEnd, and is the newest owner's.
func TestTheLastSnapshotIsFoundFromTheEnd(t *testing.T) {
	l := newStateLog(t)
	find := func(want int64) {
		t.Helper()
		if got, err := l.reader().lastSnapshot(t.Context()); got != want || err != nil {
			t.Errorf("got %d and %v, want %d", got, err, want)
		}
	}
	find(-1)
	l.row(6, 1, 1, "x")
	find(-1)
	l.end(6, 1, 1, 17)
	find(17)
	l.end(6, 2, 1, 30)
	l.end(5, 9, 1, 40) // of a zombie
	find(30)
	for range 3 * tailStep {
		l.row(6, 3, 2, "y")
	}
	find(30)
}

func TestSendersRoundTrip(t *testing.T) {
	for _, s := range []sent{
		{senderID{id: schemas.ProducerID{1}}, sender{high: 1, below: 1, last: 5}},
		{senderID{id: schemas.ProducerID{2}}, sender{high: 1 << 63, below: ^uint64(0), last: -5}},
		{senderID{id: schemas.ProducerID{3}}, sender{high: 64, below: 1<<63 | 1}},
		{senderID{id: schemas.ProducerID{4}, source: true}, sender{high: 1<<63 - 1, below: 1}},
		{senderID{id: schemas.ProducerID{5}, source: true}, sender{below: 1}},
		{senderID{id: schemas.ProducerID{6}, source: true}, sender{}},
	} {
		if got := readSender(dedupeRow(s)); got != s {
			t.Errorf("got %+v, want %+v", got, s)
		}
	}
}

// TestHistoryOfRules: what counts is what the owner of the highest epoch knows.
func TestHistoryOfRules(t *testing.T) {
	a, b := ruleSet(t, "{name: a, callers: key, limit: 3, window: 1m}"), ruleSet(t, "{name: b, callers: key, limit: 3, window: 1m}")
	record := func(epoch uint64, from int64, id uint64, text []byte) *pb.StateRules {
		return &pb.StateRules{Epoch: epoch, From: from, RulesId: id, Text: text}
	}
	isA := func(epoch uint64, from int64) *pb.StateRules { return record(epoch, from, a.ID(), a.Text()) }
	isB := func(epoch uint64, from int64) *pb.StateRules { return record(epoch, from, b.ID(), b.Text()) }
	tests := map[string]struct {
		told []*pb.StateRules
		want string
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
			var h ruleHistory
			for _, r := range test.told {
				h.add(r)
			}
			got := ""
			for _, c := range h {
				rule := "?"
				if c.set != nil {
					rule = c.set.Rules[0].Name
				}
				got += fmt.Sprintf(" %s@%d", rule, c.from)
			}
			if got != " "+test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if left := h.after(1 << 40); len(left) != 0 {
				t.Errorf("after all of them: got %v, want none", left)
			}
		})
	}
}
