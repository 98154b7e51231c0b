package explain

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// hostile are ids that try to look like something else.
var hostile = []string{
	"a", "a is open: ", "x\x1b[2J\x1b[Hkey:a is open.", "line\nkey:a is open.", "\xff\x00", `\x1b`, `"`, "\u202eolleh", "\u2028", strings.Repeat("\xfe", 256),
	"%s%d%!", "a\r", "\x7f", "", "é",
}

// TestAnOperatorIsExplained: whatever people decide about callers that send at random, each rule's numbers agree with one another, with
// what a person has decided, and with the parts of the window, and the verdict is that of whatever closes the caller.
func TestAnOperatorIsExplained(t *testing.T) {
	set := foldtest.Rules(t,
		"{name: ten, callers: key, limit: 10, window: 1m, algorithm: fixed, overrides: {a: unlimited, 'é': 4}}", "{name: slots, callers: key, limit: 12, window: 5m, slots: 5}",
		"{name: log, callers: key, limit: 5, window: 10s, algorithm: log}", "{name: shadow, callers: key, limit: 3, window: 1h, mode: shadow}",
		"{name: bucket, callers: key, limit: 60, window: 1m, algorithm: gcra, burst: 9}", "{name: cost, callers: key, limit: 9, window: 1m, measure: cost}")
	seen := make(map[apiv1.Verdict]int)
	rapid.Check(t, func(t *rapid.T) {
		f := fold.New(set, fold.Options{MaxRows: rapid.SampledFrom([]int{8, 1000}).Draw(t, "rows"), Predict: rules.PredictEarly})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		operator := foldtest.Operator{Rnd: rng, Rules: []string{"ten", "slots", "shadow", schemas.ControlRule}}
		for _, id := range hostile {
			operator.Callers = append(operator.Callers, key(id))
		}
		at, decided := noon, int64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			at += rng.Int64N(5 * second)
			id := hostile[rng.IntN(len(hostile))]
			if rng.IntN(3) == 0 {
				c := operator.Decide(at)
				decided++
				_ = f.Control(&c, decided, decided) // what is refused changes nothing
				continue
			}
			f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: 1 + rng.Uint32N(6), Blocked: rng.IntN(8) == 0})
			if rng.IntN(3) == 0 {
				f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: 1, Cost: 1 + rng.Int64N(4), Status: 200, Response: true})
			}
		}
		for _, id := range hostile {
			l := f.View().Look(key(id), at+rng.Int64N(2*minute))
			e := Explain(&Input{Caller: l.Caller, Now: l.Now, Look: &l, At: apiv1.At{Offset: 9}})
			seen[e.Verdict]++
			checkVerdict(t, &e, &l)
			for i := range l.Rules {
				checkNumbers(t, &e.Rules[i].RuleState, &l.Rules[i], l.Now)
			}
			state := Caller(&l, apiv1.At{Offset: 9})
			if (state.ClosedBy != nil) != (l.Record.By != nil && l.Record.Closure.ClosedAt(l.Now)) || len(state.Rules) != len(l.Rules) || state.At.Offset != 9 {
				t.Fatalf("got %+v of %+v", state, l)
			}
			if _, err := json.Marshal(e); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, v := range []apiv1.Verdict{apiv1.ClosedByHand, apiv1.Closed, apiv1.OpenedByHand, apiv1.ShadowOnly, apiv1.Unlimited, apiv1.Below} {
		if seen[v] == 0 {
			t.Errorf("got %v, want %s among them", seen, v)
		}
	}
}

// checkVerdict compares the verdict of a caller with what closes it.
func checkVerdict(t *rapid.T, e *apiv1.Explanation, l *fold.Look) {
	refused := l.Record.Closure.ClosedAt(l.Now) && l.Record.Mode == schemas.ModeEnforce
	byHand := refused
	for i := range l.Rules {
		r := &l.Rules[i]
		enforced := r.Rule.Mode == schemas.ModeEnforce
		refused = refused || enforced && (r.Closure.ClosedAt(l.Now) || r.Span.Covers(l.Now))
		printed(t, e.Rules[i].Sentence)
		if order(e.Rules[i].Verdict) < order(e.Verdict) {
			t.Fatalf("got %s of the caller, and %s of rule %s, which matters more", e.Verdict, e.Rules[i].Verdict, r.Rule.Name)
		}
	}
	printed(t, e.Sentence)
	says := slices.Contains([]apiv1.Verdict{apiv1.ClosedByHand, apiv1.Closed, apiv1.ClosedEarly}, e.Verdict)
	if says != refused || byHand != (e.Verdict == apiv1.ClosedByHand) {
		t.Fatalf("got %s, and the caller is refused: %v, by hand: %v", e.Verdict, refused, byHand)
	}
	if !strings.Contains(e.Sentence, string(printable.Of(l.Caller.String()))) {
		t.Fatalf("got %q, want it about %q", e.Sentence, l.Caller)
	}
	if says != strings.Contains(e.Sentence, " is closed until "+e.Until.Format(time.RFC3339)) || says && e.Until.UnixNano() <= l.Now || strings.Contains(e.Sentence, "for -") {
		t.Fatalf("got %q of %s until %s, at %d", e.Sentence, e.Verdict, e.Until, l.Now)
	}
}

// checkNumbers compares what is said of a rule with itself.
func checkNumbers(t *rapid.T, s *apiv1.RuleState, r *fold.RuleLook, now int64) {
	var sum int64
	for i, p := range s.Parts {
		sum += p.Weight
		if p.Weight <= 0 || p.From.After(p.Until) || p.Leaves.UnixNano() <= now && !r.Rule.Window.Traits().Endless || i > 0 && p.From.Before(s.Parts[i-1].From) {
			t.Fatalf("%s: got part %d of %+v at %d", s.Rule, i, s.Parts, now)
		}
	}
	switch l := s.Limit; {
	case s.MoreParts == 0 && s.Counted && sum != s.Count:
		t.Fatalf("%s: got parts %+v of %d, want %d", s.Rule, s.Parts, sum, s.Count)
	case s.Count < 0 || s.Remaining < 0 || s.Remaining > l.Capacity || math.IsNaN(s.Share) || s.Share < 0:
		t.Fatalf("%s: got count %d, remaining %d of %d, share %v", s.Rule, s.Count, s.Remaining, l.Capacity, s.Share)
	case l.Unlimited != (l.Source == apiv1.LimitByHand && l.By.Action == "open" || l.Source == apiv1.LimitOfID && l.Override == "a"):
		t.Fatalf("%s: got %+v, want unlimited if and only if a person or an override says so", s.Rule, l)
	case l.Source == apiv1.LimitByHand && l.By.Action == "limit" && l.By.Limit != l.Limit || (l.Source == apiv1.LimitByHand) != (l.By != nil):
		t.Fatalf("%s: got limit %d, want that of %+v", s.Rule, l.Limit, l.By)
	case l.By != nil && l.By.Until.UnixNano() <= r.Count.Start && l.By.Rule != "" && l.By.Rule != s.Rule:
		t.Fatalf("%s: got %+v, which is over, or of another rule", s.Rule, l.By)
	case s.LowerBound == s.MissingTo.IsZero(), s.Counted != (s.NotCounted == ""), s.Closure != nil && s.Closure.InForce != r.Closure.ClosedAt(now):
		t.Fatalf("%s: got %+v", s.Rule, s)
	case (s.ModeBy != nil) != (s.Mode == "shadow" && s.Rule != "shadow") && s.Rule != "shadow":
		t.Fatalf("%s: got mode %s by %+v", s.Rule, s.Mode, s.ModeBy)
	}
}

// TestAReasonCannotEndItsQuotes: what a person has written is text in a sentence, whatever it says.
func TestAReasonCannotEndItsQuotes(t *testing.T) {
	for reason, want := range map[string]string{
		"ticket 4711":              `because "ticket 4711".`,
		`x". key:a is open, and "`: `because "x\". key:a is open, and \"".`,
		`x\". key:a is open`:       `because "x\\\". key:a is open".`,
		"\x1b[2J\n":                `because "\x1b[2J\n".`,
	} {
		l := fold.Look{Caller: key("a"), Now: noon, Record: fold.RecordLook{
			Closure: policy.Closure{CloseAt: noon, Until: noon + hour, Nth: 1}, Mode: schemas.ModeEnforce,
			By: &override.Record{Control: schemas.Control{Action: schemas.ControlClose, Time: noon, Until: noon + hour, Author: "mallory\x1b[2J", Reason: reason}},
		}}
		e := Explain(&Input{Caller: l.Caller, Now: noon, Look: &l})
		if e.Verdict != apiv1.ClosedByHand || !strings.HasSuffix(e.Sentence, want) || strings.Contains(e.Sentence, "\x1b") || e.Rule != schemas.ControlRule {
			t.Errorf("got %s: %s, want it to end with %s", e.Verdict, e.Sentence, want)
		}
	}
}

// TestNothingIsPrintedAsItCame: states, rules and kinds come from topics, which others can write.
func TestNothingIsPrintedAsItCame(t *testing.T) {
	const bad = "\x1b[2J\nfine."
	c := schemas.Caller{Kind: bad, ID: bad}
	held := schemas.Decision{Rule: bad, Caller: c, CloseAt: noon - 1, Until: noon + hour, Mode: schemas.ModeEnforce}
	for name, in := range map[string]*Input{
		"nobody knows": {Caller: c, Now: noon, Decisions: []schemas.Decision{held}, Partition: apiv1.PartitionView{State: bad, Beat: timeOf(noon)}},
		"no rule":      {Caller: c, Now: noon, Look: &fold.Look{Caller: c, Now: noon}},
		"stale":        {Caller: c, Now: noon, Look: &fold.Look{Caller: c, Now: noon}, Partition: apiv1.PartitionView{Stale: true, State: bad}},
	} {
		e := Explain(in)
		gate := Compare(&e, &gateview.Caller{Kind: bad, ID: bad, Mode: bad, Policy: bad, Fresh: 1, Stale: 1, Decisions: []gateview.Decision{{Rule: bad, Mode: bad, InForce: true}}}, "")
		for _, s := range append(gate.Findings, e.Sentence, gate.Sentence) {
			if strings.ContainsAny(s, "\x1b\n") {
				t.Errorf("%s: got %q, want it printable", name, s)
			}
		}
	}
}

// TestWhatGatesHoldWhileNobodyKnows: of several decisions the one that lasts longest, until the end of the span that closes now, and
// no share, and no decision in mode shadow.
func TestWhatGatesHoldWhileNobodyKnows(t *testing.T) {
	span := func(from, until int64) schemas.Span {
		return schemas.Span{CloseAt: noon + from*second, Until: noon + until*second}
	}
	decision := func(rule string, now, next schemas.Span) schemas.Decision {
		return schemas.Decision{Rule: rule, Caller: key("a"), Mode: schemas.ModeEnforce, CloseAt: now.CloseAt, Until: now.Until, Next: next}
	}
	shadow := decision("shadow", span(-5, 3600), schemas.Span{})
	shadow.Mode = schemas.ModeShadow
	share := decision("share", span(-5, -5), schemas.Span{})
	share.Share = &schemas.Share{From: noon - 1, Until: noon + hour}
	other := decision("other", span(-5, 3600), schemas.Span{})
	other.Caller = key("b")
	for name, c := range map[string]struct {
		decisions []schemas.Decision
		want      string
		shown     int
	}{
		"none":                       {nil, "gates were not told to close it.", 0},
		"over":                       {[]schemas.Decision{decision("r", span(-5, 0), schemas.Span{})}, "gates were not told to close it.", 0},
		"to come":                    {[]schemas.Decision{decision("r", span(1, 9), schemas.Span{})}, "gates were not told to close it.", 1},
		"its last moment":            {[]schemas.Decision{decision("r", schemas.Span{CloseAt: noon - 5, Until: noon + 1}, schemas.Span{})}, "by rule r until 2026-11-22T12:00:00Z", 1},
		"the first span, then a gap": {[]schemas.Decision{decision("r", span(-5, 5), span(60, 120))}, "by rule r until 2026-11-22T12:00:05Z", 1},
		"the first span, and on":     {[]schemas.Decision{decision("r", span(-5, 5), span(5, 120))}, "by rule r until 2026-11-22T12:02:00Z", 1},
		"the second span":            {[]schemas.Decision{decision("r", span(-50, -5), span(-3, 120))}, "by rule r until 2026-11-22T12:02:00Z", 1},
		"two rules":                  {[]schemas.Decision{decision("r", span(-5, 5), schemas.Span{}), decision("long", span(-5, 50), schemas.Span{})}, "by rule long until 2026-11-22T12:00:50Z", 2},
		"none that refuses it":       {[]schemas.Decision{shadow, share, other}, "gates were not told to close it.", 2},
	} {
		e := Explain(&Input{Caller: key("a"), Now: noon, Decisions: c.decisions})
		if e.Verdict != apiv1.Unknown || !strings.Contains(e.Sentence, c.want) || len(e.Decisions) != c.shown || e.At != nil {
			t.Errorf("%s: got %s: %q with %d decisions, want %q with %d", name, e.Verdict, e.Sentence, len(e.Decisions), c.want, c.shown)
		}
	}
}

// TestAGateThatDiffersIsNotSaidToAgree: what the gate holds late has ended by itself a moment ago; what was opened ahead of time is held
// for longer, and a gate that refuses nobody does not agree that somebody is closed.
func TestAGateThatDiffersIsNotSaidToAgree(t *testing.T) {
	now := timeOf(noon)
	ended := func(ago time.Duration) []apiv1.RuleExplanation {
		return []apiv1.RuleExplanation{{RuleState: apiv1.RuleState{Rule: "ten", Closure: &apiv1.Closure{Until: now.Add(-ago)}}}}
	}
	closed := []apiv1.DecisionView{{Rule: "ten", Mode: "enforce", Until: now.Add(time.Minute), InForce: true}}
	for name, c := range map[string]struct {
		rules     []apiv1.RuleExplanation
		decisions []apiv1.DecisionView
		held      gateview.Decision
		refused   bool
		agrees    bool
	}{
		"a second late":                           {ended(time.Second), nil, gateview.Decision{Rule: "ten", Until: now.Add(time.Second)}, true, true},
		"ten seconds late":                        {ended(time.Millisecond), nil, gateview.Decision{Rule: "ten", Until: now.Add(10 * time.Second)}, true, true},
		"it was opened ahead of time":             {ended(time.Second), nil, gateview.Decision{Rule: "ten", Until: now.Add(time.Hour)}, true, false},
		"it ended long ago":                       {ended(time.Minute), nil, gateview.Decision{Rule: "ten", Until: now.Add(time.Second)}, true, false},
		"another rule ended":                      {ended(time.Second), nil, gateview.Decision{Rule: "eleven", Until: now.Add(time.Second)}, true, false},
		"closed by hand, a second late":           {nil, nil, gateview.Decision{Rule: schemas.ControlRule, Until: now.Add(time.Second)}, true, true},
		"opened by hand, and not heard of":        {nil, nil, gateview.Decision{Rule: schemas.ControlRule, Until: now.Add(time.Hour)}, true, false},
		"a prediction that has just ended":        {nil, nil, gateview.Decision{Rule: "ten", Early: true, Until: now.Add(time.Second)}, true, true},
		"a prediction that nobody has made":       {nil, nil, gateview.Decision{Rule: "ten", Early: true, Until: now.Add(time.Minute)}, true, false},
		"it holds the closure, and refuses it":    {nil, closed, gateview.Decision{Rule: "ten", Until: now.Add(time.Minute)}, true, true},
		"it holds the closure, and lets it pass":  {nil, closed, gateview.Decision{Rule: "ten", Until: now.Add(time.Minute)}, false, false},
		"the closure and another, of another day": {ended(time.Second), closed, gateview.Decision{Rule: "other", Until: now.Add(time.Hour)}, true, false},
	} {
		c.held.Mode, c.held.InForce = "enforce", true
		g := gateview.Caller{Kind: "key", ID: "a", Mode: "enforce", Fresh: 1, Refused: c.refused, Decisions: []gateview.Decision{c.held}}
		got := Compare(&apiv1.Explanation{Now: now, Rules: c.rules, Decisions: c.decisions}, &g, "")
		if got.Agrees != c.agrees || c.agrees && len(c.decisions) > 0 != strings.Contains(got.Sentence, "agree: key:a is closed") {
			t.Errorf("%s: got %v: %s %q, want %v", name, got.Agrees, got.Sentence, got.Findings, c.agrees)
		}
	}
}

// TestTimesThatAreNoneAreLeftOut, and those at the edges of what a number can say do not wrap.
func TestTimesThatAreNoneAreLeftOut(t *testing.T) {
	for _, ns := range []int64{math.MinInt64, math.MaxInt64} {
		if got := timeOf(ns); !got.IsZero() {
			t.Errorf("%d: got %s, want none", ns, got)
		}
	}
	for _, ns := range []int64{math.MinInt64 + 1, -1, 0, noon, math.MaxInt64 - 1} {
		if got := timeOf(ns); got.UnixNano() != ns || got.Location() != time.UTC {
			t.Errorf("got %s, want %d", got, ns)
		}
	}
	for d, want := range map[int64]string{0: "0s", 1: "0s", 4_999_999: "0s", 5_000_000: "10ms", second: "1s", 10*second + 499_999_999: "10s", 90 * minute: "1h30m"} {
		if got := span(d); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
	view := Decision(&schemas.Decision{CloseAt: math.MinInt64, Until: math.MaxInt64, Evidence: schemas.Evidence{AsOfTime: math.MinInt64}}, noon)
	if text, err := json.Marshal(view); err != nil || !view.InForce || strings.Contains(string(text), "next_at") {
		t.Errorf("got %s and %v", text, err)
	}
	for _, count := range []int64{0, 1, math.MaxInt64} {
		for _, capacity := range []int64{math.MinInt64, 0, 1, math.MaxInt64} {
			if got := share(count, capacity); math.IsNaN(got) || math.IsInf(got, 0) || got < 0 {
				t.Errorf("%d of %d: got %v", count, capacity, got)
			}
		}
	}
}

// TestARecordThatIsOverIsSaidSo: log time stands still while nothing comes, and what a person has done ends by it.
func TestARecordThatIsOverIsSaidSo(t *testing.T) {
	s := &teller{t: t, fold: fold.New(foldtest.Rules(t, ten), fold.Options{})}
	s.sends(0, "a", 10)
	s.control(schemas.Control{Action: schemas.ControlOpen, Caller: key("a")})
	for at, want := range map[int64]string{
		hour - 1: "for 0s more: alice opened it", hour: "(which is over: the next request that is counted ends it): alice opened it", 2 * hour: "which is over",
	} {
		l := s.fold.View().Look(key("a"), noon+at)
		if e := Explain(&Input{Caller: key("a"), Now: l.Now, Look: &l}); e.Verdict != apiv1.OpenedByHand || !strings.Contains(e.Sentence, want) {
			t.Errorf("after %d: got %s: %s, want %q", at, e.Verdict, e.Sentence, want)
		}
	}
	s.sends(hour, "b", 1)
	l := s.fold.View().Look(key("a"), noon+hour)
	if e := Explain(&Input{Caller: key("a"), Now: l.Now, Look: &l}); e.Verdict == apiv1.OpenedByHand {
		t.Errorf("after another request: got %s", e.Sentence)
	}
}

// TestTheOneThatLastsIsNamed, whatever the order of the rules: of two that close, and of two that are near.
func TestTheOneThatLastsIsNamed(t *testing.T) {
	lines := []string{"{name: short, callers: key, limit: 10, window: 1m, algorithm: fixed}", "{name: long, callers: key, limit: 10, window: 1h, algorithm: fixed}"}
	for _, sent := range []uint32{8, 10, 30} {
		for range 2 {
			slices.Reverse(lines)
			s := &teller{t: t, fold: fold.New(foldtest.Rules(t, append(lines, fmt.Sprintf("{name: tight, callers: key, limit: %d, window: 1h}", sent+1))...), fold.Options{})}
			s.sends(0, "a", sent)
			l := s.fold.View().Look(key("a"), noon+second)
			e := Explain(&Input{Caller: key("a"), Now: l.Now, Look: &l})
			want := "long"
			if sent < 10 {
				want = "tight" // the nearest
			}
			if e.Rule != want || !strings.Contains(e.Sentence, "rule "+want) {
				t.Errorf("%d sent: got %s: %s, want rule %s", sent, e.Rule, e.Sentence, want)
			}
		}
	}
}
