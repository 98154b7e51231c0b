//go:build lab

package lab

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
)

// How much of a grid. Three small cells are part of CI (FLOODGATE_LONG=1); all of it, on the Apache Kafka of FLOODGATE_KAFKA, is
//
//	go test -tags lab ./cmd/floodgate/lab -run TestAttackGrid -v -count 1 -timeout 3h -grid.attackers 10000,100000,1000000,3000000 \
//	    -grid.each 1,2,10,50 -grid.windows 10s,1m,month -grid.rate 150000 -grid.max-rows 250000
var (
	gridAttackers = flag.String("grid.attackers", "30000", "numbers of attackers")
	gridEach      = flag.String("grid.each", "2", "how many requests each attacker makes")
	gridWindows   = flag.String("grid.windows", "10s", "windows of the rules")
	gridRate      = flag.Int("grid.rate", 20_000, "requests of attackers a second, over four partitions")
	gridRows      = flag.Int("grid.max-rows", 2000, "rows of each partition")
)

// attackCell is one attack: so many callers with so many requests each, of the offenders' kind or of another, by ids that
// are chosen to meet in one place under the public partition key, or not.
type attackCell struct {
	attackers, each int
	window          string
	other, chosen   bool
}

func attackGrid(t *testing.T) (cells []attackCell) {
	t.Helper()
	numbers := func(list string) (all []int) {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	for _, attackers := range numbers(*gridAttackers) {
		for _, each := range numbers(*gridEach) {
			for window := range strings.SplitSeq(*gridWindows, ",") {
				for _, other := range []bool{false, true} {
					cells = append(cells, attackCell{attackers, each, window, other, false})
				}
			}
		}
	}
	return append(cells, attackCell{20_000, 2, "10s", false, true})
}

// chosenCallers returns ids whose partition hashes all end in the same eight bits.
func chosenCallers(kind string, n int) (ids []string) {
	key := schemas.DefaultPartitionKey()
	for i := 0; len(ids) < n; i++ {
		if id := "chosen-" + strconv.Itoa(i); key.Hash(kind, id)&0xff == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestAttackGrid attacks with real processes. Sixteen offenders begin during each attack and after it: each is closed soon
// after its limit, and nobody else is, in memory that does not grow with the attackers.
func TestAttackGrid(t *testing.T) {
	for _, c := range attackGrid(t) {
		t.Run(fmt.Sprintf("%d×%d in %s, other kind %v, chosen %v", c.attackers, c.each, c.window, c.other, c.chosen), func(t *testing.T) {
			if *gridRows < 250_000 {
				t.Parallel()
			}
			c.run(t)
		})
	}
}

func (c attackCell) run(t *testing.T) {
	t.Helper()
	const offenders = 16
	r := newRig(t, fmt.Sprintf("version: 1\nrules:\n  - {name: keys, callers: key, limit: %d, window: %s}\n  - {name: noisy, callers: noisy, limit: %d, window: %s}\n",
		offenderLimit, c.window, offenderLimit, c.window), 4)
	r.analyze("--max-rows", strconv.Itoa(*gridRows))
	w := &watcher{closed: make(map[string]time.Time)}
	link := r.follow(w, 100*time.Millisecond)
	plan := loadPlan{
		Brokers: r.broker, Suffix: r.suffix, Name: "attacked", Callers: c.attackers, Round: true, Rate: *gridRate, Offenders: offenders,
		For: max(time.Second, time.Duration(c.attackers*c.each)*time.Second/time.Duration(*gridRate)), Kind: map[bool]string{true: "key", false: "noisy"}[c.other], Chosen: c.chosen,
	}
	sum, reached := serverSummaries([]*processtest.Program{startLoad(t, plan)}, 2*plan.For+3*time.Minute)
	r.catchUp("floodgate_committed_offset", time.Minute)
	processtest.Eventually(t, 10*time.Second, "offenders closed", func() bool { return w.count() >= len(reached) })
	var took []time.Duration
	w.mu.Lock()
	for id, at := range w.closed {
		if began, ok := reached[id]; ok {
			took = append(took, at.Sub(began))
		} else {
			t.Errorf("%s was closed, which sent %d of %d", id, c.each, offenderLimit)
		}
	}
	w.mu.Unlock()
	if len(reached) != offenders || len(took) != offenders {
		t.Errorf("%d offenders reached their limit and %d were closed, want all %d", len(reached), len(took), offenders)
	}
	slices.Sort(took)
	rows, waiting, uncounted := r.metric("floodgate_rows"), r.metric("floodgate_waiting"), r.metric("floodgate_uncounted_weight_total")
	if rows > 4*float64(*gridRows) {
		t.Errorf("got %.0f rows, want %d in each of 4 partitions at most", rows, *gridRows)
	}
	_, peak, own := r.resident()
	t.Logf("%s: %d requests in %v; closed after p50 %v, p99 %v; decisions for others after %v at most; %.0f rows, %.0f waiting, %.0f uncounted; %d MiB, %d of them the analyzer's own",
		r.kafka, sum.Accepted, time.Duration(sum.Ended-sum.Began).Round(time.Second), took[len(took)/2].Round(time.Millisecond),
		took[len(took)*99/100].Round(time.Millisecond), longestWait(t, link), rows, waiting, uncounted, peak>>20, own>>20)
}

// longestWait returns the smallest of kafkalink.LagBounds within which all canaries were answered: other callers, whose requests
// wait behind the attackers'.
func longestWait(t *testing.T, link *kafkalink.Link) time.Duration {
	t.Helper()
	lag := link.Stats().Lag
	if lag.Samples < 40 {
		t.Errorf("got %d canaries answered, want 40 or more", lag.Samples)
	}
	for i, n := range lag.Within {
		if n >= lag.Samples {
			return kafkalink.LagBounds()[i]
		}
	}
	return time.Hour
}
