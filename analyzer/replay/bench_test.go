package replay

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// BenchmarkRun replays a log of 200 000 lines of 20 000 callers per round, in combined format; see the metric ns/line.
func BenchmarkRun(b *testing.B) {
	const lines = 200_000
	log := strings.Join(weblog(1, lines, 20_000, 24*time.Hour), "\n")
	set := rule(b, "limit: 100, window: 1m, algorithm: gcra", "limit: 10000, window: day")
	f := format(b, "combined", ingest.Mapping{})
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		s, err := Run(context.Background(), Config{Rules: set, Format: f, Reorder: DefaultReorder, Inputs: []Input{{"log", onlyReader{strings.NewReader(log)}}}})
		if err != nil || s.Requests != lines {
			b.Fatal(s, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
}

// onlyReader hides what else a reader can do, so that all are read alike.
type onlyReader struct{ io.Reader }
