package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// jsonLine is a line of a JSON log at so many seconds into a day; rest is further members.
func jsonLine(at float64, client, rest string) string {
	return fmt.Sprintf(`{"time":%.3f,"client":"%s"%s}`+"\n", 1_773_446_400+at, client, rest)
}

// seconds returns the times of closes, in seconds into that day.
func seconds(closes []Close) []string {
	var out []string
	for _, c := range closes {
		day := time.Unix(1_773_446_400, 0)
		out = append(out, fmt.Sprintf("%s %s %v-%v", c.Rule, c.Caller, c.CloseAt.Sub(day), c.Until.Sub(day)))
	}
	return out
}

func TestLinesThatAreTooLateAreDropped(t *testing.T) {
	log := jsonLine(100, "192.0.2.1", "") + jsonLine(40, "192.0.2.1", "") + jsonLine(39.999, "192.0.2.1", "") + jsonLine(0, "192.0.2.1", "") +
		jsonLine(100, "192.0.2.1", "")
	c := Config{Format: jsonFormat(t), Rules: rule(t, "limit: 3, window: 1h, algorithm: fixed"), Reorder: time.Minute, Inputs: text(log)}
	got := run(t, c)
	if got.summary.Late != 2 || got.summary.Requests != 3 || got.summary.Closes != 1 {
		t.Errorf("got %+v", got.summary)
	}
	c.Reorder, c.Inputs = 0, text(log)
	if got := runAs(t, c); got.summary.Late != 3 || got.summary.Requests != 2 {
		t.Errorf("without reordering: got %+v", got.summary)
	}
}

// TestABlockedRequestIsChargedToTheClosedCallers: one route of a caller is closed; its calls to another route are not, and
// what is blocked does not count towards the caller as a whole.
func TestABlockedRequestIsChargedToTheClosedCallers(t *testing.T) {
	var log strings.Builder
	for at := range 10 {
		log.WriteString(jsonLine(float64(at), "192.0.2.1", `,"path":"/a"`))
	}
	for at := range 5 {
		log.WriteString(jsonLine(float64(10+at), "192.0.2.1", `,"path":"/b"`))
	}
	got := run(t, Config{Format: jsonFormat(t), Inputs: text(log.String()), Rules: rule(t,
		"callers: ip_route, limit: 3, window: 1m, algorithm: fixed", "limit: 5, window: 1m, algorithm: fixed")})
	// Three of /a, which closes it; then two of /b, which make five of the caller.
	want := "[r0 ip_route:192.0.2.1|/a 2s-1m0s r1 ip:192.0.2.1 11s-1m0s]"
	if fmt.Sprint(seconds(got.closes)) != want || got.summary.Blocked != 7+3 || got.summary.Requests != 15 || got.summary.Callers != 3 {
		t.Errorf("got %v, %+v, want %s", seconds(got.closes), got.summary, want)
	}
}

func TestRulesAboutResponses(t *testing.T) {
	var log strings.Builder
	for at := range 12 {
		log.WriteString(jsonLine(float64(at), "192.0.2.1", fmt.Sprintf(`,"status":%d,"bytes":100,"path":"/login"`, 200+201*(at%2))))
	}
	for body, want := range map[string]string{
		"limit: 3, window: 1m, algorithm: fixed, match: {status: [401]}":                      "[r0 ip:192.0.2.1 5s-1m0s]",
		"limit: 3, window: 1m, algorithm: fixed, match: {status: [4xx], resource: \"/log*\"}": "[r0 ip:192.0.2.1 5s-1m0s]",
		"limit: 3, window: 1m, algorithm: fixed, match: {status: [5xx]}":                      "[]",
		"limit: 3, window: 1m, algorithm: fixed, match: {resource: \"/other\"}":               "[]",
		"limit: 700, window: 1m, algorithm: fixed, measure: cost":                             "[r0 ip:192.0.2.1 6s-1m0s]",
		"limit: 4, window: 1m, algorithm: fixed, measure: responses":                          "[r0 ip:192.0.2.1 3s-1m0s]",
		"limit: 4, window: 10s, algorithm: fixed, count_blocked: true":                        "[r0 ip:192.0.2.1 3s-10s]",
		"limit: 4, window: 4s, algorithm: log, close_for: 6s":                                 "[r0 ip:192.0.2.1 3s-9s]",
		"limit: 4, window: 4s, algorithm: fixed, overrides: {\"192.0.2.0/24\": 6}":            "[]",
		"limit: 9, window: 10s, algorithm: fixed, overrides: {\"192.0.2.1\": 2}":              "[r0 ip:192.0.2.1 1s-10s r0 ip:192.0.2.1 11s-20s]",
		"limit: 1, window: day, overrides: {\"192.0.2.1\": unlimited}":                        "[]",
		"limit: 12, window: day": "[r0 ip:192.0.2.1 11s-24h0m0s]",
		"limit: 2, window: 1s, algorithm: fixed, close_for: 2s, escalate: {factor: 2, max: 1h, forget: 1h}": "[]",
	} {
		got := run(t, Config{Format: jsonFormat(t), Inputs: text(log.String()), Rules: rule(t, body)})
		if fmt.Sprint(seconds(got.closes)) != want {
			t.Errorf("%s: got %v, want %s", body, seconds(got.closes), want)
		}
	}
}

func TestShadowRulesBlockNobody(t *testing.T) {
	var log strings.Builder
	for at := range 10 {
		log.WriteString(jsonLine(float64(at), "192.0.2.1", ""))
	}
	got := run(t, Config{Format: jsonFormat(t), Inputs: text(log.String()), Rules: rule(t,
		"limit: 3, window: 1m, algorithm: fixed, mode: shadow", "limit: 6, window: 1m, algorithm: fixed")})
	s := got.summary
	if want := "[r0 ip:192.0.2.1 2s-1m0s r1 ip:192.0.2.1 5s-1m0s]"; fmt.Sprint(seconds(got.closes)) != want {
		t.Errorf("got %v, want %s", seconds(got.closes), want)
	}
	if s.Closes != 2 || s.ShadowCloses != 1 || s.Blocked != 4 || s.ShadowBlocked != 3 {
		t.Errorf("got %+v", s)
	}
	if got.closes[0].Mode != "shadow" || got.closes[1].Mode != "" {
		t.Errorf("got modes %q and %q", got.closes[0].Mode, got.closes[1].Mode)
	}
}

func TestOutputIsWhatIsDocumented(t *testing.T) {
	log := jsonLine(0.25, "::FFFF:192.0.2.1", "") + "\n{\n" + jsonLine(0.5, "192.0.2.1", "")
	got := run(t, Config{Format: jsonFormat(t), Inputs: text(log), Rules: rule(t, "limit: 2, window: 1m, algorithm: log")})
	b, err := json.Marshal(got.closes[0])
	if want := `{"type":"close","rule":"r0","caller":"ip:192.0.2.1","close_at":"2026-03-14T00:00:00.5Z","until":"2026-03-14T00:01:00.25Z","count":2,"limit":2}`; err != nil || string(b) != want {
		t.Errorf("got  %s, %v\nwant %s", b, err, want)
	}
	got.summary.Digest = "d"
	b, err = json.Marshal(got.summary)
	want := `{"type":"summary","lines":4,"rejected":2,"late":0,"requests":2,"callers":1,"closes":1,"blocked":0,"overshoot":0,` +
		`"digest":"d","rejected_by_reason":{"bad json":1,"empty":1},"rejected_lines":{"bad json":["{"]},"shadow_closes":0,"shadow_blocked":0,"reorder_cut":0,"uncounted":0}`
	if err != nil || string(b) != want {
		t.Errorf("got  %s, %v\nwant %s", b, err, want)
	}
}

func TestRunRefuses(t *testing.T) {
	set, f := rule(t, "limit: 1, window: 1m"), jsonFormat(t)
	for name, c := range map[string]Config{
		"no rules":         {Format: f, Inputs: text("")},
		"no format":        {Rules: set, Inputs: text("")},
		"no input":         {Rules: set, Format: f},
		"negative reorder": {Rules: set, Format: f, Inputs: text(""), Reorder: -1},
		"negative lag":     {Rules: set, Format: f, Inputs: text(""), Lag: -1},
		"lag, no circuit":  {Rules: set, Format: f, Inputs: text(""), Lag: 1},
		"negative buffer":  {Rules: set, Format: f, Inputs: text(""), MaxBuffer: -1},
		"negative workers": {Rules: set, Format: f, Inputs: text(""), Workers: -1},
	} {
		if _, err := Run(context.Background(), c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestAnInputThatFailsIsAnErrorBesideTheSummary(t *testing.T) {
	boom := errors.New("disk on fire")
	bad := io.MultiReader(strings.NewReader(jsonLine(1, "192.0.2.1", "")), io.MultiReader(failing{boom}))
	s, err := Run(context.Background(), Config{Format: jsonFormat(t), Rules: rule(t, "limit: 2, window: 1m"), Inputs: []Input{
		{"bad", bad}, {"good", strings.NewReader(jsonLine(2, "192.0.2.1", "") + jsonLine(3, "192.0.2.1", ""))},
	}})
	if !errors.Is(err, boom) || s.Requests != 3 || s.Closes != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestRunStops(t *testing.T) {
	endless := func() io.Reader { return &endlessLog{} }
	ctx, cancel := context.WithCancel(context.Background())
	c := Config{Format: jsonFormat(t), Rules: rule(t, "limit: 2, window: 1m, algorithm: fixed"), Inputs: []Input{{"a", endless()}, {"b", endless()}}}
	c.OnClose = func(Close) error { cancel(); return nil }
	if s, err := Run(ctx, c); !errors.Is(err, context.Canceled) || s.Lines == 0 {
		t.Errorf("canceled: got %+v, %v", s, err)
	}
	boom := errors.New("pipe closed")
	c.OnClose = func(Close) error { return boom }
	if s, err := Run(context.Background(), c); !errors.Is(err, boom) || s.Closes == 0 {
		t.Errorf("nobody listens: got %+v, %v", s, err)
	}
}

func TestRunDoesNotWaitForATerminal(t *testing.T) {
	// Nobody types, and the user presses Ctrl-C; the read cannot be interrupted.
	terminal, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(context.Background())
	lines := jsonLine(1, "192.0.2.1", "") + jsonLine(500, "192.0.2.1", "")
	c := Config{
		Format: jsonFormat(t), Rules: rule(t, "limit: 1, window: 1m"), Reorder: DefaultReorder,
		Inputs: []Input{{"file", strings.NewReader(lines)}, {"terminal", terminal}},
	}
	c.Progress = func(int64) { cancel() }
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// endlessLog is a log that never ends: random callers, times that go up with some disorder.
type endlessLog struct {
	rest  []byte
	lines int64
	left  int64 // lines; 0 is endless
}

func (e *endlessLog) Read(p []byte) (int, error) {
	for len(e.rest) < len(p) && (e.left == 0 || e.lines < e.left) {
		e.lines++
		at := 1_773_446_400_000 + e.lines*3 - e.lines*7919%90_000
		e.rest = strconv.AppendInt(append(e.rest, `{"time":`...), at, 10)
		e.rest = strconv.AppendInt(append(e.rest, `,"client":"10.0.`...), e.lines*17%251, 10)
		e.rest = strconv.AppendInt(append(e.rest, '.'), e.lines%97, 10)
		e.rest = append(e.rest, `","path":"/`+"\"}\n"...)
	}
	n := copy(p, e.rest)
	e.rest = e.rest[:copy(e.rest, e.rest[n:])]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	testenv.Long(t)
	few, many := int64(300_000), int64(3_000_000)
	if underRace {
		few, many = 100_000, 300_000
	}
	// Ever the same callers: a run of three million lines must not hold more than one of a tenth of them.
	peak := func(lines int64) uint64 {
		var bound uint64
		log := &endlessLog{left: lines}
		progress := func(int64) { // a read is about a mebibyte
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			bound = max(bound, m.HeapInuse)
		}
		s, err := Run(context.Background(), Config{
			Format: jsonFormat(t), Rules: rule(t, "limit: 50, window: 1m, algorithm: gcra"), Reorder: DefaultReorder,
			Inputs: []Input{{"log", log}}, Progress: progress,
		})
		if err != nil || s.Requests != lines || s.Late != 0 {
			t.Fatal(s, err)
		}
		return bound
	}
	short, long := peak(few), peak(many)
	t.Logf("%d lines: %d MiB, %d lines: %d MiB", few, short>>20, many, long>>20)
	if long > short+short/2+8<<20 {
		t.Errorf("%d lines: %d MiB, %d lines: %d MiB", few, short>>20, many, long>>20)
	}
}

func TestAFullBufferIsReported(t *testing.T) {
	log := strings.Join(weblog(3, 5000, 50, 10*time.Minute), "\n")
	got := run(t, Config{Rules: rule(t, "limit: 20, window: 1m"), Inputs: text(log), MaxBuffer: 3 * chunkSize})
	if got.summary.ReorderCut == 0 {
		t.Errorf("got %+v", got.summary)
	}
	if reasons := slices.Collect(maps.Keys(got.summary.RejectedByReason)); len(reasons) != 0 {
		t.Errorf("got rejects %v", reasons)
	}
}
