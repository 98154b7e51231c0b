package simulate

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// forger is a hostile producer: it knows the partition key, and may write to the topic of requests.
type forger struct {
	t   *testing.T
	w   *world
	seq uint64
}

// send puts a frame into the log now.
func (f *forger) send(entries ...schemas.Entry) {
	f.t.Helper()
	f.seq++
	frame := schemas.Frame{
		Producer: schemas.ProducerID{0xb, 0xad}, Seq: f.seq, Flushed: f.w.now, Partitions: uint32(len(f.w.partitions)), // ≤ MaxPartitions
		Fingerprint: f.w.key.Fingerprint(), Entries: entries,
	}
	value, err := frame.AppendTo(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.w.partitions[0].append(f.w.now, value)
}

// every does something in each interval, until the end.
func (f *forger) every(interval time.Duration, do func(n int)) {
	n := 0
	var again func()
	again = func() {
		do(n)
		n++
		f.w.at(f.w.now+int64(interval), again)
	}
	f.w.at(f.w.now+int64(interval), again)
}

// besieged runs a scenario while somebody attacks it.
func besieged(t *testing.T, name string, o Options, attack func(f *forger)) *RuleResult {
	t.Helper()
	s, ok := Find(name)
	if !ok {
		t.Fatalf("got no scenario %q", name)
	}
	c, err := s.config(&o)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	attack(&forger{t: t, w: sim.w})
	traffic, r := s.traffic(&o, c.Servers), Request{}
	for traffic.next(&r) && r.At < start+int64(o.Duration) {
		if _, err := sim.Request(&r); err != nil {
			t.Fatal(err)
		}
	}
	result, err := sim.Finish(start + int64(o.Duration))
	if err != nil {
		t.Fatal(err)
	}
	return &result.Rules[0]
}

// TestForgedCanaries: fifty times a second somebody says what the lag is. That may end prediction: then closes are as without it.
// It never ends those, and no innocent is closed for longer than an early close holds at most: half of the window. Here are forty
// callers at 85 to 95 percent of their limits, and one at twice the limit.
func TestForgedCanaries(t *testing.T) {
	testenv.Long(t)
	const window = time.Second
	for name, test := range map[string]struct {
		costs   []time.Duration // in turn; none: no attack
		age     time.Duration   // of what is forged
		blocked float64         // of innocents' requests
	}{
		"no attack":                      {nil, 0, 0.0001},
		"an hour":                        {[]time.Duration{time.Hour}, 0, 0},
		"a thousand years":               {[]time.Duration{1<<63 - 1}, 0, 0},
		"a nanosecond":                   {[]time.Duration{1}, 0, 0},
		"as much as is predicted at":     {[]time.Duration{window / 4}, 0, 0.0005},
		"as much as that, give a bit":    {[]time.Duration{window/4 - 50*ms, window / 4}, 0, 0.001},
		"little, and now and then a lot": {[]time.Duration{1, 1, 1, 1, 1, window + window/2 - 10}, 0, 0.001},
		"in turn little and a lot":       {[]time.Duration{1, window/2 - 10}, 0, 0.001},
		"what nobody has sent":           {[]time.Duration{0}, 0, 0.0001},
		"an hour, an hour ago":           {[]time.Duration{time.Hour}, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := map[rules.Predict]*RuleResult{}
			for _, predict := range []rules.Predict{rules.PredictOff, rules.PredictShares} {
				of[predict] = besieged(t, "lag-jump", Options{Predict: predict, Duration: 10 * time.Second, Seed: 3}, func(f *forger) {
					if len(test.costs) > 0 {
						f.every(20*ms, func(n int) {
							f.send(schemas.Entry{
								Time: f.w.now - int64(test.age), Kind: schemas.KindCanary, ID: f.w.servers[0].canaries[0], Count: 1,
								Cost: int64(test.costs[n%len(test.costs)]),
							})
						})
					}
				})
			}
			off, on := of[rules.PredictOff], of[rules.PredictShares]
			t.Logf("overshoot %.4f off and %.4f on; %d of %d innocents closed, for %.3f s at most, %.5f of their requests",
				off.Overshoot.Mean, on.Overshoot.Mean, on.InnocentsClosed, on.Innocents, on.InnocentLongest, on.InnocentsBlocked)
			if off.Overshoot.Mean > 0.004 || on.Overshoot.Mean > 1.05*off.Overshoot.Mean {
				t.Errorf("got a mean overshoot of %.4f, and with prediction %.4f; want 0.003, and no more with it", off.Overshoot.Mean, on.Overshoot.Mean)
			}
			if off.InnocentsClosed > 0 || on.InnocentLongest > (window/2).Seconds() || on.InnocentsBlocked > test.blocked {
				t.Errorf("got %d innocents closed without prediction, and with it for up to %.3f s, %.5f of their requests; want none, and %v and %.5f",
					off.InnocentsClosed, on.InnocentLongest, on.InnocentsBlocked, window/2, test.blocked)
			}
		})
	}
}

// duo is two that share one caller, as behind one address: an attacker, and a victim that sends 600 requests evenly in each
// window, under a limit of 1 000. The lag is 200 ms.
type duo struct {
	window  time.Duration
	windows int
	predict rules.Predict
	attack  func(f *forger, into time.Duration) (requests int) // in each millisecond of a window
}

// run returns the share of the victim's requests that was blocked, and of its attacker how much it sent in a window.
func (d *duo) run(t *testing.T) (blocked, sent float64) {
	t.Helper()
	sim, err := New(Config{
		Rules: rulesOf(t, 1000, d.window.String(), fixed1), Predict: d.predict, Start: start, Servers: 2, Partitions: 1, Lag: LagOf(200 * ms), Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, w: sim.w}
	refused, asked, attacks := 0, 0, 0
	ask := func(at time.Duration) bool {
		admitted, err := sim.Request(&Request{At: start + int64(at), Server: (asked + attacks) % 2, Callers: []schemas.Caller{{Kind: Kind, ID: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		return admitted
	}
	for at, next := time.Duration(0), time.Duration(0); at < time.Duration(d.windows)*d.window; at += ms {
		for range d.attack(f, at%d.window) {
			ask(at)
			attacks++
		}
		for ; next <= at; next += d.window / 600 {
			if !ask(at) {
				refused++
			}
			asked++
		}
	}
	return float64(refused) / float64(asked), float64(attacks) / float64(d.windows)
}

// train is requests in pulses: as many in each, at 5 000 a second, so far apart, from a moment of the window on.
type train struct {
	from, apart    time.Duration
	pulses, length int
}

func (p train) attack(_ *forger, into time.Duration) (requests int) {
	for i := range p.pulses {
		if from := p.from + time.Duration(i)*p.apart; into > from && into <= from+time.Duration(p.length/5)*ms {
			requests += 5
		}
	}
	return requests
}

// TestPulsesCloseOthersForMoments: an attacker who shares its victim's address sends until a close is predicted, and falls short, so
// that both stay innocent. That closes the victim for one early close in a window and, if that is moved once, half of another; then
// the caller rests. To go over the limit closes it for longer, with prediction or without.
func TestPulsesCloseOthersForMoments(t *testing.T) {
	testenv.Long(t)
	const hold = 330 * ms // of an early close: 1.5 lags, twice the deviation and two flushes
	for _, window := range []time.Duration{time.Second, 10 * time.Second} {
		flood := duo{window, 6, rules.PredictOff, func(*forger, time.Duration) int { return 2 }}
		flooded, _ := flood.run(t)
		worst := 0.0
		for _, at := range []float64{0.3, 0.5, 0.6, 0.7, 0.8, 0.9} {
			for _, p := range []train{{0, 0, 1, 300}, {0, window / 40, 2, 150}, {0, window / 100, 3, 100}, {0, window / 40, 6, 50}, {0, window / 40, 12, 25}} {
				p.from = time.Duration(at * float64(window))
				d := duo{window, 6, rules.PredictShares, p.attack}
				blocked, sent := d.run(t)
				worst = max(worst, blocked)
				if most := 1.6 * hold.Seconds() / window.Seconds(); blocked > most || blocked > 0.7*flooded {
					t.Errorf("window %v, %d pulses at %.1f of it, %.0f requests: got %.3f of the victim's blocked, want at most %.3f, and well below the %.3f that a flood blocks",
						window, p.pulses, at, sent, blocked, most, flooded)
				}
				d.predict = rules.PredictOff
				if blocked, _ := d.run(t); blocked > 0 {
					t.Errorf("without prediction: got %.3f blocked, want none: they are innocent", blocked)
				}
			}
		}
		t.Logf("window %v: at worst %.3f of the victim's requests blocked; by a flood, without prediction, %.3f", window, worst, flooded)
	}
}

// TestForgedEarlyEntries: a hostile producer says that gates have blocked its victim early. That closes the victim no longer than
// as many forged requests that were admitted: whoever may write to the topic can do that anyway.
func TestForgedEarlyEntries(t *testing.T) {
	const window = 10 * time.Second
	forge := func(n uint32, early bool) func(*forger, time.Duration) int {
		return func(f *forger, into time.Duration) int {
			if into == window/2 {
				f.send(schemas.Entry{Time: f.w.now, Kind: Kind, ID: "a", Count: n, Blocked: early, Early: early})
			}
			return 0
		}
	}
	for _, n := range []uint32{1, 300, 500, 699, 701, 1_000_000, 1<<32 - 1} {
		admitted := duo{window, 5, rules.PredictShares, forge(n, false)}
		early := duo{window, 5, rules.PredictShares, forge(n, true)}
		want, _ := admitted.run(t)
		got, _ := early.run(t)
		t.Logf("%d forged: %.3f blocked, and by as many admitted ones %.3f", n, got, want)
		if got > want+0.005 || n < 390 && got > 0 {
			t.Errorf("%d forged early requests: got %.3f of the victim's blocked, want no more than by as many admitted ones, %.3f, and none where it stays innocent", n, got, want)
		}
		if n > 1000 && got == 0 {
			t.Errorf("%d forged early requests: got nobody closed: nothing was tried", n)
		}
	}
}

// TestForgedDemand: a hostile producer reports that its victim, which is over its limit, was blocked much more often than it was. So
// all gates take their parts of the demand to be smaller than they are. The caller loses by that, and wins nothing: whoever may write
// to the topic could as well close it for good. What is old makes predictions come too late: then closes are as without them.
func TestForgedDemand(t *testing.T) {
	testenv.Long(t)
	for name, test := range map[string]struct {
		count uint32 // in each millisecond
		age   time.Duration
		early bool
		most  float64 // mean overshoot
	}{
		"as much again":        {2, 0, false, 0.02},
		"twenty times as much": {40, 0, false, 0.02},
		"without end":          {1 << 31, 0, false, 0.02},
		"a second ago":         {40, time.Second, false, 0.42},
		"blocked early":        {40, 0, true, 0.02},
	} {
		got := besieged(t, "A", Options{Predict: rules.PredictShares, Duration: 20 * time.Second, Seed: 1}, func(f *forger) {
			f.every(ms, func(int) {
				f.send(schemas.Entry{Time: f.w.now - int64(test.age), Kind: Kind, ID: "caller", Count: test.count, Blocked: true, Early: test.early})
			})
		})
		t.Logf("%s: overshoot mean %.4f, 0.99-quantile %.4f, lost %.3f", name, got.Overshoot.Mean, got.Overshoot.P99, got.Lost)
		if got.Overshoot.Mean > test.most || got.Overshoot.P99 > test.most+0.08 {
			t.Errorf("%s: got an overshoot of %.4f, and %.4f in one of a hundred windows, want at most %.2f and %.2f", name, got.Overshoot.Mean, got.Overshoot.P99, test.most, test.most+0.08)
		}
	}
}
