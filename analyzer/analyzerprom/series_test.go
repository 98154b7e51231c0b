package analyzerprom_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// The installation whose series are counted: that of the bound, and what each of its scrapes may have.
const (
	wideRules      = 100
	widePartitions = 16
	maxSeries      = 2_500
)

// wideSet is a hundred rules, of which each counts callers of another kind and each second one is on trial.
func wideSet(t testing.TB) *rules.Set {
	t.Helper()
	var text strings.Builder
	text.WriteString("version: 1\nrules:\n")
	for i := range wideRules {
		fmt.Fprintf(&text, "  - {name: rule-%d, callers: k%d, limit: 3, window: 1m, mode: %s}\n", i, i, []string{"enforce", "shadow"}[i%2])
	}
	set, err := rules.Parse("rules.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// wide returns an analyzer of all partitions that has counted callers, some of whom were closed, blocked, late and without a row.
func wide(t testing.TB, set *rules.Set, callers int) analyzerOf {
	t.Helper()
	owners := make(analyzerOf, widePartitions)
	for p := range owners {
		f := fold.New(set, fold.Options{NoStore: true, MaxRows: 5_000})
		e := schemas.Entry{Resource: "/", Count: 1}
		for i := p; i < callers; i += widePartitions {
			e.Time, e.Kind, e.ID = 1e18+int64(i)*1e6, fmt.Sprintf("k%d", i/widePartitions%wideRules), fmt.Sprint("caller-", i)
			e.Count, e.Blocked = uint32(1+i%5), i%7 == 0 // 1 to 5
			f.Entry(&e)
		}
		owners[p] = analyzer.OwnerStats{Partition: p, State: analyzer.Running, Fold: f.Stats(), Commits: observed(histogram.Seconds(), 0.1)}
		owners[p].Publish.Lags = observed(histogram.Seconds(), 0.01, 3)
		owners[p].Publish.ClosedBy = map[outbox.RuleMode]int{}
		for _, r := range set.Rules {
			owners[p].Publish.ClosedBy[outbox.RuleMode{Rule: r.Name, Mode: r.Mode}]++
		}
	}
	return owners
}

// worn gives an analyzer everything that gets a series only once it has happened: rules that were in both modes.
func worn(owners analyzerOf) analyzerOf {
	for i := range owners[0].Fold.Rules {
		r := &owners[0].Fold.Rules[i]
		r.Enforced, r.Shadowed = fold.Tally{Closes: 1}, fold.Tally{Closes: 1}
		owners[0].Publish.ClosedBy[outbox.RuleMode{Rule: r.Rule, Mode: schemas.ModeEnforce}]++
		owners[0].Publish.ClosedBy[outbox.RuleMode{Rule: r.Rule, Mode: schemas.ModeShadow}]++
	}
	return owners
}

// metricsOf is the /metrics of an analyzer, with all that cmd puts there.
func metricsOf(t testing.TB, a interface{ Stats() []analyzer.OwnerStats }, set *rules.Set) http.Handler {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), kafkaprom.New(), apiprom.New(server(t).Stats),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "floodgate_build_info", Help: "1."}),
		analyzerprom.New(a.Stats), analyzerprom.NewRules(status{Set: set}.RulesStatus), analyzerprom.NewDisk(t.TempDir()), analyzerprom.NewPartitionRules(beats{7}, 1),
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// server is an API that nobody has asked.
func server(t testing.TB) *api.Server {
	t.Helper()
	s, err := api.New(api.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scrape returns the series of one scrape, each with its labels.
func scrape(t testing.TB, h http.Handler) (series []string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Result().Body)
	if err != nil || answer.Code != http.StatusOK {
		t.Fatalf("got %d, %v", answer.Code, err)
	}
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "#") {
			series = append(series, line[:strings.LastIndex(line, " ")])
		}
	}
	return series
}

// TestSeriesAreBounded: an analyzer of 16 partitions and 100 rules has few series, exactly as many with ten times the callers, and
// none of them names one. FLOODGATE_LONG counts 1 and 10 million callers.
func TestSeriesAreBounded(t *testing.T) {
	callers := manyCallers()
	set := wideSet(t)
	few := scrape(t, metricsOf(t, wide(t, set, callers), set))
	many := scrape(t, metricsOf(t, wide(t, set, 10*callers), set))
	if len(few) != len(many) || strings.Join(few, "\n") != strings.Join(many, "\n") {
		t.Errorf("got %d series with %d callers and %d with ten times as many, want the same", len(few), callers, len(many))
	}
	if all := strings.Join(many, "\n"); strings.Contains(all, "caller-") {
		t.Error("got a series that names a caller")
	}
	most := scrape(t, metricsOf(t, worn(wide(t, set, callers)), set))
	t.Logf("%d series, and %d once all that can happen has happened; want %d at most", len(many), len(most), maxSeries)
	if len(many) < 1_000 || len(most) > maxSeries {
		t.Errorf("got %d series and %d, want %d at most", len(many), len(most), maxSeries)
	}
}

// BenchmarkScrape is one scrape of that analyzer, without the network.
func BenchmarkScrape(b *testing.B) {
	set := wideSet(b)
	h := metricsOf(b, worn(wide(b, set, 100_000)), set)
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
