package replay

import (
	"strings"

	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Pool says what a rule with a capacity would have done, in windows one after the other. Callers contend in a window if all of them together
// ask for more than the capacity in it.
type Pool struct {
	Rule      string  `json:"rule"`
	Capacity  int64   `json:"capacity"`
	Contended float64 `json:"contended_seconds"`
	Limited   int64   `json:"callers_limited"`
	Refused   int64   `json:"refused"`  // requests, by this rule
	Asked     float64 `json:"asked"`    // in windows in which callers contend, as a share of the capacity
	Used      float64 `json:"admitted"` // likewise
	Most      float64 `json:"admitted_max"`

	// The best static limit is the largest limit of each caller in a window under which callers that contend use the capacity on average.
	// It refuses some also where nobody contends.
	Static        int64 `json:"static_limit,omitempty"`
	StaticRefused int64 `json:"static_refused_needlessly,omitempty"` // requests in windows in which nobody contends
}

// Pooled makes the Pool of a rule. One goroutine uses it.
type Pooled struct {
	rule     *rules.Rule
	end      int64             // of the window, in Unix nanoseconds
	asked    map[string]*int64 // requests in the window, by id: an assignment to the map would take over the key, which is only borrowed
	total    int64
	admitted int64
	limited  map[string]struct{}

	contended, calm pool.Tally // what callers asked for in a window, of all windows of each sort
	windows         int64      // in which callers contend
	sum             Pool
}

// NewPooled returns a Pooled that nobody has asked.
func NewPooled(r *rules.Rule) *Pooled {
	return &Pooled{
		rule: r, asked: make(map[string]*int64), limited: make(map[string]struct{}), sum: Pool{Rule: r.Name, Capacity: r.Limit},
	}
}

// Ask notes a request. covered says that the rule has closed its caller.
func (x *Pooled) Ask(e *schemas.Entry, blocked, covered bool) {
	if !x.rule.Matches(e) || blocked && !covered {
		return
	}
	if e.Time >= x.end {
		x.add()
		length := x.rule.Window.Length(e.Time)
		x.end = e.Time - e.Time%length + length
	}
	if n, ok := x.asked[e.ID]; ok {
		*n++
	} else {
		x.asked[strings.Clone(e.ID)] = new(int64(1))
	}
	x.total++
	if !covered {
		x.admitted++
		return
	}
	x.sum.Refused++
	if _, ok := x.limited[e.ID]; !ok {
		x.limited[strings.Clone(e.ID)] = struct{}{}
	}
}

// add adds the window that is over to the sum.
func (x *Pooled) add() {
	t := &x.calm
	if x.total > x.rule.Limit {
		t = &x.contended
		x.windows++
		x.sum.Asked += float64(x.total)
		x.sum.Used += float64(x.admitted)
		x.sum.Most = max(x.sum.Most, float64(x.admitted)/float64(x.rule.Limit))
	}
	for _, n := range x.asked {
		t.Add(&pool.Terms{Capacity: x.rule.Limit}, *n, pool.Unit)
	}
	t.Total += x.total
	clear(x.asked)
	x.total, x.admitted = 0, 0
}

// Result returns the sum at the end.
func (x *Pooled) Result() Pool {
	x.add()
	s := x.sum
	s.Limited = int64(len(x.limited))
	if x.windows == 0 {
		return s
	}
	windows, capacity := float64(x.windows), float64(x.rule.Limit)
	s.Contended = windows * float64(x.rule.Window.Length(0)) / 1e9
	s.Asked, s.Used = s.Asked/windows/capacity, s.Used/windows/capacity
	s.Static = max(1, pool.Fill(x.rule.Limit*x.windows, &x.contended)/pool.Unit)
	s.StaticRefused = x.calm.Total - x.calm.Under(s.Static)
	return s
}
