package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// request is one generated request; its line is written when the response ends.
type request struct {
	at, end time.Time
	text    string
}

// weblog generates a day in the life of a web server: that many lines, in the order of the responses' ends, of that many
// callers (a few crawlers ask a lot, most ask little), and one caller who goes wild twice. It depends on the seed alone.
func weblog(seed uint64, lines, callers int, length time.Duration) []string {
	r := rand.New(rand.NewPCG(seed, 0))
	start := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	paths := []string{"/", "/index.html", "/docs/", "/docs/install?os=linux", "/api/v1/search?q=gate", "/api/v1/items/17", "/favicon.ico", "/img/logo.png"}
	agents := []string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Gecko/20100101 Firefox/136.0",
		"Mozilla/5.0 (compatible; ExampleBot/2.1; +http://bot.example/about)", "curl/8.12.1", "-", `say \"hello\"`,
	}
	requests := make([]request, 0, lines)
	add := func(caller string, at time.Time) {
		status := []int{200, 200, 200, 200, 304, 404, 401, 500}[r.IntN(8)]
		end := at.Add(time.Duration(r.ExpFloat64() * float64(2*time.Second)))
		if r.IntN(40) == 0 {
			end = at.Add(time.Duration(r.IntN(60)) * time.Second)
		}
		requests = append(requests, request{at, end, fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d %d "%s" "%s"`,
			caller, at.Format("02/Jan/2006:15:04:05 -0700"), paths[r.IntN(len(paths))], status, r.IntN(40_000),
			[]string{"-", "https://www.example.com/"}[r.IntN(2)], agents[r.IntN(len(agents))])})
	}
	const noisy = "203.0.113.99"
	for i := range lines {
		at := start.Add(time.Duration(r.Int64N(int64(length))).Truncate(time.Second))
		switch {
		case i < callers-1:
			add(caller(i), at)
		case i%5 == 0: // half a minute each, a third and two thirds into the log
			burst := start.Add(length / 3 * time.Duration(1+i/5%2))
			add(noisy, burst.Add(time.Duration(r.IntN(30))*time.Second))
		default:
			add(caller(int(float64(callers-1)*r.Float64()*r.Float64()*r.Float64())), at)
		}
	}
	slices.SortStableFunc(requests, func(a, b request) int { return a.end.Compare(b.end) })
	texts := make([]string, len(requests))
	for i, q := range requests {
		texts[i] = q.text
	}
	return texts
}

// caller returns the i-th address: every twelfth is IPv6.
func caller(i int) string {
	if i%12 == 5 {
		return fmt.Sprintf("2001:db8:0:%x::%x", i/12, i)
	}
	return fmt.Sprintf("198.51.100.%d", i%250+1)
}

// damage spoils a few lines, the way real logs are spoiled.
func damage(lines []string) {
	cut := func(i int, upTo string) { lines[i] = lines[i][:strings.Index(lines[i], upTo)] }
	cut(211, `" "`)                                                                     // the disk was full: counts
	cut(499, " HTTP/1.1")                                                               // counts
	cut(733, ":00 ")                                                                    // not even the time is whole
	lines[911] = ""                                                                     //
	lines[1203] = strings.Replace(lines[1203], "2026:", "2026 ", 1)                     // somebody else's format
	lines[1300] = "crawler.example.net" + lines[1300][strings.Index(lines[1300], " "):] // HostnameLookups On
	lines[1499] = `{"level":"warn","msg":"upstream timed out"}`
	lines[1600] = strings.Repeat("\x00", 40) // the machine crashed
	lines[1777] = "::ffff:198.51.100.7" + lines[1777][strings.Index(lines[1777], " "):]
}

// sample is what stands in testdata/logs/access.log.
func sample() string {
	lines := weblog(1, 2000, 127, 3*time.Hour)
	for i := 700; !strings.Contains(lines[733], ":00 "); i++ { // a line at a full minute for damage to cut
		lines[733], lines[i] = lines[i], lines[733]
	}
	damage(lines)
	return strings.Join(lines, "\n") + "\n"
}

// sampleFacts is what stands in testdata/logs/access_facts.json: each rule alone, limits per caller of kind ip.
type sampleFacts struct {
	Comment string             `json:"comment"`
	Rules   map[string]verdict `json:"rules"`
}

// sampleRules are the rules of the facts, as YAML and as the oracle has them.
func sampleRules() map[string]oracleRule {
	return map[string]oracleRule{
		"limit: 30, window: 1m, algorithm: fixed":              oracleFixed(30, time.Minute),
		"limit: 30, window: 1m, algorithm: sliding, slots: 20": oracleSliding(30, time.Minute, 20),
		"limit: 30, window: 1m, algorithm: log":                oracleLog(30, time.Minute),
		"limit: 30, window: 1m, algorithm: gcra, burst: 30":    oracleGCRA(30, time.Minute, 30),
		"limit: 100, window: 1h, algorithm: fixed":             oracleFixed(100, time.Hour),
	}
}

func TestSampleLog(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "logs")
	logFile, factsFile := filepath.Join(dir, "access.log"), filepath.Join(dir, "access_facts.json")
	want := sampleFacts{
		Comment: "What replay must say about access.log under each rule alone, callers: ip. Computed by the slow oracle in analyzer/replay.",
		Rules:   map[string]verdict{},
	}
	for body, r := range sampleRules() {
		want.Rules[body] = oracle(sample(), DefaultReorder, r)
	}
	facts, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if testenv.Update() {
		writeFile(t, logFile, sample())
		writeFile(t, factsFile, string(facts)+"\n")
	}
	log := readFile(t, logFile)
	if log != sample() {
		t.Errorf("%s is not what is generated: %s writes it", logFile, testenv.UpdateCommand(t))
	}
	if readFile(t, factsFile) != string(facts)+"\n" {
		t.Errorf("%s is not what the oracle says: %s writes it", factsFile, testenv.UpdateCommand(t))
	}
	for body, v := range want.Rules {
		got := run(t, Config{Rules: rule(t, body), Inputs: text(log)}).verdict()
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%s:\n got %+v\nwant %+v", body, got, v)
		}
		if len(v.Closes) == 0 || v.Blocked == 0 {
			t.Errorf("%s: closes %d, blocked %d: says nothing", body, len(v.Closes), v.Blocked)
		}
		if v.Callers != 127 || v.Lines != 2000 || v.Late != 0 || len(v.Rejected) != 3 {
			t.Errorf("the sample is not what it should be: %+v", v)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
