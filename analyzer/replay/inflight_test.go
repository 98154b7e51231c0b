package replay

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// timed is the mapping of logs whose lines say in s how long a request took. Their time is that of the start or the end.
func timed(t testing.TB, at ingest.TimeAt) ingest.Mapping {
	t.Helper()
	return ingest.Mapping{
		Callers: []ingest.CallerTemplate{{Kind: "ip", Template: "{client}"}}, Resource: "path", Status: "status", Cost: "bytes", Declared: "declared",
		TimeAt: at, Duration: "s", Unit: time.Second,
	}
}

// entriesOf replays a log, and returns what was folded.
func entriesOf(t testing.TB, c Config) (entries []string, s Summary) {
	t.Helper()
	last := int64(0)
	c.OnEntry = func(e *schemas.Entry) {
		if e.Time < last {
			t.Errorf("got an entry at %d after one at %d", e.Time, last)
		}
		last = e.Time
		entries = append(entries, entryText(e))
	}
	s, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return entries, s
}

func entryText(e *schemas.Entry) string {
	text := fmt.Sprintf("%v %s", time.Duration(e.Time-1_773_446_400e9), e.Resource)
	if e.Response {
		text += fmt.Sprintf(" ends %d", e.Cost)
	}
	if e.Blocked {
		text += " blocked"
	}
	if e.Arrived > 0 {
		text += fmt.Sprint(" arrived ", time.Duration(e.Arrived*schemas.MergeTick-1_773_446_400e9))
	}
	if e.Declared > 0 {
		text += fmt.Sprint(" declared ", e.Declared)
	}
	return text
}

// TestALineThatHasADurationIsTwoEntries: the arrival counts before the arrivals of later requests, and the response after them, although
// the log has the lines in the order of their ends. A request that a gate refuses ends at once.
func TestALineThatHasADurationIsTwoEntries(t *testing.T) {
	line := func(end float64, path, rest string) string {
		return jsonLine(end, "192.0.2.1", fmt.Sprintf(`,"path":"/%s"%s`, path, rest))
	}
	log := line(4, "quick", `,"s":1,"bytes":5,"declared":10`) + line(9, "a429", `,"s":0.5,"bytes":1,"status":429`) + line(14, "slow", `,"s":14,"bytes":700`) +
		line(14, "next", `,"s":0,"bytes":7`) + line(16, "refused", `,"s":1,"bytes":3`) + line(16.5, "no_duration", `,"bytes":2`)
	got, s := entriesOf(t, Config{
		Format: format(t, "json", timed(t, ingest.TimeAtEnd)), Rules: rule(t, "limit: 4, window: 1h, algorithm: fixed", "limit: 700, window: 1h, algorithm: fixed, measure: cost"),
		Inputs: text(log), Reorder: DefaultReorder,
	})
	want := []string{
		"0s /slow arrived 0s", "3s /quick arrived 3s declared 10", "4s /quick ends 5 arrived 3s declared 10",
		"8.5s /a429 blocked", "9s /a429 ends 1 blocked",
		"14s /slow ends 700 arrived 0s",                 // it closes the caller, before the next request comes
		"14s /next blocked", "14s /next ends 7 blocked", // at once
		"15s /refused blocked", "15s /refused ends 3 blocked", // at once, and not at 16 s
		"16.5s /no_duration blocked", "16.5s /no_duration ends 2 blocked",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.Requests != 6 || s.Closes != 1 || s.Blocked != 4 || s.ReorderCut != 0 {
		t.Errorf("got %+v, want one close, and four blocked of six requests", s)
	}
}

// TestTwoLinesOfARequestAreOneRequest: a log that has arrivals, too, is replayed as one that has only ends.
func TestTwoLinesOfARequestAreOneRequest(t *testing.T) {
	end := jsonLine(2, "192.0.2.1", `,"path":"/a","s":9,"bytes":5,"part":"last"`)
	log := jsonLine(2, "192.0.2.1", `,"path":"/a","part":"first"`) + end + jsonLine(3, "192.0.2.1", `,"path":"/never_ends","part":"first"`)
	m := timed(t, ingest.TimeAtStart)
	c := Config{Format: format(t, "json", m), Rules: rule(t, "limit: 3, window: 1h", "limit: 9, window: 1h, measure: cost"), Inputs: text(end)}
	want, alone := entriesOf(t, c)
	m.Arrivals = []ingest.FieldFilter{{Field: "part", Patterns: []pattern.Glob{pattern.NewGlob("first")}}}
	c.Format, c.Inputs = format(t, "json", m), text(log)
	got, both := entriesOf(t, c)
	if !slices.Equal(got, want) || len(want) != 2 || both.Digest != alone.Digest || both.Requests != 1 || both.Dropped != 2 || both.Lines != 3 {
		t.Errorf("got %q and %+v, want %q and %+v", got, both, want, alone)
	}
	m.Arrivals, m.NoArrivals = nil, true
	c.Format, c.Inputs = format(t, "json", m), text(end)
	if got, s := entriesOf(t, c); !slices.Equal(got, want) || s.Digest != alone.Digest {
		t.Errorf("a log of responses only: got %q, want %q", got, want)
	}
}

// lastingLog returns lines in the order of their ends, and what they become if no caller is ever closed.
func lastingLog(r *rand.Rand, n int) (log string, entries []string) {
	type request struct{ at, end int64 } // ms
	var all []request
	for range n {
		at := r.Int64N(600_000)
		took := int64(r.ExpFloat64() * 10_000)
		if r.IntN(10) == 0 {
			took = 0
		}
		all = append(all, request{at, at + min(took, 100_000)})
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.end, b.end) })
	var text strings.Builder
	for i, q := range all {
		text.WriteString(jsonLine(float64(q.end)/1000, "192.0.2.1", fmt.Sprintf(`,"path":"/%d","s":%.3f,"bytes":%d`, i, float64(q.end-q.at)/1000, i)))
		arrival := schemas.Entry{Time: (1_773_446_400_000 + q.at) * 1e6, Resource: fmt.Sprint("/", i)}
		arrival.Arrived = schemas.Tick(arrival.Time)
		response := arrival
		response.Time, response.Response, response.Cost = (1_773_446_400_000+q.end)*1e6, true, int64(i)
		entries = append(entries, entryText(&arrival), entryText(&response))
	}
	slices.Sort(entries)
	return text.String(), entries
}

// TestEntriesComeInOrderOfTime, of random logs: each line has its two entries. With little memory some responses count early, but each counts.
func TestEntriesComeInOrderOfTime(t *testing.T) {
	for seed := range uint64(20) {
		log, want := lastingLog(rand.New(rand.NewPCG(seed, 5)), 500)
		c := Config{
			Format: format(t, "json", timed(t, ingest.TimeAtEnd)), Rules: rule(t, "limit: 100000, window: 1h", "limit: 1000000, window: 1h, measure: cost"),
			Inputs: text(log), Reorder: DefaultReorder,
		}
		got, s := entriesOf(t, c)
		if slices.Sort(got); !slices.Equal(got, want) || s.Requests != 500 || s.ReorderCut != 0 {
			t.Fatalf("seed %d: got %d entries, and %+v, want %d", seed, len(got), s, len(want))
		}
		in := newInFlight(3 * responseBytes)
		for i := range int64(500) {
			in.add(&schemas.Entry{Time: 1000 - i, ID: "a"})
			for _, ok := in.next(i); ok; _, ok = in.next(i) {
			}
			if in.bytes > in.limit {
				t.Fatalf("got %d bytes, want at most %d", in.bytes, in.limit)
			}
		}
		if in.early < 490 {
			t.Errorf("got %d early, want nearly all", in.early)
		}
	}
}

// TestRequestsThatEndAtOnceEndInTheOrderOfTheirArrivals.
func TestRequestsThatEndAtOnceEndInTheOrderOfTheirArrivals(t *testing.T) {
	in, got := newInFlight(DefaultMaxBuffer), ""
	for _, id := range []string{"c", "a", "d", "b"} {
		in.add(&schemas.Entry{Time: 7, ID: id})
	}
	for e, ok := in.next(7); ok; e, ok = in.next(7) {
		got += e.ID
	}
	if got != "cadb" {
		t.Errorf("got %s, want cadb", got)
	}
}

// TestAFullBufferOfResponsesIsReported: what was counted early is in the summary.
func TestAFullBufferOfResponsesIsReported(t *testing.T) {
	log, _ := lastingLog(rand.New(rand.NewPCG(1, 1)), 3000)
	got := run(t, Config{
		Format: format(t, "json", timed(t, ingest.TimeAtEnd)), Rules: rule(t, "limit: 10000000, window: 1h, measure: cost"),
		Inputs: text(log), Reorder: 0, MaxBuffer: 2 * chunkSize,
	})
	if got.summary.ReorderCut == 0 || got.summary.Requests+got.summary.Late != 3000 {
		t.Errorf("got %+v, want that some were counted early", got.summary)
	}
}

// TestARequestIsAsLateAsItsArrival: a request that lasted longer than lines may be out of order is late, and the summary says so.
func TestARequestIsAsLateAsItsArrival(t *testing.T) {
	log := jsonLine(100, "192.0.2.1", `,"s":1`) + jsonLine(100, "192.0.2.1", `,"s":62`)
	c := Config{Format: format(t, "json", timed(t, ingest.TimeAtEnd)), Rules: rule(t, "limit: 3, window: 1h"), Reorder: time.Minute, Inputs: text(log)}
	if got := runAs(t, c); got.summary.Late != 1 || got.summary.Requests != 1 {
		t.Errorf("got %+v, want one late", got.summary)
	}
	c.Reorder, c.Inputs = 61*time.Second, text(log)
	if got := runAs(t, c); got.summary.Late != 0 || got.summary.Requests != 2 {
		t.Errorf("got %+v, want none late", got.summary)
	}
}
