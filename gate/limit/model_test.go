package limit

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model says what a limiter is to do, in the plainest words: one goroutine, and everything that ever happened is kept.
// Times are nanoseconds since 1970.
type model interface {
	// turn returns when n may happen, at t or later; ok is false if never.
	turn(t int64, n int) (at int64, ok bool)
	// charge counts n that were given a turn, asked for at t. What it returns is for cancel.
	charge(t, turn int64, n int) int64
	setLimit(n int)
}

type ringModel struct {
	limit  int
	window int64
	times  []int64 // of every one, in order
}

func (m *ringModel) setLimit(n int) { m.limit = n }
func (m *ringModel) turn(t int64, n int) (int64, bool) {
	if n > m.limit {
		return 0, false
	}
	if i := len(m.times) + n - 1 - m.limit; i >= 0 { // the one that must be a window before the last of the n
		t = max(t, m.times[i]+m.window)
	}
	return t, true
}

func (m *ringModel) charge(_, turn int64, n int) int64 {
	if len(m.times) > 0 {
		turn = max(turn, m.times[len(m.times)-1])
	}
	for range n {
		m.times = append(m.times, turn)
	}
	return turn
}

type fixedModel struct {
	limit  int
	period int64
	newest int64
	counts map[int64]int
}

func (m *fixedModel) setLimit(n int) { m.limit = n }
func (m *fixedModel) turn(t int64, n int) (int64, bool) {
	if n > m.limit {
		return 0, false
	}
	k := max(t/m.period, m.newest-1) // two periods are remembered
	for m.counts[k]+n > m.limit {
		k++
	}
	return max(t, k*m.period), true
}

func (m *fixedModel) charge(_, turn int64, n int) int64 {
	m.newest = max(m.newest, turn/m.period)
	m.counts[turn/m.period] += n
	return turn / m.period
}

type slidingModel struct {
	limit         int
	width, newest int64
	slots         int64
	counts        map[int64]int
}

func (m *slidingModel) setLimit(n int) { m.limit = n }
func (m *slidingModel) turn(t int64, n int) (int64, bool) {
	if n > m.limit {
		return 0, false
	}
	kept := int64(1) << bits.Len64(uint64(m.slots)+1) // so far back slots are remembered
	for k := max(t/m.width, m.newest-kept+1+m.slots); ; k++ {
		sum := n
		for i := k - m.slots; i <= max(k, m.newest); i++ {
			sum += m.counts[i]
		}
		if sum <= m.limit {
			return max(t, k*m.width), true
		}
	}
}

func (m *slidingModel) charge(_, turn int64, n int) int64 {
	m.newest = max(m.newest, turn/m.width)
	m.counts[m.newest] += n
	return m.newest
}

// tokenModel counts tokens in exact fractions.
type tokenModel struct {
	limit, burst int
	period       int64
	tokens       *big.Rat
	last         int64
}

func (m *tokenModel) setLimit(n int) { m.limit = n }

func (m *tokenModel) at(t int64) *big.Rat {
	have := new(big.Rat).Mul(big.NewRat(t-m.last, m.period), big.NewRat(int64(m.limit), 1))
	have.Add(have, m.tokens)
	if full := big.NewRat(int64(m.burst), 1); have.Cmp(full) > 0 {
		return full
	}
	return have
}

func (m *tokenModel) turn(t int64, n int) (int64, bool) {
	if n > m.burst || m.limit == 0 {
		return 0, false
	}
	missing := new(big.Rat).Sub(big.NewRat(int64(n), 1), m.at(t))
	if missing.Sign() <= 0 {
		return t, true
	}
	missing.Mul(missing, big.NewRat(m.period, int64(m.limit)))
	wait := new(big.Int).Div(new(big.Int).Add(missing.Num(), new(big.Int).Sub(missing.Denom(), big.NewInt(1))), missing.Denom())
	return t + wait.Int64(), true
}

func (m *tokenModel) charge(t, _ int64, n int) int64 {
	m.tokens, m.last = new(big.Rat).Sub(m.at(t), big.NewRat(int64(n), 1)), t
	return 0
}

// leakyModel reckons in units, as the real one does: sixths of nanoseconds.
type leakyModel struct{ interval, queue, start, next int64 }

func (m *leakyModel) setLimit(int) {}

func (m *leakyModel) turn(t int64, n int) (int64, bool) {
	now := (t - m.start) * units
	turn := max(now, m.next)
	return m.start + (turn+units-1)/units, turn+int64(n)*m.interval-now <= (m.queue+1)*m.interval
}

func (m *leakyModel) charge(t, _ int64, n int) int64 {
	m.next = max((t-m.start)*units, m.next) + int64(n)*m.interval
	return 0
}

// canceller is a model that knows how to take a charge back.
type canceller interface{ cancel(charged int64, n int) }

func (m *ringModel) cancel(charged int64, n int) {
	for range n {
		i := slices.Index(m.times, charged)
		m.times = slices.Delete(m.times, i, i+1)
	}
}
func (m *fixedModel) cancel(charged int64, n int)   { m.counts[charged] -= n }
func (m *slidingModel) cancel(charged int64, n int) { m.counts[charged] -= n }

// TestModel does the same at random with limiters and their models: they must say the same, to the nanosecond.
func TestModel(t *testing.T) {
	const per = time.Second
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.IntN(20)
		slots := 1 + random.IntN(12)
		width := (int64(per) + int64(slots) - 1) / int64(slots)
		// The bucket's interval is to be without remainder.
		rate := []int{1, 2, 3, 4, 5, 8, 10, 60, 100}[random.IntN(9)]
		for name, pair := range map[string]struct {
			real anyLimiter
			want model
			set  func(int)
		}{
			"ring":    {real: NewRing(n, per), want: &ringModel{limit: n, window: int64(per)}},
			"fixed":   {real: NewFixed(n, per), want: &fixedModel{limit: n, period: int64(per), counts: map[int64]int{}}},
			"sliding": {real: NewSliding(n, per, slots), want: &slidingModel{limit: n, width: width, slots: int64(slots), counts: map[int64]int{}}},
			"token":   {real: NewTokenBucket(rate, per, n), want: &tokenModel{limit: rate, burst: n, period: int64(per), tokens: big.NewRat(int64(n), 1)}},
			"leaky":   {real: NewLeakyBucket(rate, per, n), want: &leakyModel{interval: int64(per) * units / int64(rate), queue: int64(n), start: noon().UnixNano()}},
		} {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				// A ring remembers less after both, which makes it stricter.
				if s, ok := pair.real.(setter); ok && name != "token" && name != "leaky" && (name != "ring" || seed%2 == 0) {
					pair.set = s.SetLimit
				}
				compare(t, random, pair.real, pair.want, n, pair.set)
			})
		}
	}
}

// compare is one run of TestModel. Times only go forward.
func compare(t *testing.T, random *rand.Rand, l anyLimiter, want model, n int, set func(int)) {
	t.Helper()
	at := noon()
	type booking struct {
		real Reservation
		want int64
		n    int
	}
	var bookings []booking
	_, isRing := l.(*Ring)
	stricter := 0
	for step := range 400 {
		if c, ok := want.(canceller); ok && len(bookings) > 0 && (set == nil || !isRing) && random.IntN(6) == 0 {
			i := random.IntN(len(bookings))
			b := bookings[i]
			bookings = slices.Delete(bookings, i, i+1)
			b.real.Cancel()
			c.cancel(b.want, b.n)
		}
		at = at.Add(time.Duration(random.ExpFloat64() * float64(2*time.Second) / float64(n)))
		if set != nil && random.IntN(40) == 0 { // as many slots as a ring has from the start
			limit := random.IntN(n + 1)
			set(limit)
			want.setLimit(limit)
		}
		many := 1
		if random.IntN(3) == 0 {
			many = 1 + random.IntN(n)
		}
		turn, possible := want.turn(at.UnixNano(), many)
		wait := time.Duration(turn - at.UnixNano())
		// A ring whose turns are cancelled sometimes remembers less than the model, and then is stricter.
		got := l.RetryAfter(at, many)
		if isRing && set == nil && possible && got > wait {
			turn, wait, stricter = turn+int64(got-wait), got, stricter+1
		}
		if possible && got != wait {
			t.Fatalf("step %d: %d in %v; want %v", step, many, got, wait)
		}
		maxWait := time.Duration(0)
		if random.IntN(4) == 0 {
			maxWait = time.Duration(random.Int64N(int64(3 * time.Second)))
		}
		r := l.ReserveN(at, many, maxWait)
		if ok := possible && wait <= maxWait; r.OK() != ok || ok && r.DelayFrom(at) != wait {
			t.Fatalf("step %d: %d in up to %v: got %v in %v, want %v in %v", step, many, maxWait, r.OK(), r.DelayFrom(at), ok, wait)
		}
		if r.OK() {
			bookings = append(bookings, booking{r, want.charge(at.UnixNano(), turn, many), many})
		}
	}
	if stricter > 20 {
		t.Errorf("%d of 400 had to wait for longer than need be", stricter)
	}
}
