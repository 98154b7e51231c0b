package fold

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
)

// TestRowsThatStayOpenNeedNoStep: whatever the closure, the count and the time are, also before 1970: where step is left out, it would
// have changed nothing.
func TestRowsThatStayOpenNeedNoStep(t *testing.T) {
	r := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 10s, close_for: 1m, escalate: {factor: 2, max: 1h, forget: 1h}}").Rules[0]
	times := rapid.OneOf(rapid.Int64Range(-5, 5), rapid.Int64())
	left := 0
	rapid.Check(t, func(t *rapid.T) {
		row := row{closure: policy.Closure{
			CloseAt: times.Draw(t, "close"), Until: times.Draw(t, "until"), Nth: rapid.Int64Range(0, 2).Draw(t, "nth"), Peak: 10,
		}}
		if row.closure.Nth == 0 {
			row.closure = policy.Closure{}
		}
		count := window.Count{
			Total: rapid.Int64Range(0, 20).Draw(t, "total"), Until: times.Draw(t, "full until"),
			Place: rapid.SampledFrom([]window.Place{window.Newest, window.Past}).Draw(t, "place"),
		}
		at := times.Draw(t, "at")
		if !row.staysOpen(count, at) {
			return
		}
		left++
		if next, change := policy.Step(r, row.closure, nil, at, count); next != row.closure || change != policy.Same || row.closure.Nth > 0 && at < next.Until {
			t.Fatalf("got %+v, %v of %+v at %d with %+v, want nothing new: it was left out", next, change, row.closure, at, count)
		}
	})
	if left == 0 {
		t.Error("got no row that stays open: nothing was tried")
	}
	early := row{flags: hasEarly}
	if early.staysOpen(window.Count{}, 1) {
		t.Error("got that a row with early weight stays open: it may close by demand")
	}
}
