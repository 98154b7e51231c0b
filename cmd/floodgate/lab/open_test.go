//go:build lab

package lab

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	tokenFile, tokens := filepath.Join(r.dir, "token"), filepath.Join(r.dir, "tokens")
	out, err := runCommand("token", "alice", "operate", "--write", tokenFile, "--output", "json")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(out, `"line":"`)
	line, _, _ = strings.Cut(line, `"`)
	if err := os.WriteFile(tokens, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.analyze("--api-listen", "127.0.0.1:0", "--api-tokens", tokens)
	person, err := client.New(client.Config{URL: "http://" + r.analyzer.WaitFor(`listening for the API.* address=(\S+)`, time.Minute), TokenFile: tokenFile})
	if err != nil {
		t.Fatal(err)
	}
	defer r.others(time.Minute)()
	g := r.gateOfNoisy()
	caller := func(i int) string { return fmt.Sprint("open-", i) }
	for i := range *openCallers {
		for range noisyLimit {
			g.record(caller(i))
		}
	}
	for i := range *openCallers {
		processtest.Eventually(t, time.Minute, "closed "+caller(i), func() bool { return g.closed(caller(i)) })
	}
	took := make([]time.Duration, 0, *openCallers)
	for i := range *openCallers {
		var answer apiv1.ActionAnswer
		var opened time.Time
		var waiting errgroup.Group
		waiting.Go(func() (err error) { opened, err = g.awaitOpen(caller(i)); return err })
		began := time.Now()
		status, err := person.Post(t.Context(), "/v1/open", apiv1.OpenRequest{
			Caller: apiv1.Caller{Kind: "noisy", ID: caller(i)}, Until: began.Add(time.Hour), Reason: "ticket 4711",
		}, nil, &answer)
		if err != nil || status != http.StatusOK || !answer.Applied {
			t.Fatalf("%s: got %d, %v and %+v, want it open", caller(i), status, err, answer)
		}
		if err := waiting.Wait(); err != nil {
			t.Fatal(err)
		}
		took = append(took, opened.Sub(began))
		if i+1 < *openCallers && !g.closed(caller(i+1)) {
			t.Fatalf("%s is open, and nobody has opened it", caller(i+1))
		}
	}
	t.Logf("%s, %d requests/s of others: from open to the gate in another process: %s", r.kafka, *openRate, histogram(took))
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
	r.runLink(kafkalink.New(g.set, g.rec, kafkalink.Config{
		Brokers: strings.Split(r.broker, ","), Topics: schemas.TopicNames{Requests: r.topic("requests"), Decisions: r.topic("decisions")},
	}))
	return g
}

func (g *noisyGate) closed(id string) bool { return g.set.Gate("noisy").Closed(id) }

func (g *noisyGate) record(id string) {
	var c gate.Callers
	c.Add(g.set.Gate("noisy"), id)
	g.rec.Record(&c, gate.Verdict{}, record.Request{})
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
