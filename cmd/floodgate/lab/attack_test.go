//go:build lab

package lab

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// How much of an attack. A short one is part of every go test; the long one is
//
//	go test -tags lab ./cmd/floodgate/lab -run TestAttack -v -count 1 -attack.callers 10000000 -attack.for 1m -attack.max-rows 250000
var (
	attackCallers = flag.Int("attack.callers", 40_000, "callers in TestAttack, each of whom comes once")
	attackFor     = flag.Duration("attack.for", 4*time.Second, "how long it takes them")
	attackRows    = flag.Int("attack.max-rows", 2000, "callers counted in each of four partitions")
)

// TestAttack sends many more callers than there is room to count, one request each, and among them a few offenders who go
// on until they are closed. They must be, soon; nobody else may be; and memory must not grow with the callers.
func TestAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	const offenders = 4 // a second; every second one of them stops one short of the limit
	r := newRig(t, measureRules, 4)
	r.analyze("--max-rows", strconv.Itoa(*attackRows))
	w := &watcher{closed: make(map[string]time.Time)}
	r.follow(w, -1)
	server := startLoad(t, loadPlan{
		Brokers: r.broker, Suffix: r.suffix, Name: "attacked", Callers: *attackCallers, Round: true,
		Rate: int(float64(*attackCallers) / attackFor.Seconds()), For: *attackFor, Noisy: offenders, Persist: true,
	})
	sum, reached := serverSummaries([]*processtest.Program{server}, *attackFor+2*time.Minute)
	r.catchUp("floodgate_committed_offset", time.Minute)
	processtest.Eventually(t, 10*time.Second, "offenders closed", func() bool { return w.count() >= len(reached)-1 }) // the last may have had no time
	took := r.lags(w, reached, time.Time{}, 1)
	r.wholeTruth(sum)
	rows, uncounted := r.metric("floodgate_rows"), r.metric("floodgate_uncounted_weight_total")
	if maxRows := 4 * float64(*attackRows); rows > maxRows || *attackCallers > 5**attackRows && uncounted == 0 {
		t.Errorf("got %.0f rows and %.0f requests not counted, want %.0f rows at most, and the rest not counted", rows, uncounted, maxRows)
	}
	now, peak, own := r.resident()
	t.Logf("%s: %d callers in %v, %.0f counted, %.0f requests of others; %d offenders; analyzer %d MiB, %d of them its own, at most %d\n"+
		"from an offender's request that reached the limit to the gate closed in another process: %s",
		r.kafka, *attackCallers, time.Duration(sum.Ended-sum.Began).Round(time.Millisecond), rows, uncounted, len(reached),
		now>>20, own>>20, peak>>20, histogram(took))
}
