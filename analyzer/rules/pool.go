package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Bounds of pools.
const (
	maxPools        = 64 // in a file
	minPoolWindow   = time.Second
	maxPoolWindow   = time.Minute
	steadyCapacity  = 1000 // with fewer requests in a window, chance makes demand and level jump
	minWeight       = 0.001
	maxWeight       = 1000
	percentUnit     = 1000 // percentages are kept in thousandths of a percent
	minProtect      = percentUnit / 10
	maxProtect      = 10 * percentUnit
	percentDecimals = 3
)

// Pool is the capacity that all callers of a rule share.
type Pool struct {
	pool.Terms

	Index   int       // which of its Set's pools, in the order of the file
	weights overrides // whose limits are thousandths
	protect int64     // of the capacity, in thousandths of a percent
}

// Weight returns the weight of a caller of the rule's kind in pool.Units, pool.Unit if the file says none. It is found as overrides are:
// see LimitFor. It does not allocate.
func (p *Pool) Weight(id string) int64 {
	if p.weights.empty() {
		return pool.Unit
	}
	if w, ok := p.weights.find(id); ok {
		return w.limit
	}
	return pool.Unit
}

// WeightOf returns the id or the network of the weight that applies to a caller of the rule's kind, or "" if none does.
func (p *Pool) WeightOf(id string) string {
	of, _, _ := p.weights.of(id)
	return of
}

// ProtectText returns what is protected, such as "0.1%".
func (p *Pool) ProtectText() string { return decimal(p.protect, percentUnit) + "%" }

// weightText returns a weight for people, such as "weight 0.5".
func weightText(w override) string { return "weight " + decimal(w.limit, pool.Unit) }

// decimal returns n of so many parts of 1 as a decimal number.
func decimal(n, parts int64) string {
	return strconv.FormatFloat(float64(n)/float64(parts), 'f', -1, 64)
}

// identity returns what a fingerprint must say of the pool, beside the rule's limit.
func (p *Pool) identity() string { return fmt.Sprintf(" pool %d %q", p.protect, p.weights.lines()) }

// limit reads the limit of each caller, or the capacity of all.
func (f ruleParser) limit() int64 {
	switch {
	case f.Has("capacity"):
		if f.Has("limit") {
			f.Fail("capacity", "got one with limit, want only one of them")
		}
		return f.Integer("capacity", 1, MaxLimit, 0)
	case f.Lacks("limit") && f.Lacks("capacity"):
		f.Fail("limit", "missing, want 1 or more; or capacity, which all callers share")
	}
	return f.Integer("limit", 1, MaxLimit, 0)
}

// pool reads what only a rule with a capacity says. index counts such rules of the file. Fields that have no meaning there are errors.
func (f ruleParser) pool(r *Rule, index int) {
	if index == maxPools {
		f.Fail("capacity", "got %d rules with one, want at most %d in a file", index+1, maxPools)
	}
	for _, field := range []string{"algorithm", "slots", "burst", "timezone", "anchor", "charge", "hold", "escalate"} {
		if f.Has(field) {
			f.Fail(field, "means nothing with capacity")
		}
	}
	if f.Has("overrides") {
		f.Fail("overrides", "means nothing with capacity: weights say which callers may use more")
	}
	if r.Measure != Requests {
		f.Fail("measure", "got %s, want %s with capacity: a refused request has no response, and no cost", r.Measure, Requests)
	}
	if len(r.Match.Statuses) > 0 {
		f.Fail("match", "got a status, want none with capacity: a refused request has no response")
	}
	if r.CountBlocked {
		f.Fail("count_blocked", "got true, want false with capacity: requests that the rule itself refuses always count as demand")
	}
	if f.Has("predict") && !f.Says("predict", PredictOff.String()) {
		f.Wrong("predict", "off with capacity: what a caller may use changes with what others ask for, and nobody knows that ahead")
	}
	if 0 < r.Limit && r.Limit < steadyCapacity {
		f.Warn("capacity", "got %d in a window, want %d or more: with fewer, chance alone makes demand and level jump", r.Limit, steadyCapacity)
	}
	r.Pool = &Pool{Index: index, protect: f.protect()}
	r.Pool.Capacity, r.Pool.Protect = r.Limit, protected(r.Limit, r.Pool.protect)
	r.Pool.weights = f.readOverrides(r, f.weights())
	f.poolWindow(r)
}

// poolWindow reads the window of a pool, and for how long a close lasts at least.
func (f ruleParser) poolWindow(r *Rule) {
	want := fmt.Sprintf("a duration from %s to %s with capacity", document.FormatDuration(minPoolWindow), document.FormatDuration(maxPoolWindow))
	text, ok := f.Required("window", want)
	if !ok {
		return
	}
	length, err := document.ParseDuration(text)
	if err != nil || length < minPoolWindow || length > maxPoolWindow {
		f.Wrong("window", want)
		return
	}
	quarter := length / window.Quarters
	if 0 < r.CloseFor && r.CloseFor < quarter {
		f.Fail("close_for", "got %s, want a quarter of the window or more with capacity: %s", document.FormatDuration(r.CloseFor), document.FormatDuration(quarter))
	}
	r.CloseFor = max(r.CloseFor, quarter)
	r.Window = window.NewPool(length)
	r.windowText = document.FormatDuration(length) + " pool"
}

// weights says how weights are read.
func (f ruleParser) weights() byCaller {
	return byCaller{"weights", "weights", fmt.Sprintf("a number from %v to %v", minWeight, maxWeight), func(v document.Value) (override, bool) {
		x, ok := v.Number()
		if !ok || math.IsNaN(x) || x < minWeight || x > maxWeight {
			return override{}, false
		}
		w := override{limit: int64(math.Round(x * pool.Unit))}
		if math.Abs(x*pool.Unit-float64(w.limit)) > 1e-6 { // far more than the error of x
			f.Document().Warnf(v.Position(), "weights: got %s, which is rounded to %s: a weight has three decimals", v, decimal(w.limit, pool.Unit))
		}
		return w, true
	}}
}

// protect reads which part of the capacity is protected, in thousandths of a percent.
func (f ruleParser) protect() int64 {
	const want = "a percentage of the capacity from 0.1% to 10%, such as 0.5%, with three decimals at most"
	text, ok := f.Text("protect", want)
	if !ok {
		return minProtect
	}
	n, ok := percentage(text)
	if !ok || n < minProtect || n > maxProtect {
		f.Wrong("protect", want)
	}
	return n
}

// percentage reads a percentage such as 0.1%, in thousandths of a percent.
func percentage(text string) (n int64, ok bool) {
	number, percent := strings.CutSuffix(text, "%")
	whole, fraction, dotted := strings.Cut(number, ".")
	if !percent || whole == "" || dotted && fraction == "" || len(fraction) > percentDecimals {
		return 0, false
	}
	v, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", percentDecimals-len(fraction)), 10, 32)
	return int64(v), err == nil
}

// protected returns a part of a capacity in pool.Units, rounded.
func protected(capacity, protect int64) int64 {
	const parts = 100 * percentUnit / pool.Unit
	return integer.Add(integer.MulDiv(capacity/parts, protect, 1), (capacity%parts*protect+parts/2)/parts)
}

// Pools returns the rules with a Pool, by its Index. The slice must not be changed.
func (s *Set) Pools() []*Rule { return s.pools }
