package simulate

import (
	"fmt"
	"time"
)

// Rules of requests that last. What is served in a window is at most the limit if every cost is known at once.
const (
	tokenRules = `version: 1
rules:
  - name: tokens
    callers: key
    measure: cost
    limit: %d
    window: 1m
    algorithm: %s
    charge: arrival
    hold: {%s, margin: 2, longest: 10m}
`
	flightRules = `version: 1
rules:
  - {name: streams, callers: key, measure: in_flight, limit: 20, hold: {longest: 10m}}
`
)

// lastingWindows is how many windows of a minute are measured; those of the warm-up come first.
const lastingWindows = 40

// tokens returns a scenario of one caller that sends requests for a model at times its limit of tokens a minute.
func tokens(name, about string, limit int, times float64, models ...model) Scenario {
	mean := 0.0
	for i := range models {
		mean += models[i].cost / float64(len(models))
	}
	return Scenario{
		Name: name, About: about, Rules: fmt.Sprintf(tokenRules, limit, "fixed", "estimate: 1000"), models: models,
		lag: 50 * ms, servers: 4, warmup: time.Minute, duration: (1 + lastingWindows) * time.Minute,
		streams: one(times * float64(limit) / 60 / mean),
	}
}

// chat is a request whose answer streams for 14 s and costs 1 000 tokens, on average.
func chat() model {
	return model{resource: "POST /v1/chat", cost: 1000, cv: 1, duration: 14 * time.Second, durationCV: 0.6}
}

// declaredChat is a request of which the server expects up to so many times what it costs, such as max_tokens.
func declaredChat(most float64) model {
	m := chat()
	m.declared = most
	return m
}

// tokenScenarios returns those of costs.
func tokenScenarios() []Scenario {
	const limit = 100_000
	independent := chat()
	independent.independent = true
	spread := chat()
	spread.durationCV = 0.9
	small, big := chat(), chat()
	small.cost, big.cost, big.resource = 200, 1800, "POST /v1/big"
	two := tokens("two-models", "10 times the limit, by two models of 200 and 1 800 tokens a request, each with its estimate", limit, 10, small, big)
	two.Rules = fmt.Sprintf(tokenRules, limit, "fixed", `estimate: 200, resources: {"POST /v1/big*": 1800}`)
	sliding := tokens("tokens-sliding", "as tokens-2x, in a sliding window", limit, 2, chat())
	sliding.Rules = fmt.Sprintf(tokenRules, limit, "sliding", "estimate: 1000")
	million := tokens("tokens-1m", "10 times a limit of 1 000 000 tokens a minute", 1_000_000, 10, chat())
	million.warmup, million.duration = million.warmup+time.Minute, million.duration+time.Minute
	closed := tokens("agents", "50 agents of one caller, each with one request at a time, tried again after a second", limit, 2, chat())
	closed.streams, closed.agents = nil, 50
	return []Scenario{
		tokens("tokens-2x", "twice a limit of 100 000 tokens a minute, by requests of 1 000 tokens that last 14 s", limit, 2, chat()),
		tokens("tokens-10x", "as tokens-2x, at 10 times the limit", limit, 10, chat()),
		tokens("tokens-independent", "as tokens-10x, with costs that do not depend on durations", limit, 10, independent),
		tokens("tokens-spread", "as tokens-10x, with durations that differ almost as much as costs", limit, 10, spread),
		tokens("tokens-declared", "as tokens-10x, and servers declare 1 to 4 times what a request costs", limit, 10, declaredChat(4)),
		tokens("tokens-declared-near", "as tokens-10x, and servers declare 1 to 1.5 times what a request costs", limit, 10, declaredChat(1.5)),
		million, closed, two, sliding,
		tokens("tokens-half", "as tokens-2x, at half the limit", limit, 0.5, chat()),
		tokens("tokens-near", "as tokens-2x, at 0.8 of the limit", limit, 0.8, chat()),
	}
}

// Minutes of a cycle of tokens-dearer: cheap ones, then dear ones.
const (
	cheapMinutes = 5
	dearMinutes  = 2
)

// changeScenarios returns those in which something happens to a caller at twice its limit.
func changeScenarios() []Scenario {
	minuteOf := func(since time.Duration) int { return int(since/time.Minute) % (cheapMinutes + dearMinutes) }
	m := chat()
	m.factor = func(since time.Duration) float64 {
		if minuteOf(since) >= cheapMinutes {
			return 5
		}
		return 1
	}
	dearer := tokens("tokens-dearer", "as tokens-2x, but after 5 minutes requests cost 5 times as much for 2 minutes, again and again", 100_000, 2, m)
	dearer.class = func(since time.Duration) class {
		switch minuteOf(since) {
		case cheapMinutes:
			return changed
		case cheapMinutes + 1:
			return ordinary
		}
		return ignored
	}
	dearer.warmup, dearer.duration = 0, 6*(cheapMinutes+dearMinutes)*time.Minute
	restart := tokens("tokens-restart", "as tokens-10x, with an analyzer that starts again for 2 s, 6 s into every other window", 100_000, 10, chat())
	for at := time.Minute; at < restart.duration; at += 2 * time.Minute {
		restart.restarts = append(restart.restarts, Stop{From: at + 6*time.Second, For: 2 * time.Second})
	}
	restart.class = func(since time.Duration) class {
		if since/time.Minute%2 == 1 {
			return changed
		}
		return ordinary
	}
	burst := tokens("tokens-burst", "300 requests of 1 000 tokens in the middle of each minute, limit 100 000 a minute", 100_000, 3, chat())
	burst.streams = func() []stream { // the first one after half a minute
		rate := func(at time.Duration) float64 {
			if at == 0 {
				return 10
			}
			return 5
		}
		return []stream{{id: "caller", peak: 10, rate: rate, burst: 300, even: true}}
	}
	return []Scenario{dearer, restart, burst}
}

// flightScenarios returns those of requests in flight.
func flightScenarios() []Scenario {
	const limit = 20
	m := chat()
	m.duration = 15 * time.Second
	open := tokens("flights", "twice the limit of 20 requests in flight, of 15 s", limit, 2, m)
	open.Rules, open.streams = flightRules, one(2*limit/m.duration.Seconds())
	closed := open
	closed.Name, closed.About = "flights-agents", "50 agents of one caller that may have 20 requests of 15 s in flight, tried again after a second"
	closed.streams, closed.agents = nil, 50
	return []Scenario{open, closed}
}
