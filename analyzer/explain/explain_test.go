package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

const second, minute, hour = int64(time.Second), int64(time.Minute), int64(time.Hour)

// noon is when the stories of tests begin.
const noon = 1_795_348_800 * second // 2026-11-22T12:00:00Z

// story is what happened to one caller before somebody asks.
type story struct {
	name   string
	rules  []string
	tell   func(s *teller)
	caller string // "key:a" if empty
	at     int64  // after noon; when somebody asks
	want   apiv1.Verdict

	unasked   bool // nobody could be asked
	partition apiv1.PartitionView
}

// teller tells a story to a fold.
type teller struct {
	t         *testing.T
	fold      *fold.Fold
	decisions []schemas.Decision
	records   int64
	frames    uint64
}

// sends sends requests of a caller of kind key at a time after noon.
func (s *teller) sends(at int64, id string, count uint32) {
	s.fold.Entry(&schemas.Entry{Time: noon + at, Kind: "key", ID: id, Count: count})
}

// control applies a record for an hour from noon on.
func (s *teller) control(c schemas.Control) {
	s.t.Helper()
	s.records++
	c.ID[0], c.Time, c.Author, c.Reason = byte(s.records), noon, "alice", "ticket \"4711\"\x1b[2J"
	if c.Until = noon + hour; c.Action == schemas.ControlReset {
		c.Until = 0
	}
	if err := s.fold.Control(&c, 17, s.records); err != nil {
		s.t.Fatal(err)
	}
}

// decides tells gates what the fold has changed.
func (s *teller) decides() {
	for _, c := range s.fold.TakeChanges() {
		if c.Warn > 0 {
			continue
		}
		s.decisions = append(s.decisions, schemas.Decision{
			Rule: c.Rule.Name, RuleVersion: c.Rule.Fingerprint(), Caller: c.Caller, Mode: c.Rule.Mode, CloseAt: c.Closure.CloseAt, Until: c.Closure.Until,
			Partition: 3, Epoch: 7, Seq: 42,
			Evidence: schemas.Evidence{
				Count: c.Count.Total, Limit: c.Limit, Window: c.Rule.Window.Length(c.At), WindowStart: c.Count.Start, AsOfOffset: 4711, AsOfTime: c.At, Lag: 8_000_000,
			},
		})
	}
}

const ten = "{name: ten, callers: key, limit: 10, window: 1m, slots: 6, overrides: {vip: unlimited, big: 20}}"

// search has a pool. A quarter of its window is 250 ms.
const search = "{name: search, callers: key, capacity: 50000, window: 1s, weights: {vip: 2.5}}"

// level folds a level that is made at a time after noon.
func (s *teller) level(at int64, l pool.Level) {
	l.Quarter = (noon+at)/(second/4) - 1
	made := fold.PoolLevel{Rule: s.fold.Rules().Pools()[0], Level: l, At: noon + at}
	s.says(made.At, made.Entry("search#1"))
}

// says folds an entry that an owner has sent.
func (s *teller) says(at int64, e schemas.Entry) {
	s.t.Helper()
	s.frames++
	if err := s.fold.Frame(fold.Record{Time: at, Value: foldtest.Encode(s.t, foldtest.Frame(s.frames, at, e))}); err != nil {
		s.t.Fatal(err)
	}
}

const (
	tokens  = "{name: tokens, callers: key, limit: 100000, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: 1000}}"
	streams = "{name: streams, callers: key, limit: 20, measure: in_flight}"
)

// streams lets a caller begin so many requests. The first of them end 5 to 14 s later, at this cost.
func (s *teller) streams(ended, begun int, cost int64) {
	for i := range begun {
		s.fold.Entry(&schemas.Entry{Time: noon + 20*second + int64(i), Kind: "key", ID: "a", Count: 1, Arrived: schemas.Tick(noon + 20*second)})
	}
	for i := range ended {
		s.fold.Entry(&schemas.Entry{
			Time: noon + 25*second + int64(i%10)*second, Kind: "key", ID: "a", Count: 1, Cost: cost, Status: 200, Response: true, Arrived: schemas.Tick(noon + 20*second),
		})
	}
}

// plans tells gates what is predicted.
func (s *teller) plans() {
	for _, p := range s.fold.TakePlans() {
		s.decisions = append(s.decisions[:0], p.Decision)
	}
}

func stories() []story {
	closed := func(s *teller) { s.sends(0, "a", 4); s.sends(15*second, "a", 6); s.decides() }
	return []story{
		{name: "closed", rules: []string{ten}, tell: closed, at: 20 * second, want: apiv1.Closed},
		{name: "closed, and gates do not know yet", rules: []string{ten}, tell: func(s *teller) { s.sends(0, "a", 10) }, at: second, want: apiv1.Closed},
		{
			name: "closed for the third time", rules: []string{"{name: ten, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 1m, escalate: {factor: 2, max: 1h, forget: 1h}}"},
			tell: func(s *teller) {
				s.sends(0, "a", 10)
				s.sends(2*minute, "a", 10)
				s.sends(8*minute, "a", 12)
				s.decides()
			}, at: 9 * minute, want: apiv1.Closed,
		},
		{
			name: "closed under two rules: the one that lasts", rules: []string{ten, "{name: hourly, callers: key, limit: 10, window: 1h, algorithm: fixed}"},
			tell: closed, at: 20 * second, want: apiv1.Closed,
		},
		{
			name: "closed ahead of time", rules: []string{"{name: ten, callers: key, limit: 1000, window: 1m, algorithm: fixed}"},
			tell: predicted, at: 2500 * second / 1000, want: apiv1.ClosedEarly,
		},
		{name: "closed by hand", rules: []string{ten}, tell: func(s *teller) {
			s.control(schemas.Control{Action: schemas.ControlClose, Caller: key("a")})
			s.decides()
		}, at: second, want: apiv1.ClosedByHand},
		{name: "closed by hand, of a kind that no rule counts", rules: []string{ten}, caller: "tenant:t", tell: func(s *teller) {
			s.control(schemas.Control{Action: schemas.ControlClose, Caller: schemas.Caller{Kind: "tenant", ID: "t"}})
		}, at: second, want: apiv1.ClosedByHand},
		{name: "closed by hand, under the brake", rules: []string{ten}, tell: func(s *teller) {
			s.control(schemas.Control{Action: schemas.ControlClose, Caller: key("a")})
			s.control(schemas.Control{Action: schemas.ControlMode})
		}, at: second, want: apiv1.ShadowOnly},
		{name: "opened by hand", rules: []string{ten}, tell: func(s *teller) {
			closed(s)
			s.control(schemas.Control{Action: schemas.ControlOpen, Caller: key("a")})
		}, at: 20 * second, want: apiv1.OpenedByHand},
		{name: "in shadow", rules: []string{"{name: ten, callers: key, limit: 10, window: 1m, slots: 6, mode: shadow}"}, tell: closed, at: 20 * second, want: apiv1.ShadowOnly},
		{name: "in shadow by the brake", rules: []string{ten}, tell: func(s *teller) {
			closed(s)
			s.control(schemas.Control{Action: schemas.ControlMode, Rule: "ten"})
		}, at: 20 * second, want: apiv1.ShadowOnly},
		{name: "unlimited", rules: []string{ten}, caller: "key:vip", tell: func(s *teller) { s.sends(0, "vip", 400) }, at: second, want: apiv1.Unlimited},
		{name: "near", rules: []string{ten}, tell: func(s *teller) { s.sends(0, "a", 8) }, at: second, want: apiv1.Near},
		{name: "near another limit", rules: []string{ten}, caller: "key:big", tell: func(s *teller) { s.sends(0, "big", 17) }, at: second, want: apiv1.Near},
		{name: "below a limit by hand", rules: []string{ten}, tell: func(s *teller) {
			s.control(schemas.Control{Action: schemas.ControlLimit, Caller: key("a"), Rule: "ten", Limit: 50})
			s.sends(0, "a", 12)
		}, at: second, want: apiv1.Below},
		{name: "below", rules: []string{ten, "{name: hourly, callers: key, limit: 10, window: 1h}"}, tell: func(s *teller) { s.sends(0, "a", 3) }, at: second, want: apiv1.Below},
		{name: "nothing has come", rules: []string{ten}, tell: func(*teller) {}, at: second, want: apiv1.Below},
		{name: "in a bucket", rules: []string{"{name: b, callers: key, limit: 60, window: 1m, algorithm: gcra, burst: 5}"}, tell: func(s *teller) { s.sends(0, "a", 3) }, at: second, want: apiv1.Below},
		{name: "of cost", rules: []string{"{name: cost, callers: key, limit: 60, window: 1m, measure: cost}"}, tell: func(s *teller) {
			s.fold.Entry(&schemas.Entry{Time: noon, Kind: "key", ID: "a", Count: 1, Cost: 50, Status: 200, Response: true})
		}, at: second, want: apiv1.Near},
		{name: "closed ahead of time, by requests in flight", rules: []string{tokens}, tell: func(s *teller) { s.streams(20, 110, 1_000); s.plans() }, at: 35 * second, want: apiv1.ClosedEarly},
		{name: "below, beside requests in flight", rules: []string{tokens}, tell: func(s *teller) { s.streams(20, 30, 1_000) }, at: 35 * second, want: apiv1.Below},
		{name: "near, by requests in flight", rules: []string{tokens}, tell: func(s *teller) { s.streams(20, 75, 1_000) }, at: 35 * second, want: apiv1.Near},
		{name: "in flight, and predictions are off", rules: []string{strings.Replace(tokens, "}}", "}, predict: off}", 1)}, tell: func(s *teller) { s.streams(0, 120, 0); s.plans() }, at: 35 * second, want: apiv1.Below},
		{name: "in flight, as the rule estimates", rules: []string{tokens}, tell: func(s *teller) { s.streams(0, 7, 0) }, at: 35 * second, want: apiv1.Below},
		{name: "below, and nothing is in flight", rules: []string{tokens}, tell: func(s *teller) { s.streams(20, 20, 1_000) }, at: 35 * second, want: apiv1.Below},
		{name: "below, and no arrivals come", rules: []string{tokens}, tell: func(s *teller) {
			s.fold.Entry(&schemas.Entry{Time: noon, Kind: "key", ID: "a", Count: 30, Cost: 50, Status: 200, Response: true, Arrived: 30 * schemas.Tick(noon)})
		}, at: 35 * second, want: apiv1.Below},
		{name: "closed in flight", rules: []string{streams}, tell: func(s *teller) { s.streams(3, 23, 0); s.decides() }, at: 35 * second, want: apiv1.Closed},
		{name: "below in flight", rules: []string{streams}, tell: func(s *teller) { s.streams(3, 10, 0) }, at: 35 * second, want: apiv1.Below},
		{name: "in flight, and nothing has come", rules: []string{streams}, tell: func(*teller) {}, at: second, want: apiv1.Below},
		{name: "in flight, and only other resources", rules: []string{"{name: streams, callers: key, limit: 20, measure: in_flight, match: {resource: /v1*}}"}, tell: func(s *teller) { s.streams(3, 10, 0) }, at: 35 * second, want: apiv1.NotMatched},
		{name: "closed by a level", rules: []string{search}, tell: func(s *teller) {
			s.level(0, pool.Level{Level: 4_800_000, Asked: 62_500, Above: 3})
			s.sends(300*second/1000, "a", 9_150)
			s.decides()
		}, at: 400 * second / 1000, want: apiv1.Closed},
		{name: "over a fair share", rules: []string{search}, caller: "key:vip", tell: func(s *teller) {
			s.level(0, pool.Level{Level: 4_800_500, Asked: 62_500, Above: 3})
			s.sends(300*second/1000, "vip", 12_100)
		}, at: 1100 * second / 1000, want: apiv1.Near},
		{name: "closed by a level that has ended", rules: []string{search}, tell: func(s *teller) {
			s.level(0, pool.Level{Level: 100_000, Asked: 62_500})
			s.sends(9900*second/1000, "a", 1_000)
			s.decides()
		}, at: 10 * second, want: apiv1.Closed},
		{name: "without a level", rules: []string{search}, tell: func(s *teller) {
			s.level(0, pool.Level{Asked: 48_000})
			s.sends(0, "a", 31_000)
		}, at: second / 10, want: apiv1.Below},
		{name: "without a level, at the home", rules: []string{search}, caller: "key:vip", tell: func(s *teller) {
			s.sends(0, "a", 31_000)
			tally := fold.PoolTally{Rule: s.fold.Rules().Pools()[0], Tally: pool.Tally{Quarter: noon / (second / 4), Total: 43_000}, At: noon + second/4}
			s.says(tally.At, tally.Entry(0))
		}, at: 400 * second / 1000, want: apiv1.Below},
		{name: "a limit by hand, under a level", rules: []string{search}, tell: func(s *teller) {
			s.control(schemas.Control{Action: schemas.ControlLimit, Caller: key("a"), Rule: "search", Limit: 10_000})
			s.level(0, pool.Level{Level: 4_800_000, Asked: 62_500, Above: 3})
			s.sends(300*second/1000, "a", 9_150)
			s.decides()
		}, at: 400 * second / 1000, want: apiv1.Closed},
		{name: "ended", rules: []string{ten}, tell: func(s *teller) { s.sends(0, "a", 10) }, at: 90 * second, want: apiv1.Ended},
		{name: "the table is full, and it waits", rules: []string{"{name: ten, callers: key, limit: 100, window: 1m}"}, tell: func(s *teller) { crowd(s); s.sends(0, "a", 7) }, at: second, want: apiv1.NotCounted},
		{name: "the table is full", rules: []string{"{name: ten, callers: key, limit: 100, window: 1m}"}, tell: func(s *teller) { crowd(s); s.sends(0, "other", 7) }, at: second, want: apiv1.NotCounted},
		{name: "only certain resources and statuses", rules: []string{"{name: login, callers: key, limit: 5, window: 1m, match: {resource: 'POST /login', status: [401, 5xx]}}"}, tell: func(s *teller) { s.sends(0, "a", 3) }, at: second, want: apiv1.NotMatched},
		{name: "the pattern leaves it out", rules: []string{"{name: free, callers: 'key:free-*', limit: 5, window: 1m}"}, tell: func(s *teller) { s.sends(0, "a", 3) }, at: second, want: apiv1.NoRule},
		{name: "no rule for the kind", rules: []string{ten}, caller: "ip:203.0.113.9", tell: func(*teller) {}, at: second, want: apiv1.NoRule},
		{
			name: "restoring", rules: []string{ten}, tell: closed, at: 20 * second, want: apiv1.Unknown, unasked: true,
			partition: apiv1.PartitionView{Partition: 3, State: "restoring", Epoch: 8, Beat: time.Unix(0, noon+19*second).UTC()},
		},
		{
			name: "the owner is silent", rules: []string{ten}, tell: func(*teller) {}, at: 20 * second, want: apiv1.Unknown, unasked: true,
			partition: apiv1.PartitionView{Partition: 3, State: "none", Epoch: 8, Beat: time.Unix(0, noon).UTC(), Stale: true},
		},
		{name: "no owner", rules: []string{ten}, tell: func(*teller) {}, at: second, want: apiv1.Unknown, unasked: true, partition: apiv1.PartitionView{Partition: 3, State: "none"}},
		{
			name: "gates do not hear", rules: []string{ten}, tell: closed, at: 20 * second, want: apiv1.Closed,
			partition: apiv1.PartitionView{Partition: 3, State: "running", Beat: time.Unix(0, noon).UTC(), Stale: true},
		},
	}
}

func key(id string) schemas.Caller { return schemas.Caller{Kind: "key", ID: id} }

// crowd fills the table with callers that send more than the one of the story.
func crowd(s *teller) {
	for _, id := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		s.sends(0, id, 40)
	}
}

// predicted lets a caller send until its close is predicted.
func predicted(s *teller) {
	for i := range int64(48) {
		s.fold.Measure(noon+i*second/20, 100_000_000)
		s.sends(i*second/20, "a", 20)
		for _, p := range s.fold.TakePlans() {
			s.decisions = append(s.decisions[:0], p.Decision)
		}
	}
}

// explained tells a story and explains its end.
func (st *story) explained(t *testing.T) apiv1.Explanation {
	t.Helper()
	s := &teller{t: t, fold: fold.New(foldtest.Rules(t, st.rules...), fold.Options{MaxRows: 8, Predict: rules.PredictEarly})}
	st.tell(s)
	if st.caller == "" {
		st.caller = "key:a"
	}
	c, err := schemas.ParseCaller(st.caller)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Caller: c, Now: noon + st.at, Decisions: s.decisions, Partition: st.partition, At: apiv1.At{Partition: 3, Epoch: 7, Offset: 4712, Control: s.records}}
	if !st.unasked {
		l := s.fold.View().Look(c, in.Now)
		s.fold.View().NoteLacks(&l)
		in.Look = &l
	}
	return Explain(&in)
}

// TestEachVerdict compares the answer of each story with the one in testdata, word by word.
func TestEachVerdict(t *testing.T) {
	seen := make(map[apiv1.Verdict]bool)
	for _, st := range stories() {
		t.Run(st.name, func(t *testing.T) {
			e := st.explained(t)
			seen[e.Verdict] = true
			if e.Verdict != st.want {
				t.Errorf("got %s (%s), want %s", e.Verdict, e.Sentence, st.want)
			}
			got, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", fileName(st.name)+".json")
			if testenv.Update() {
				if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v (%s writes it)", err, testenv.UpdateCommand(t))
			}
			if string(got)+"\n" != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s\n(%s writes it)", file, got, want, testenv.UpdateCommand(t))
			}
		})
	}
	for _, v := range verdicts() {
		if !seen[v] {
			t.Errorf("no story ends with %s", v)
		}
	}
}

// fileName makes a file's name of a story's.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ':
			return '_'
		case ',', ':':
			return -1
		}
		return r
	}, name)
}

// TestMonthsAreCalledSo: a window of the calendar is no number of days.
func TestMonthsAreCalledSo(t *testing.T) {
	set := foldtest.Rules(t, "{name: m, callers: key, limit: 10, window: month, measure: cost}", "{name: d, callers: key, limit: 10, window: 30d, algorithm: fixed}")
	f := fold.New(set, fold.Options{MaxRows: 8})
	f.Entry(&schemas.Entry{Time: noon, Kind: "key", ID: "a", Count: 10, Cost: 10, Response: true})
	look := f.View().Look(schemas.Caller{Kind: "key", ID: "a"}, noon)
	e := Explain(&Input{Caller: look.Caller, Now: noon, Look: &look})
	for i, want := range []string{"it reached 10 units of cost in one month at 2026-11-22T12:00:00Z", "requests in 30d"} {
		if got := e.Rules[i].Sentence; !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
