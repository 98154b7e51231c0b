package simulate

import (
	"fmt"
	"slices"
	"time"
)

// ruleText returns a file of one rule.
func ruleText(limit int, window, more string) string {
	return fmt.Sprintf("version: 1\nrules:\n  - {name: limit, callers: key, limit: %d, window: %s%s}\n", limit, window, more)
}

// one returns one caller at a constant rate.
func one(rate float64) func() []stream {
	return func() []stream { return []stream{{id: "caller", peak: rate}} }
}

const (
	ms     = time.Millisecond
	fixed1 = ", algorithm: fixed"
)

// Scenarios returns all scenarios, in the order of simulate --list.
func Scenarios() []Scenario {
	return slices.Concat(steady(), varying(), populations(), faults(), tokenScenarios(), changeScenarios(), flightScenarios())
}

// steady returns the scenarios of one caller at a constant rate.
func steady() []Scenario {
	a := Scenario{
		Name: "A", About: "one caller at twice its limit of 1 000/s, fixed windows of a second", Rules: ruleText(1000, "1s", fixed1),
		lag: 200 * ms, servers: 2, duration: 65 * time.Second, warmup: 5 * time.Second, streams: one(2000),
	}
	near := a
	near.Name, near.About = "A-near", "one caller at 1.05 times its limit of 1 000/s, four servers"
	near.servers, near.streams = 4, one(1050)
	even := a
	even.Name, even.About = "A-even", "as A, with requests at equal distances"
	even.streams = func() []stream { return []stream{{id: "caller", peak: 2000, even: true}} }
	bursts := a
	bursts.Name, bursts.About = "A-bursts", "as A, with 20 requests at a time"
	bursts.streams = func() []stream { return []stream{{id: "caller", peak: 2000, burst: 20}} }
	skewed := a
	skewed.Name, skewed.About, skewed.skew = "A-skew", "as A, with clocks that differ by 100 ms", 50*ms
	list := []Scenario{a, near, even, bursts, skewed}
	for _, b := range []struct{ name, about, more string }{
		{"B-log", "exact log", ", algorithm: log"},
		{"B-100", "sliding window of 100 slots", ", slots: 100"},
		{"B-20", "sliding window of 20 slots", ""},
		{"B-gcra", "token bucket", ", algorithm: gcra"},
	} {
		s := Scenario{
			Name: b.name, About: "one caller at 800/s, limit 500/s, " + b.about, Rules: ruleText(500, "1s", b.more),
			lag: 200 * ms, servers: 2, duration: 35 * time.Second, warmup: 5 * time.Second, streams: one(800),
		}
		skewed := s
		skewed.Name, skewed.About, skewed.skew = b.name+"-skew", s.About+", clocks that differ by 100 ms", 50*ms
		list = append(list, s, skewed)
	}
	return list
}

// onOff returns a rate that is high for the first part of each cycle, and low for the rest.
func onOff(high, low float64, on, cycle time.Duration) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if at%cycle < on {
			return high
		}
		return low
	}
}

// stepAfter returns a rate that goes up late in each cycle.
func stepAfter(low, high float64, quiet, cycle time.Duration) func() []stream {
	rate := onOff(low, high, quiet, cycle)
	return func() []stream { return []stream{{id: "caller", peak: max(low, high), rate: rate}} }
}

// varying returns the scenarios of one caller whose rate changes.
func varying() []Scenario {
	step := Scenario{
		lag: 50 * ms, servers: 2, duration: 600 * time.Second, warmup: 10 * time.Second, Rules: ruleText(1000, "10s", fixed1),
		Name: "step-far", About: "10/s, then 1 000/s with 950 permits left; limit 1 000 in 10 s",
		streams: stepAfter(10, 1000, 5*time.Second, 10*time.Second),
	}
	near := step
	near.Name, near.About, near.Rules = "step-near", "10/s, then 1 000/s with 90 permits left; limit 160 in 10 s", ruleText(160, "10s", fixed1)
	near.streams = stepAfter(10, 1000, 7*time.Second, 10*time.Second)
	late := step
	late.Name, late.About, late.Rules = "step-late", "10/s, then 1 000/s with 40 permits left; limit 80 in 10 s", ruleText(80, "10s", fixed1)
	late.streams = stepAfter(10, 1000, 4*time.Second, 10*time.Second)
	ramp := Scenario{
		Name: "ramp", About: "from 0 to 4 times the limit of 1 000 in 10 s, in 5 minutes", Rules: ruleText(1000, "10s", fixed1),
		lag: 200 * ms, servers: 2, duration: 300 * time.Second, warmup: 0,
		streams: func() []stream {
			return []stream{{id: "caller", peak: 400, rate: func(at time.Duration) float64 { return min(400, 400*at.Seconds()/300) }}}
		},
	}
	onoff := Scenario{
		Name: "on-off", About: "3 times the limit of 1 000 in 10 s for 17 s, then nothing for 8 s", Rules: ruleText(1000, "10s", fixed1),
		lag: 200 * ms, servers: 2, duration: 600 * time.Second, warmup: 0,
		streams: func() []stream {
			return []stream{{id: "caller", peak: 300, rate: onOff(300, 0, 17*time.Second, 25*time.Second)}}
		},
	}
	moving := Scenario{
		Name: "moving", About: "as A with four servers, whose shares 70/20/9/1 of the traffic rotate every 10 s", Rules: ruleText(1000, "1s", fixed1),
		lag: 200 * ms, servers: 4, duration: 85 * time.Second, warmup: 5 * time.Second, streams: one(2000),
		weights: rotating(10*time.Second, 70, 20, 9, 1),
	}
	return []Scenario{step, near, late, ramp, onoff, moving}
}

// populations returns the scenarios of many callers.
func populations() []Scenario {
	fleet := Scenario{
		Name: "fleet", About: "10 000 callers, limit 100/min, 5 % of them over it", Rules: ruleText(100, "1m", fixed1),
		lag: 200 * ms, servers: 4, duration: 5 * time.Minute, streams: fleetstreams,
	}
	attack := Scenario{
		Name: "attack", About: "20 attackers, each at 1 000/s from a moment of its own, limit 100/min", Rules: ruleText(100, "1m", fixed1),
		lag: 200 * ms, servers: 2, duration: 3 * time.Minute, streams: attackstreams,
	}
	list := []Scenario{fleet, attack}
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		list = append(list, Scenario{
			Name: fmt.Sprintf("innocents-%.0fs", window.Seconds()), About: fmt.Sprintf("20 callers at 50 to 90 %% of their limit of 1 000 in %.0f s", window.Seconds()),
			Rules: ruleText(1000, window.String(), fixed1), lag: 200 * ms, servers: 2, duration: max(60*time.Second, 10*window),
			streams: func() []stream { return innocents(20, 0.5, 0.9, 1000/window.Seconds()) },
		})
	}
	return list
}

// fleetstreams returns 10 000 callers: 500 at 1.2 to 2.4 times the limit of 100 a minute, and the others at up to 60 % of it, by a
// Zipf distribution.
func fleetstreams() []stream {
	const n, over = 10_000, 500
	weights := zipf(n, 0.6)
	loudest := weights[over]
	for i := range weights {
		if i < over {
			weights[i] = (1.2 + 1.2*float64(i)/over) * 100 / 60
		} else {
			weights[i] = 0.6 * 100 / 60 * weights[i] / loudest
		}
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	return []stream{{pick: fleetOf(names("c", n), weights), peak: sum}}
}

// attackstreams returns callers that begin one after the other.
func attackstreams() []stream {
	list := make([]stream, 20)
	for i, id := range names("attacker", len(list)) {
		from := time.Duration(1370*i+5000) * ms
		list[i] = stream{id: id, peak: 1000, rate: func(at time.Duration) float64 {
			if at < from {
				return 0
			}
			return 1000
		}}
	}
	return list
}

// innocents returns callers at shares of a limit, given in requests per second.
func innocents(n int, from, to, limit float64) []stream {
	list := make([]stream, n)
	for i, id := range names("innocent", n) {
		list[i] = stream{id: id, peak: limit * (from + (to-from)*float64(i)/float64(max(1, n-1)))}
	}
	return list
}

// faults returns the scenarios in which something breaks: one caller at twice its limit, and many near theirs.
func faults() []Scenario {
	mixed := Scenario{
		Rules: ruleText(1000, "1s", fixed1), lag: 50 * ms, servers: 2, duration: 40 * time.Second, warmup: 5 * time.Second,
		streams: func() []stream { return append(innocents(40, 0.85, 0.95, 1000), one(2000)()...) },
	}
	dies := Scenario{
		Name: "dies", About: "as A with four servers, of which one dies at 25 s; the others get its traffic", Rules: ruleText(1000, "1s", fixed1),
		lag: 200 * ms, servers: 4, duration: 45 * time.Second, warmup: 5 * time.Second, streams: one(2000),
		weights: until(25*time.Second, []float64{1, 1, 1, 1}, []float64{1, 1, 1, 0}), deaths: []Death{{At: 25 * time.Second, Server: 3}},
	}
	jump, stop := mixed, mixed
	jump.Name, jump.About = "lag-jump", "a caller at twice its limit of 1 000/s and 40 at 85 to 95 %, lag 50 ms, but 2 s from 20 to 25 s"
	jump.jumps = []Jump{{From: 20 * time.Second, For: 5 * time.Second, Lag: 2 * time.Second}}
	stop.Name, stop.About, stop.lag = "stop", "the same, with an analyzer that stands still from 20 to 25 s", 200*ms
	stop.stops = []Stop{{From: 20 * time.Second, For: 5 * time.Second}}
	return []Scenario{jump, stop, dies}
}
