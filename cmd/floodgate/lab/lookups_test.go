//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

var (
	lookupRate = flag.Int("lookups.rate", 50_000, "BenchmarkLookups: requests a second that are counted meanwhile; 0 is none")
	lookupFor  = flag.Duration("lookups.for", 2*time.Second, "BenchmarkLookups: how long each of the runs takes")
	lookupRuns = flag.Int("lookups.runs", 1, "BenchmarkLookups: runs, of which the median counts")
)

// lookupEvery is how often a look-up begins: 200 a second.
const lookupEvery = 5 * time.Millisecond

// BenchmarkLookups reports how long GET /v1/caller takes while a server records requests: answered by the analyzer that is asked, and by
// another one, to which it forwards. Broker, both analyzers, the server and who asks are processes of their own.
//
//	go test -tags lab ./cmd/floodgate/lab -run '^$' -bench Lookups -benchtime 1x -lookups.for 10s -lookups.runs 5
//
// "late" is by how much who asks was late to begin: what the machine alone adds to each step of an answer.
func BenchmarkLookups(t *testing.B) {
	r := newRig(t, loadRules, 4)
	one, two := r.apiOfTwo()
	owned := r.shares(one, two)
	took := make(map[string][][]time.Duration)
	for range *lookupRuns {
		var server []*processtest.Program
		if *lookupRate > 0 {
			server = append(server, startLoad(t, loadPlan{
				Brokers: r.broker, Suffix: r.suffix, Name: "load", Callers: 10_000, Rate: *lookupRate, For: 2**lookupFor + 4*time.Second,
			}))
			before := r.metric("floodgate_requests_total")
			processtest.Eventually(t, time.Minute, "requests are counted", func() bool { return r.metric("floodgate_requests_total") > before })
		}
		for i, name := range []string{"own", "forwarded"} {
			answers, late := lookUp(t, one, owned[i])
			took[name], took["late"] = append(took[name], answers), append(took["late"], late)
		}
		if sum, _ := serverSummaries(server, time.Minute); sum.Accepted != sum.Acked {
			t.Errorf("got %d of %d requests in the log, want all", sum.Acked, sum.Accepted)
		}
	}
	for _, name := range []string{"own", "forwarded", "late"} {
		t.Logf("%s, %d requests/s, %d runs: %-9s p50 %.2f ms, p99 %.2f ms (median; all: %s)", r.kafka, *lookupRate, *lookupRuns, name,
			millis(medianOf(took[name], 0.5)), millis(medianOf(took[name], 0.99)), quantiles(took[name], 0.99))
	}
}

// apiOfTwo starts two analyzers that share the partitions, and returns the addresses of their APIs.
func (r *rig) apiOfTwo() (one, two string) {
	r.t.Helper()
	key := filepath.Join(r.dir, "cluster-key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	one, two = testenv.FreeAddress(r.t), testenv.FreeAddress(r.t)
	r.analyze("--api-listen", one, "--api-cluster-key-file", key)
	args := []string{
		"analyze", "--brokers", r.broker, "--rules", r.rules, "--data", filepath.Join(r.dir, "counts-two"), "--listen", "127.0.0.1:0", "--partitions", strconv.Itoa(r.partitions),
		"--group", fmt.Sprint("floodgate", r.suffix, ".", r.lives), "--api-listen", two, "--api-cluster-key-file", key,
	}
	for _, topic := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
		args = append(args, "--topic-name", topic+"="+r.topic(topic))
	}
	start(r.t, args...)
	return "http://" + one, "http://" + two
}

// shares waits until each of two analyzers owns half of the partitions and knows the heartbeats of all, and returns callers of each one's.
func (r *rig) shares(one, two string) (callers [2][]string) {
	r.t.Helper()
	var here map[int]bool
	processtest.Eventually(r.t, 2*time.Minute, "both analyzers own partitions and know each other", func() bool {
		here = make(map[int]bool)
		known := 0
		for i, url := range []string{one, two} {
			var s apiv1.Status
			text, status := processtest.Get(r.t.Context(), url+"/v1/status")
			if status != http.StatusOK || json.Unmarshal([]byte(text), &s) != nil {
				return false
			}
			for _, p := range s.Partitions {
				if p.Here && p.State == "running" && i == 0 {
					here[p.Partition] = true
				}
				if !p.Stale && p.API != "" {
					known++
				}
			}
		}
		return len(here) == r.partitions/2 && known == 2*r.partitions
	})
	for i := range 1000 {
		id := fmt.Sprint("looked-", i)
		if p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), r.partitions); here[p] {
			callers[0] = append(callers[0], id)
		} else {
			callers[1] = append(callers[1], id)
		}
	}
	return callers
}

// lookUp asks for callers in turn, and returns how long each answer took, and by how much each question began late, both sorted.
func lookUp(t testing.TB, url string, ids []string) (took, late []time.Duration) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	began := time.Now()
	for i := range int(*lookupFor / lookupEvery) {
		due := began.Add(time.Duration(i) * lookupEvery)
		time.Sleep(time.Until(due))
		at := time.Now()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url+"/v1/caller?caller=key:"+ids[i%len(ids)], nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s and %v, want 200", resp.StatusCode, text, err)
		}
		took = append(took, time.Since(at))
		if d := at.Sub(due); d >= 0 && (i == 0 || d < lookupEvery) { // later is the fault of the answer before
			late = append(late, d)
		}
	}
	slices.Sort(took)
	slices.Sort(late)
	return took, late
}

// medianOf returns the median of a quantile of runs.
func medianOf(runs [][]time.Duration, q float64) time.Duration {
	var all []time.Duration
	for _, run := range runs {
		all = append(all, quantile(run, q))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// quantiles returns a quantile of each run, for people.
func quantiles(runs [][]time.Duration, q float64) string {
	var texts []string
	for _, run := range runs {
		texts = append(texts, fmt.Sprintf("%.1f", millis(quantile(run, q))))
	}
	return strings.Join(texts, " ")
}
