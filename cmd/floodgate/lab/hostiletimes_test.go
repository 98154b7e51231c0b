//go:build lab

package lab

import (
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// hostile is an analyzer in a process of its own, a gate in this one, and somebody who writes to their topics.
type hostile struct {
	*processtest.Deployment

	set  *gate.Set
	link *kafkalink.Link

	mu      sync.Mutex
	applied map[string]gate.Verdict // guarded by mu: by caller, when the first decision about it had just been applied
}

func newHostile(t *testing.T, rules string) *hostile {
	t.Helper()
	h := &hostile{Deployment: processtest.NewDeployment(t, start), set: gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)}), applied: make(map[string]gate.Verdict)}
	h.WriteRules(rules)
	h.Start()
	keys := h.set.Gate("key")
	var err error
	h.link, err = kafkalink.Open(h.set, record.New(record.Options{}), kafkalink.Config{
		Brokers: []string{h.Broker}, Canary: -1, Logger: slog.New(slog.DiscardHandler),
		Observe: func(d schemas.Decision, at time.Time) {
			var c gate.Callers
			c.Add(keys, d.Caller.ID)
			h.mu.Lock()
			defer h.mu.Unlock()
			if _, before := h.applied[d.Caller.ID]; !before {
				h.applied[d.Caller.ID] = h.set.CheckAt(&c, at)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.link.Close)
	processtest.Eventually(t, 30*time.Second, "the gate hears of the analyzer", func() bool { return h.set.Status().Fresh == 1 })
	return h
}

// answer returns the answer of the gate about a caller.
func (h *hostile) answer(id string) (gate.Verdict, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.applied[id]
	return v, ok
}

func (h *hostile) closed(id string) bool { return h.set.Gate("key").Closed(id) }

// sendAt sends n requests of a key, a frame each, that say one time; the frame's and the message's are others.
func (h *hostile) sendAt(key string, n int, claimed, flushed, message int64) {
	h.T.Helper()
	for range n {
		h.Seq++
		f := schemas.Frame{
			Producer: schemas.ProducerID{7}, Seq: h.Seq, Flushed: flushed, Partitions: 1, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
			Entries: []schemas.Entry{{Time: claimed, Kind: "key", ID: key, Count: 1}},
		}
		value, err := f.AppendTo(nil)
		if err != nil {
			h.T.Fatal(err)
		}
		if _, err := h.Client.Produce(h.T.Context(), "floodgate.requests", 0, kafkaio.Message{Time: message, Value: value}); err != nil {
			h.T.Fatal(err)
		}
	}
}

// counted waits until all that was sent is counted, and wants none of it refused.
func (h *hostile) counted() {
	h.T.Helper()
	processtest.Eventually(h.T, 30*time.Second, "all counted", func() bool {
		metrics, _ := processtest.Get(h.T.Context(), h.URL+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_entries_total") == float64(h.Seq)
	})
	metrics, _ := processtest.Get(h.T.Context(), h.URL+"/metrics")
	if n := processtest.MetricSum(metrics, "floodgate_rejected_total"); n != 0 {
		h.T.Errorf("got %v refused, want none: a strange time is no damage", n)
	}
}

// strangeTimes is what an entry may say: times of other days, of 1970 and of the ends of int64.
func strangeTimes(now time.Time) map[string]int64 {
	return map[string]int64{
		"yesterday": now.Add(-24 * time.Hour).UnixNano(), "tomorrow": now.Add(24 * time.Hour).UnixNano(),
		"in-ten-years": now.AddDate(10, 0, 0).UnixNano(), "in-1970": 0, "before-1970": -1, "negated": -now.UnixNano(),
		"first": math.MinInt64, "last": math.MaxInt64,
	}
}

const hostileRules = `
version: 1
rules:
  - {name: fixed, callers: key, limit: 5, window: 1h, algorithm: fixed}
  - {name: sliding, callers: key, limit: 5, window: 1h}
  - {name: log, callers: key, limit: 5, window: 1h, algorithm: log}
  - {name: gcra, callers: key, limit: 5, window: 1h, algorithm: gcra}
  - {name: month, callers: key, limit: 5, window: month, timezone: Europe/Berlin}
`

// TestEntriesOfStrangeTimes: whatever times a server's clock may put into its entries and frames, nobody under the limit
// is closed, whoever floods under a time that is still to come is closed as if it were now and not for longer, and the
// others' counts go on.
func TestEntriesOfStrangeTimes(t *testing.T) {
	t.Parallel()
	h := newHostile(t, hostileRules)
	began := time.Now()
	times := strangeTimes(began)
	for _, flushed := range []int64{0, math.MinInt64, math.MaxInt64, began.UnixNano()} {
		for name, claimed := range times { // 4 in all, one below the limit
			h.sendAt("innocent-"+name, 1, claimed, flushed, time.Now().UnixNano())
		}
	}
	for name, claimed := range times {
		h.sendAt("flood-"+name, 20, claimed, claimed, time.Now().UnixNano())
	}
	h.counted()
	now := time.Now().UnixNano()
	h.sendAt("good", 4, now, now, now)
	h.sendAt("bad", 5, now, now, now)
	processtest.Eventually(t, 10*time.Second, "an ordinary flood closed", func() bool { return h.closed("bad") })
	latest := time.Now().AddDate(0, 0, 32) // of the month's closure; jitter included
	for name, claimed := range times {
		if h.closed("innocent-" + name) {
			t.Errorf("4 requests %s: got closed, want open", name)
		}
		want := claimed > began.UnixNano()
		if got := h.closed("flood-" + name); got != want && claimed != times["yesterday"] { // which is in the same month, or not
			t.Errorf("20 requests %s: got closed %v, want %v", name, got, want)
		}
		if v, ok := h.answer("flood-" + name); ok && v.Until.After(latest) {
			t.Errorf("20 requests %s: got closed until %v, want at most until %v", name, v.Until, latest)
		}
	}
	if h.closed("good") {
		t.Error("4 ordinary requests: got closed, want open")
	}
	h.audited()
}

// TestMessagesOfStrangeTimes: the broker takes no message from the future, and those from the past break nothing: whoever
// floods afterwards is closed all the same.
func TestMessagesOfStrangeTimes(t *testing.T) {
	t.Parallel()
	h := newHostile(t, hostileRules)
	for name, claimed := range strangeTimes(time.Now()) {
		if claimed > time.Now().UnixNano() {
			_, err := h.Client.Produce(t.Context(), "floodgate.requests", 0, kafkaio.Message{Time: claimed, Value: []byte("x")})
			if !errors.Is(err, kafkaio.ErrTimestamp) {
				t.Errorf("a message %s: got %v, want %v", name, err, kafkaio.ErrTimestamp)
			}
			continue
		}
		for _, entry := range []int64{claimed, time.Now().UnixNano()} {
			h.sendAt("odd-"+name, 2, entry, claimed, max(claimed, 0)) // a negative time is none to Kafka
		}
		h.counted()
		now := time.Now().UnixNano()
		h.sendAt("good-"+name, 4, now, now, now)
		h.sendAt("bad-"+name, 5, now, now, now)
		processtest.Eventually(t, 10*time.Second, "a flood closed after messages "+name, func() bool { return h.closed("bad-" + name) })
		if h.closed("odd-"+name) || h.closed("good-"+name) {
			t.Errorf("after messages %s: got somebody closed who made 4 requests", name)
		}
	}
	if _, status := processtest.Get(t.Context(), h.URL+"/readyz"); status != 200 {
		t.Errorf("got %d, want an analyzer that is ready", status)
	}
}

// audited stops the analyzer and wants its store to be what the log says.
func (h *hostile) audited() {
	h.T.Helper()
	if code := h.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		h.T.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Analyzer.Text())
	}
	if out, err := runCommand("audit", "--brokers", h.Broker, "--rules", h.RulesPath(), "--data", filepath.Join(h.Dir, "counts")); err != nil {
		h.T.Errorf("audit: %v\n%s", err, out)
	}
}

// write appends records to decisions/0, as another client that may write there, and returns the offset of the first.
func (h *hostile) write(records ...pb.Record) int64 {
	h.T.Helper()
	var messages []kafkaio.Message
	for _, r := range records {
		var value []byte
		var err error
		switch {
		case r.Claim != nil:
			value, err = pb.AppendClaim(nil, r.Claim)
		case r.Heartbeat != nil:
			value, err = pb.AppendHeartbeat(nil, r.Heartbeat)
		default:
			value, err = pb.AppendDecision(nil, r.Decision)
		}
		if err != nil {
			h.T.Fatal(err)
		}
		messages = append(messages, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	}
	offset, err := h.Client.Produce(h.T.Context(), "floodgate.decisions", 0, messages...)
	if err != nil {
		h.T.Fatal(err)
	}
	return offset
}

func (h *hostile) epoch() uint64 {
	metrics, _ := processtest.Get(h.T.Context(), h.URL+"/metrics")
	return uint64(processtest.MetricSum(metrics, "floodgate_epoch"))
}

// TestDecisionsOfStrangeTimes: somebody who may write to the topic of decisions claims the partition and closes callers at
// absurd times. A gate closes nobody for more than a year and a day, nor by what ends before it begins; then the owner
// finds out, takes the partition back, and opens all that it has not closed itself.
func TestDecisionsOfStrangeTimes(t *testing.T) {
	t.Parallel()
	h := newHostile(t, processtest.Rules("5"))
	h.Send("bad", 5)
	processtest.Eventually(t, 10*time.Second, "a flood closed", func() bool { return h.closed("bad") })

	now := time.Now().UnixNano()
	year := int64(schemas.MaxClosure)
	var stray []string
	for id, d := range map[string]schemas.Decision{ // which no gate may take
		"of-a-lower-epoch":           {Epoch: h.epoch() - 1, Seq: 1 << 40},
		"of-an-epoch-nobody-claimed": {Epoch: math.MaxUint64, Seq: 1},
		"of-epoch-0":                 {Epoch: 0, Seq: 1 << 40},
		"of-another-partition":       {Epoch: h.epoch(), Seq: 1 << 40, Partition: 1},
	} {
		d.Rule, d.Caller, d.Mode, d.CloseAt, d.Until = "r", schemas.Caller{Kind: "key", ID: id}, schemas.ModeEnforce, now, now+int64(time.Hour)
		h.write(pb.Record{Decision: &d})
		stray = append(stray, id)
	}
	usurped := h.epoch() + 1
	absurd := map[string]struct {
		closeAt, until int64
		closes         bool
	}{
		"ten-years":         {now, now + 10*year, true},
		"for-ever":          {now, math.MaxInt64, true},
		"since-1970":        {0, now + int64(time.Hour), false}, // no closure is that long
		"from-then-on":      {now + 10*year, now + 11*year, false},
		"until-yesterday":   {now - 48*int64(time.Hour), now - 24*int64(time.Hour), false},
		"until-1970":        {now, 0, false},
		"until-before-1970": {now, -1, false},
		"until-the-first":   {now, math.MinInt64, false},
		"all-of-time":       {math.MinInt64, math.MaxInt64, false},
		"the-first":         {math.MinInt64, math.MinInt64, false},
		"the-last":          {math.MaxInt64, math.MaxInt64, false},
		"backwards":         {math.MaxInt64, math.MinInt64, false},
	}
	records := []pb.Record{{Claim: &schemas.Claim{Epoch: usurped, Nonce: 1, Owner: "somebody"}}}
	for id, d := range absurd {
		records = append(records, pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: d.closeAt, Until: d.until,
			Epoch: usurped, Seq: uint64(len(records)),
		}})
	}
	h.write(records...)
	took := time.Now()
	processtest.Eventually(t, 20*time.Second, "the owner takes the partition back", func() bool { return h.epoch() > usurped })
	processtest.Eventually(t, 20*time.Second, "all open whom the owner has not closed", func() bool {
		return !slices.ContainsFunc(records[1:], func(r pb.Record) bool { return h.closed(r.Decision.Caller.ID) })
	})
	t.Logf("repaired after %v", time.Since(took).Round(time.Millisecond))
	h.Send("worse", 5)
	processtest.Eventually(t, 10*time.Second, "another flood closed", func() bool { return h.closed("worse") })
	if !h.closed("bad") {
		t.Error("whom the owner had closed: got open, want closed still")
	}
	for id, d := range absurd {
		switch v, ok := h.answer(id); {
		case !ok || v.Closed != d.closes:
			t.Errorf("%s: got %+v, want it applied, and closed %v", id, v, d.closes)
		case v.Closed && v.Until.UnixNano() > time.Now().UnixNano()+year+int64(gate.DefaultMaxJitter):
			t.Errorf("%s: got closed until %v, want at most a year and a day", id, v.Until)
		}
	}
	for _, id := range stray {
		if _, ok := h.answer(id); ok {
			t.Errorf("a decision %s: got it applied, want it refused", id)
		}
	}
	if n := h.link.Stats().Refused; n["partition"] != 1 || n["fenced"] < 3 {
		t.Errorf("got %v refused, want 1 of another partition and 3 fenced", n)
	}
	h.audited()
}
