package explain

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// TestAnExplanationHoldsTogether: whatever a caller is named and has sent, the verdict is the first of those of its rules, closed is said
// if and only if a rule that is enforced has closed it, and sentences are one line of printable ASCII.
func TestAnExplanationHoldsTogether(t *testing.T) {
	set := foldtest.Rules(t,
		"{name: ten, callers: key, limit: 10, window: 1m, algorithm: fixed}", "{name: log, callers: key, limit: 5, window: 10s, algorithm: log}",
		"{name: shadow, callers: key, limit: 3, window: 1h, mode: shadow}", "{name: bucket, callers: key, limit: 60, window: 1m, algorithm: gcra, burst: 9}",
		"{name: errors, callers: key, limit: 3, window: 1m, match: {status: 5xx}}")
	rapid.Check(t, func(t *rapid.T) {
		f := fold.New(set, fold.Options{MaxRows: rapid.SampledFrom([]int{5, 100}).Draw(t, "rows")})
		ids := []string{"a", "\xff\x00", "line\nbreak", "\x1b[31mred", "b"}
		at := noon
		for range rapid.IntRange(0, 30).Draw(t, "entries") {
			at += rapid.Int64Range(0, 5*second).Draw(t, "pause")
			f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: rapid.SampledFrom(ids).Draw(t, "id"), Count: rapid.Uint32Range(1, 4).Draw(t, "count")})
		}
		c := key(rapid.SampledFrom(ids).Draw(t, "asked about"))
		l := f.View().Look(c, at+rapid.Int64Range(0, 2*minute).Draw(t, "later"))
		e := Explain(&Input{Caller: c, Now: l.Now, Look: &l})
		first, closed := apiv1.NoRule, false
		for i, r := range e.Rules {
			if order(r.Verdict) < order(first) {
				first = r.Verdict
			}
			isClosed := l.Rules[i].Closure.ClosedAt(l.Now)
			closed = closed || isClosed && r.Mode == "enforce"
			if (r.Verdict == apiv1.Closed || r.Verdict == apiv1.ShadowOnly) != isClosed || r.Count != l.Rules[i].Count.Total {
				t.Fatalf("%s: got %s, and the rule has closed it: %v", r.Rule, r.Verdict, isClosed)
			}
			if got := until(&r); isClosed && got.UnixNano() != l.Rules[i].Closure.Until {
				t.Fatalf("%s: got until %s, want %d", r.Rule, got, l.Rules[i].Closure.Until)
			}
			printed(t, r.Sentence)
		}
		printed(t, e.Sentence)
		if e.Verdict != first || (e.Verdict == apiv1.Closed) != closed || c != e.Caller.Caller() {
			t.Fatalf("got %s, want %s, closed: %v", e.Verdict, first, closed)
		}
		if closed && (e.Until.IsZero() || e.Rule == "") {
			t.Fatalf("closed, and neither by what nor until when: %+v", e)
		}
	})
}

// printed fails if a sentence is not a line that is safe in a terminal.
func printed(t *rapid.T, sentence string) {
	if sentence == "" || sentence[len(sentence)-1] != '.' {
		t.Fatalf("got %q, want a sentence", sentence)
	}
	for i := range len(sentence) {
		if sentence[i] < ' ' || sentence[i] > '~' {
			t.Fatalf("got %q, want printable ASCII", sentence)
		}
	}
}
