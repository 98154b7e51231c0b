package replay

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// logOf returns a log in which each of so many clients sends one request, and the last of them four more.
func logOf(clients int) string {
	var b strings.Builder
	line := func(i int) {
		fmt.Fprintf(&b, "10.%d.%d.%d - - [02/Jan/2026:15:04:05 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", i>>16, i>>8&255, i&255)
	}
	for i := range clients {
		line(i)
	}
	for range 4 {
		line(clients - 1)
	}
	return b.String()
}

// TestMaxRowsIsWhatTheUserAllows: with room for all callers none is uncounted, and the counts are those of the default.
func TestMaxRowsIsWhatTheUserAllows(t *testing.T) {
	const clients = 3000
	log := logOf(clients)
	run := func(rows int) Summary {
		return runAs(t, Config{Rules: rule(t, "limit: 5, window: 1h"), Inputs: text(log), MaxRows: rows, Format: format(t, "combined", ingest.Mapping{})}).summary
	}
	all := run(0)
	if all.Uncounted != 0 || all.Callers != clients || all.Closes != 1 {
		t.Fatalf("default: got %+v, want all counted", all)
	}
	if got := run(clients); got.Uncounted != 0 || got.Closes != 1 || got.Digest != all.Digest {
		t.Errorf("room for all: got %+v, want what the default counts", got)
	}
	if got := run(100); got.Uncounted == 0 || got.Requests != all.Requests || got.Callers != clients {
		t.Errorf("room for 100: got %+v, want requests that are not counted, and said so", got)
	}
	if _, err := Run(context.Background(), Config{Rules: rule(t, "limit: 5, window: 1h"), Inputs: text(log), MaxRows: -1, Format: format(t, "combined", ingest.Mapping{})}); err == nil || !strings.Contains(err.Error(), "rows -1, want none below 0") {
		t.Errorf("below 0: got %v, want an error", err)
	}
}
