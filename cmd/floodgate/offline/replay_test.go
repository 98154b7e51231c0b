package offline

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"time"

	"github.com/509da70d/floodgate/analyzer/replay"
)

func TestReplayTableIsCapped(t *testing.T) {
	var out bytes.Buffer
	v := &replayView{out: &out}
	for i := range 1234 {
		c := replay.Close{Rule: "r", Caller: fmt.Sprintf("key:%d", i), CloseAt: time.Unix(int64(i), 5e6), Until: time.Unix(int64(i)+90, 0), Count: 9, Limit: 9}
		if err := v.close(c); err != nil {
			t.Fatal(err)
		}
	}
	v.summary(replay.Summary{
		Lines: 2_000_000, Requests: 1_999_990, Rejected: 4, Late: 6, Closes: 1234, Blocked: 500_000, Overshoot: 0.256,
		RejectedByReason: map[string]int64{"empty": 1, "bad time": 3}, ReorderCut: 7, Uncounted: 8, CallersEstimated: true,
	}, replay.Config{Reorder: time.Minute, MaxRows: 77}, time.Second)
	text := out.String()
	if n := strings.Count(text, "key:"); n != replayRows {
		t.Errorf("got %d rows, want %d", n, replayRows)
	}
	for _, want := range []string{
		"1970-01-01 00:00:00.005", "1m29.995s", "… and 1,184 more, see --output json", "2,000,000  1.0 s, 2,000,000 lines/s",
		"could not be read: bad time 3, empty 1", "more than 1m0s older", "about; 1,999,990 requests", "25.00 %", "25.6%",
		"smaller --reorder", "of callers without a row, because the table was full: closes may be missing. --max-rows 77 can be more",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}

// TestReplaySaysWhatOvershootLacks: a cost counts where its request arrived. If that window is over when the request ends, no close sees it.
func TestReplaySaysWhatOvershootLacks(t *testing.T) {
	const lacks = "it lacks costs that became known when their window was over"
	for most, want := range map[float64]bool{0: false, 0.05: false, 0.124: true} {
		var out bytes.Buffer
		v := &replayView{out: &out}
		v.totals(replay.Summary{Overshoot: 0.05, Lasting: []replay.Lasting{{Rule: "tokens", Windows: 3, OverMost: most}}}, replay.Config{}, time.Second)
		if got := strings.Contains(out.String(), lacks); got != want {
			t.Errorf("at most %v over: got %v, want %v, in:\n%s", most, got, want, out.String())
		}
	}
}

// The table keeps its shape whoever is in it: one row is one line, and its columns stand below each other, also where a
// caller's id is as long as it may be, or wide, or would move a terminal's cursor.
func TestReplayTableKeepsItsShape(t *testing.T) {
	ids := []string{"key:a", "key:" + strings.Repeat("x", 256), "key:日本語テキスト", "key:💥💥", "key:a\tb", "key:\x1b[2J", "key:e\u0301", "key:a\r\nb", "key:|---|"}
	var out bytes.Buffer
	v := &replayView{out: &out}
	for _, id := range ids {
		if err := v.close(replay.Close{Rule: "r", Caller: id, Mode: "shadow", CloseAt: time.Unix(0, 0), Until: time.Unix(60, 0), Count: 9, Limit: 9}); err != nil {
			t.Fatal(err)
		}
	}
	v.summary(replay.Summary{Closes: int64(len(ids)), Lines: 9, Requests: 9}, replay.Config{}, time.Second)
	rows, width := 0, -1
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.ContainsAny(line, "│┌├└") {
			continue
		}
		if w := text.StringWidthWithoutEscSequences(line); width >= 0 && w != width {
			t.Errorf("got a line of %d columns, want %d as above:\n%s", w, width, line)
		} else {
			width = w
		}
		if strings.Contains(line, "key:") {
			rows++
		}
		if strings.ContainsAny(line, "\x1b\t\r") {
			t.Errorf("got %q, want nothing that a terminal obeys", line)
		}
	}
	if rows != len(ids) {
		t.Errorf("got %d rows, want %d:\n%s", rows, len(ids), &out)
	}
}
