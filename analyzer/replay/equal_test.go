package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// Equivalent runs agree: what a log says does not depend on how it comes.

// fineLog returns lines of a JSON log with distinct times in milliseconds, in order, over about ten minutes, of a dozen
// callers of whom some ask too much.
func fineLog(r *rand.Rand, n int) []string {
	lines := make([]string, n)
	at := int64(1_773_478_800_000)
	for i := range lines {
		at += 1 + r.Int64N(max(1, 1_200_000/int64(n)))
		lines[i] = fmt.Sprintf(`{"time":%d,"client":"192.0.2.%d","path":"/%d","status":200,"bytes":%d}`,
			at, r.IntN(12)*r.IntN(2), r.IntN(4), r.IntN(5000))
	}
	return lines
}

func jsonFormat(t testing.TB) *ingest.Format {
	t.Helper()
	return format(t, "json", ingest.Mapping{
		Callers:  []ingest.CallerTemplate{{Kind: "ip", Template: "{client}"}, {Kind: "ip_route", Template: "{client}|{path}"}},
		Resource: "path", Status: "status", Cost: "bytes",
	})
}

func equalRules(t testing.TB) Config {
	t.Helper()
	return Config{Format: jsonFormat(t), Rules: rule(t,
		"limit: 20, window: 1m, slots: 6", "limit: 9, window: 10s, algorithm: gcra, burst: 3",
		"callers: ip_route, limit: 5, window: 20s, algorithm: log", "limit: 40000, window: 1m, algorithm: fixed, measure: cost")}
}

func TestTheOrderOfLinesDoesNotMatter(t *testing.T) {
	testenv.Fewer(t, 40)
	base := equalRules(t)
	logs, telling := 0, 0 // of which those in which even the rarest rules close somebody
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		lines := fineLog(r, 600)
		c := base
		c.Inputs = text(strings.Join(lines, "\n"))
		want := run(t, c).String()

		// Each line is delayed by less than the reorder span, as if that long had passed until its response ended.
		type delayed struct {
			line string
			at   int64
		}
		var moved []delayed
		for _, line := range lines {
			var at int64
			if _, err := fmt.Sscanf(line, `{"time":%d`, &at); err != nil {
				rt.Fatal(err)
			}
			moved = append(moved, delayed{line, at + r.Int64N(DefaultReorder.Milliseconds())})
		}
		slices.SortStableFunc(moved, func(a, b delayed) int { return int(a.at - b.at) })
		var out strings.Builder
		for _, d := range moved {
			out.WriteString(d.line + "\r\n")
		}
		c.Inputs, c.Workers = text(out.String()), 1+r.IntN(4)
		if got := run(t, c).String(); got != want {
			rt.Fatalf("seed %d: shuffled:\n%s\nin order:\n%s", seed, got, want)
		}
		logs++
		if strings.Contains(want, "r2 ip_route") && strings.Contains(want, "r3 ip") {
			telling++
		}
	})
	if telling <= logs/2 {
		t.Errorf("got %d of %d logs in which all rules close somebody, want most of them", telling, logs)
	}
}

func TestSplittingALogDoesNotMatter(t *testing.T) {
	log := sample()
	lines := slices.Collect(strings.Lines(log))
	rules := rule(t, "limit: 30, window: 1m", "limit: 100, window: 1h, algorithm: fixed")
	whole := run(t, Config{Rules: rules, Inputs: text(log)})
	whole.summary.RejectedLines = nil // which come first differs
	want := whole.String()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		parts := make([]strings.Builder, 2+r.IntN(9))
		for i, line := range lines {
			n := r.IntN(len(parts)) // any line anywhere: as by several servers
			if seed%2 == 0 {
				n = i * len(parts) / len(lines) // one after the other: as by rotation
			}
			parts[n].WriteString(line)
		}
		var inputs []Input
		for i := range parts {
			in := Input{Name: fmt.Sprint(i), Reader: strings.NewReader(parts[i].String())}
			if i%2 == 1 {
				half := strings.Index(parts[i].String()+"\n", "\n")
				in.Reader = bytes.NewReader(zip(t, parts[i].String()[:half], parts[i].String()[half:]))
			}
			inputs = append(inputs, in)
		}
		r.Shuffle(len(inputs), func(i, j int) { inputs[i], inputs[j] = inputs[j], inputs[i] })
		split := run(t, Config{Rules: rules, Inputs: inputs, Workers: 1 + r.IntN(4)})
		split.summary.RejectedLines = nil
		if got := split.String(); got != want {
			t.Errorf("seed %d, %d files:\n got %s\nwant %s", seed, len(inputs), got, want)
		}
	}
}

// TestAgainstTheOracle runs several rules at once over logs of all kinds.
func TestAgainstTheOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(2, 40)
		fixed, sliding, log, gcra := limit.Draw(rt, "fixed"), limit.Draw(rt, "sliding"), limit.Draw(rt, "log"), limit.Draw(rt, "gcra")
		slots, burst := rapid.Int64Range(1, 30).Draw(rt, "slots"), rapid.Int64Range(1, 40).Draw(rt, "burst")
		reorder := rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second, DefaultReorder, time.Hour}).Draw(rt, "reorder")
		lines := weblog(rapid.Uint64().Draw(rt, "seed"), 400, 12, time.Duration(rapid.IntRange(10, 2000).Draw(rt, "seconds"))*time.Second)
		logText := strings.Join(lines, "\n")
		want := oracle(logText, reorder, oracleFixed(fixed, time.Minute), oracleSliding(sliding, 90*time.Second, slots),
			oracleLog(log, 45*time.Second), oracleGCRA(gcra, time.Minute, burst))
		c := Config{Reorder: reorder, Format: format(t, "combined", ingest.Mapping{}), Inputs: text(logText), Rules: rule(t,
			fmt.Sprintf("limit: %d, window: 1m, algorithm: fixed", fixed), fmt.Sprintf("limit: %d, window: 90s, slots: %d", sliding, slots),
			fmt.Sprintf("limit: %d, window: 45s, algorithm: log", log), fmt.Sprintf("limit: %d, window: 1m, algorithm: gcra, burst: %d", gcra, burst))}
		if got := runAs(t, c).verdict(); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	})
}
