//go:build lab

package lab

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// TestABucketsLimitIsRaisedWhileItIsClosed: 13 requests fill a bucket of 10, which refills in ten hours, to 130 %. It opens when it has
// drained below its brim: after 4 hours. A bucket of 20 that is as full drains twice as fast, below a brim that is one of 20: after three
// hours and a half. Nothing more is requested, and explain, the gate and what a client is told have the new end: when a person gives
// another limit, when that is undone, and when the file does.
func TestABucketsLimitIsRaisedWhileItIsClosed(t *testing.T) {
	t.Parallel()
	const of10, of20 = 4 * time.Hour, 3*time.Hour + 30*time.Minute
	d := newDesk(t, 2, "{name: bucket, callers: key, limit: 10, window: 10h, algorithm: gcra}")
	a, g := d.analyze("counts"), d.sidecar()
	d.awaitRunning(a, 2, 2)
	from := d.send("x", 13)
	ends := func(what string, after time.Duration) {
		t.Helper()
		until := from.Add(after).UTC()
		d.explained(a, "x", what, func(e *apiv1.Explanation) bool {
			return e.Verdict == apiv1.Closed && e.Until.Equal(until) && len(e.Decisions) == 1 && e.Decisions[0].Until.Equal(until)
		})
		held := g.holds("x", what, func(h *gateview.Caller) bool {
			return h.Refused && len(h.Decisions) == 1 && !h.Decisions[0].Until.Before(until) && h.Decisions[0].Until.Sub(until) <= gate.DefaultMaxJitter
		})
		g.refuses("x", held.Decisions[0].Until)
	}
	ends("a bucket of 10", of10)
	id := d.act(a, "limit", "key:x", "bucket", "20", "--for", "24h")
	ends("a bucket of 20, by hand", of20)
	d.act(a, "undo", id)
	ends("a bucket of 10 again", of10)
	d.writeRules("{name: bucket, callers: key, limit: 20, window: 10h, algorithm: gcra}")
	ends("a bucket of 20, by the file", of20)
}

// refuses wants that a request with this key is refused, and told to come back at this time, in whole seconds.
func (g *gateOf) refuses(key string, until time.Time) {
	g.d.t.Helper()
	r, err := http.NewRequestWithContext(g.d.t.Context(), http.MethodGet, g.url+"/auth", http.NoBody)
	if err != nil {
		g.d.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	before := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.d.t.Fatal(err)
	}
	after := time.Now()
	_ = resp.Body.Close()
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || after.Add(wait).Before(until) || before.Add(wait-time.Second).After(until) {
		g.d.t.Errorf("%s: got %s and Retry-After %q, want 429 until %v", key, resp.Status, resp.Header.Get("Retry-After"), until)
	}
}

// TestALimitThatIsRaisedInAMonthKeepsCounts: a quota of a month is spent, and raised: by hand for one caller, by the file for another.
// Both are open, with what they have spent, also after kill -9 of the owner. They close at the last request of the new limit.
func TestALimitThatIsRaisedInAMonthKeepsCounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2, "{name: month, callers: key, limit: 10, window: month, timezone: UTC}")
	a, g := d.analyze("counts"), d.sidecar()
	d.awaitRunning(a, 2, 2)
	next := endOfMonth()
	if left := time.Until(next); left < time.Minute {
		time.Sleep(left) // the counts would end with the month
		next = endOfMonth()
	}
	spent := func(key string, count, limit int64) {
		t.Helper()
		full := count >= limit
		d.explained(a, key, "a month's quota", func(e *apiv1.Explanation) bool {
			if len(e.Rules) != 1 || (e.Verdict == apiv1.Closed) != full || full && !e.Until.Equal(next) {
				return false
			}
			r := &e.Rules[0]
			return r.Count == count && r.Limit.Limit == limit && r.Remaining == max(0, limit-count) && !r.LowerBound
		})
		g.closes(key, "a month's quota at the gate", slices.Repeat([]string{"month"}, min(1, int(count/limit)))...)
	}
	for _, key := range []string{"x", "y"} {
		d.send(key, 10)
		spent(key, 10, 10)
	}
	d.act(a, "limit", "key:x", "month", "15", "--for", "24h")
	spent("x", 10, 15)
	d.writeRules("{name: month, callers: key, limit: 20, window: month, timezone: UTC}")
	spent("y", 10, 20)
	spent("x", 10, 15)
	a.Kill()
	d.send("x", 4) // while nobody counts
	a = d.analyze("counts")
	spent("x", 14, 15)
	spent("y", 10, 20)
	d.send("y", 9)
	spent("y", 19, 20)
	d.send("x", 1)
	spent("x", 15, 15)
	d.send("y", 1)
	spent("y", 20, 20)
}

func endOfMonth() time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}
