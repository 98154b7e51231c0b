package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// agents are clients of one caller in a closed loop. Each sends a request, waits for its end, and sends the next one at once. A request that
// is refused is sent again after a second, more or less. The requests of an agent are the same whatever is refused, because each
// agent draws them from random numbers of its own.
type agents struct {
	all     []agent
	due     *agent     // whose request is decided on
	random  *rand.Rand // of servers and retries
	servers int
	models  []model
	callers [1]schemas.Caller
}

// agent is one client.
type agent struct {
	random  *rand.Rand
	at      int64   // when its next request comes, in Unix nanoseconds
	request Request // its next one
	drawn   bool
}

// retryAfter is after how long an agent sends again what was refused, on average: half of it to one and a half times it.
const retryAfter = time.Second

func newAgents(seed uint64, n, servers int, models []model) *agents {
	a := &agents{
		all: make([]agent, n), random: rand.New(rand.NewPCG(seed, streamTraffic)), servers: servers, models: models, //nolint:gosec // no secret
		callers: [1]schemas.Caller{{Kind: Kind, ID: "caller"}},
	}
	for i := range a.all {
		a.all[i].random = rand.New(rand.NewPCG(seed, streamAgents+uint64(i))) //nolint:gosec // no secret
		a.all[i].at = start + a.random.Int64N(int64(retryAfter))
	}
	return a
}

func (a *agents) next(r *Request) bool {
	first := 0
	for i := range a.all {
		if a.all[i].at < a.all[first].at {
			first = i
		}
	}
	a.due = &a.all[first]
	if x := a.due; !x.drawn {
		x.request, x.drawn = Request{At: x.at, Client: first}, true
		a.models[x.random.IntN(len(a.models))].draw(x.random, &x.request)
	}
	*r = a.due.request
	r.At, r.Server, r.Callers = a.due.at, a.random.IntN(a.servers), a.callers[:]
	return true
}

func (a *agents) decided(r *Request, admitted bool) {
	if admitted {
		a.due.at, a.due.drawn = r.At+int64(r.Duration), false
	} else {
		a.due.at += int64(retryAfter)/2 + a.random.Int64N(int64(retryAfter))
	}
}
