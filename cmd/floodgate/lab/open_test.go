//go:build lab

package lab

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// How much TestOpenReachesAGate measures. The figures come from
//
//	FLOODGATE_KAFKA=$(deploy/kafka/kafka.sh start) go test -tags lab ./cmd/floodgate/lab -run TestOpenReachesAGate -v -count 1 -open.callers 500 -open.rate 4000
var (
	openCallers = flag.Int("open.callers", 20, "callers that reach their limit, and are then opened, in TestOpenReachesAGate")
	openRate    = flag.Int("open.rate", 1000, "requests a second of others meanwhile")
)

// TestOpenReachesAGate measures from the moment at which a person sends open until a gate lets the caller through. Analyzer, broker and
// gate are processes of their own, and the person has a token. Each caller was closed by a rule; nobody else is opened.
func TestOpenReachesAGate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	r := newRig(t, measureRules, 4)
	person := r.analyzeForAPerson()
	defer r.others(time.Minute)()
	g := r.gateOfNoisy()
	g.close(t, *openCallers)
	took := make([]time.Duration, 0, *openCallers)
	for i := range *openCallers {
		took = append(took, g.open(t, person, i))
		if i+1 < *openCallers && !g.closed(openCaller(i+1)) {
			t.Fatalf("%s is open, and nobody has opened it", openCaller(i+1))
		}
	}
	t.Logf("%s, %d requests/s of others: from open to the gate in another process: %s", r.kafka, *openRate, histogram(took))
}

// TestOpenOvertakesTheBacklog measures the same while the owner of the only partition is behind: it stands still until the log has ten
// minutes of 5,000 requests a second more. What a person decides then must not wait until the owner has folded them.
func TestOpenOvertakesTheBacklog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	const rate, most = 5000, 200
	r := newRig(t, measureRules, 1)
	person := r.analyzeForAPerson("--session-timeout", "1m") // it has the partition still when it wakes up
	g := r.gateOfNoisy()
	g.close(t, most)
	l := &loadRun{rig: r, seq: make([]uint64, 1), truth: make(map[string]int64)}
	backlog := l.zipf(loadSize{callers: 100_000, requests: 10 * 60 * rate, rate: rate})
	r.signal(syscall.SIGSTOP)
	l.produce(t.Context(), backlog)
	r.signal(syscall.SIGCONT)
	behind := func() int64 { return r.end() - int64(r.metric("floodgate_next_offset")) }
	first, last := behind(), int64(0)
	var took []time.Duration
	for len(took) < most {
		d := g.open(t, person, len(took))
		if now := behind(); now > 100 {
			took, last = append(took, d), now
			continue
		}
		break
	}
	t.Logf("%s, %d to %d frames behind: from open to the gate in another process: %s", r.kafka, first, last, histogram(took))
	slices.Sort(took)
	if p99 := quantile(took, 0.99); len(took) < 10 || p99 > time.Second {
		t.Errorf("got %d samples and a p99 of %v, want 10 or more and at most 1 s", len(took), p99)
	}
}

// analyzeForAPerson starts an analyzer with an API, and returns a client of it that may operate.
func (r *rig) analyzeForAPerson(flags ...string) *client.Client {
	r.t.Helper()
	tokenFile, tokens := filepath.Join(r.dir, "token"), filepath.Join(r.dir, "tokens")
	out, err := runCommand("token", "alice", "operate", "--write", tokenFile, "--output", "json")
	if err != nil {
		r.t.Fatal(err)
	}
	_, line, _ := strings.Cut(out, `"line":"`)
	line, _, _ = strings.Cut(line, `"`)
	if err := os.WriteFile(tokens, []byte(line+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.analyze(append(flags, "--api-listen", "127.0.0.1:0", "--api-tokens", tokens)...)
	person, err := client.New(client.Config{URL: "http://" + r.analyzer.WaitFor(`listening for the API.* address=(\S+)`, time.Minute), TokenFile: tokenFile})
	if err != nil {
		r.t.Fatal(err)
	}
	return person
}

// signal sends the analyzer a signal.
func (r *rig) signal(s os.Signal) {
	r.t.Helper()
	if err := r.analyzer.Cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// others lets a server send requests of other callers for at most so long. The function that it returns waits until they have begun.
func (r *rig) others(most time.Duration) (stop func()) {
	p := startLoad(r.t, loadPlan{Brokers: r.broker, Suffix: r.suffix, Name: "others", Callers: 10_000, Rate: *openRate, For: most})
	p.WaitFor("^ready$", time.Minute)
	return p.Kill
}

// noisyGate is a gate in this process for callers of the kind noisy, and what records their requests.
type noisyGate struct {
	set *gate.Set
	rec *record.Recorder
}

func (r *rig) gateOfNoisy() *noisyGate {
	g := &noisyGate{gate.New(gate.Options{}), record.New(record.Options{})}
	link, err := kafkalink.Open(g.set, g.rec, kafkalink.Config{
		Brokers: strings.Split(r.broker, ","), Topics: schemas.TopicNames{Requests: r.topic("requests"), Decisions: r.topic("decisions")},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.runLink(link)
	return g
}

func (g *noisyGate) closed(id string) bool { return g.set.Gate("noisy").Closed(id) }

func (g *noisyGate) record(id string) {
	var c gate.Callers
	c.Add(g.set.Gate("noisy"), id)
	g.rec.Record(&c, gate.Verdict{}, record.Request{})
}

func openCaller(i int) string { return fmt.Sprint("open-", i) }

// close lets so many callers reach their limit, and waits until they are closed.
func (g *noisyGate) close(t *testing.T, callers int) {
	t.Helper()
	for i := range callers {
		for range noisyLimit {
			g.record(openCaller(i))
		}
	}
	for i := range callers {
		processtest.Eventually(t, time.Minute, "closed "+openCaller(i), func() bool { return g.closed(openCaller(i)) })
	}
}

// open lets a person open a caller, and returns how long it takes until the gate lets the caller through.
func (g *noisyGate) open(t *testing.T, person *client.Client, i int) time.Duration {
	t.Helper()
	var answer apiv1.ActionAnswer
	var opened time.Time
	var waiting errgroup.Group
	waiting.Go(func() (err error) { opened, err = g.awaitOpen(openCaller(i)); return err })
	began := time.Now()
	status, err := person.Post(t.Context(), "/v1/open", apiv1.OpenRequest{
		Caller: apiv1.Caller{Kind: "noisy", ID: openCaller(i)}, Until: began.Add(time.Hour), Reason: "ticket 4711",
	}, nil, &answer)
	if err != nil || status != http.StatusOK || !answer.Applied {
		t.Fatalf("%s: got %d, %v and %+v, want it open", openCaller(i), status, err, answer)
	}
	if err := waiting.Wait(); err != nil {
		t.Fatal(err)
	}
	return opened.Sub(began)
}

// awaitOpen returns the time at which the gate lets a caller through.
func (g *noisyGate) awaitOpen(id string) (time.Time, error) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Microsecond) {
		if !g.closed(id) {
			return time.Now(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is closed for a minute after it was opened", id)
}
