package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// span closes a caller from a time until another, in Unix seconds.
type span struct {
	From  float64
	Until float64
}

// decision says when a caller is closed under a rule.
type decision struct {
	rule       string
	shadow     bool
	spans      []span
	limit      int64
	window     float64
	partition  int
	generation int64 // of the start after which it came
}

// memory is what a gate was told. One goroutine at a time may take lines; any may judge.
type memory struct {
	maxHeld int
	mu      sync.Mutex           // protects kinds
	kinds   map[string]*sync.Map // of each kind by id: []decision, which is replaced as a whole
	count   atomic.Int64         // of decisions held
	valid   atomic.Int64         // the first generation that counts
	states  atomic.Value         // []string, of partitions
	heard   atomic.Int64         // when a line came last, in nanoseconds since begun
	begun   time.Time            // with a reading of the monotonic clock
	dropped atomic.Int64         // decisions for which there was no room
	garbage atomic.Int64         // lines that could not be read

	// Of the one that takes lines.
	generation int64 // how many starts came that did not resume
	understood bool  // the feed has this version
	begins     bool  // no start has come yet
	cursor     string
	swept      int // heartbeats since the last sweep
}

func newMemory(maxHeld int) *memory {
	m := &memory{maxHeld: maxHeld, kinds: make(map[string]*sync.Map), begun: time.Now()}
	m.states.Store([]string{})
	return m
}

// kind returns what is held of callers of a kind, by id.
func (m *memory) kind(name string) *sync.Map {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kinds[name] == nil {
		m.kinds[name] = new(sync.Map)
	}
	return m.kinds[name]
}

// elapsed is the monotonic clock, in nanoseconds.
func (m *memory) elapsed() int64 { return int64(time.Since(m.begun)) }

func unix(at time.Time) float64 { return float64(at.UnixNano()) / 1e9 }

// line is what this gate reads of a line.
type line struct {
	Type       string
	Version    int
	Resumed    bool
	Cursor     string
	Rule       string
	Kind       string
	ID         string `json:"id"`
	IDBase64   []byte `json:"id_base64"` //nolint:tagliatelle // as specified
	Mode       string
	Spans      []span
	Limit      int64
	Window     float64
	Partition  int
	Partitions []struct{ State string }
}

// connects says that a feed begins.
func (m *memory) connects() { m.understood, m.begins = false, true }

// stops reports whether the feed has another version.
func (m *memory) stops() bool { return !m.understood && !m.begins }

// take takes a line. A line that cannot be read is counted, and changes nothing.
func (m *memory) take(text []byte, now float64, elapsed int64) {
	m.heard.Store(elapsed)
	var l line
	err := json.Unmarshal(text, &l)
	if err == nil && l.Type == "" {
		err = errors.New("no type")
	}
	if err == nil {
		err = m.apply(&l, now)
	}
	if err != nil {
		m.garbage.Add(1)
	}
}

func (m *memory) apply(l *line, now float64) error {
	if l.Type == "start" {
		m.begins, m.understood = false, l.Version == 1
		if m.understood && !l.Resumed {
			m.generation++
			m.cursor = ""
		}
	}
	if !m.understood {
		return nil
	}
	switch l.Type {
	case "decision":
		if err := m.decide(l, now); err != nil {
			return err
		}
	case "current":
		m.valid.Store(m.generation)
	case "heartbeat":
		states := make([]string, len(l.Partitions))
		for i, p := range l.Partitions {
			states[i] = p.State
		}
		m.states.Store(states)
		m.swept++
		if m.swept >= 10 {
			m.sweep(now)
		}
	}
	if l.Cursor != "" {
		m.cursor = l.Cursor
	}
	return nil
}

func (m *memory) decide(l *line, now float64) error {
	id := l.ID
	if len(l.IDBase64) > 0 {
		id = string(l.IDBase64)
	}
	if l.Kind == "" || id == "" || l.Mode != "enforce" && l.Mode != "shadow" || l.Window < 0 || l.Window > 1e11 {
		return fmt.Errorf("decision of kind %q and mode %q", l.Kind, l.Mode)
	}
	for _, s := range l.Spans {
		if !(0 <= s.From && s.From < s.Until && s.Until < 1e11) {
			return fmt.Errorf("span from %v until %v", s.From, s.Until)
		}
	}
	held := m.kind(l.Kind)
	var old, others []decision
	if value, ok := held.Load(id); ok {
		old = value.([]decision) //nolint:errcheck,forcetypeassert // there is nothing else in it
	}
	for _, d := range old {
		if d.rule != l.Rule {
			others = append(others, d)
		}
	}
	if len(l.Spans) > 0 && len(others) == len(old) && int(m.count.Load()) >= m.maxHeld {
		m.dropped.Add(1)
		return nil
	}
	d := decision{
		rule: l.Rule, shadow: l.Mode == "shadow", spans: l.Spans, limit: l.Limit, window: l.Window, partition: l.Partition, generation: m.generation,
	}
	m.replace(held, id, old, append(others, d), now)
	return nil
}

// replace keeps of these decisions of a caller those that count.
func (m *memory) replace(held *sync.Map, id string, old, decisions []decision, now float64) {
	var kept []decision
	for _, d := range decisions {
		if m.counts(&d, now) {
			kept = append(kept, d)
		}
	}
	m.count.Add(int64(len(kept) - len(old)))
	if len(kept) > 0 {
		held.Store(id, kept)
	} else if len(old) > 0 {
		held.Delete(id)
	}
}

// counts reports whether a decision closes its caller now or later.
func (m *memory) counts(d *decision, now float64) bool {
	if d.generation < m.valid.Load() {
		return false
	}
	for _, s := range d.spans {
		if s.Until > now {
			return true
		}
	}
	return false
}

// sweep forgets what counts no more.
func (m *memory) sweep(now float64) {
	m.swept = 0
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, held := range m.kinds {
		held.Range(func(id, value any) bool {
			decisions := value.([]decision) //nolint:errcheck,forcetypeassert // there is nothing else in it
			for i := range decisions {
				if !m.counts(&decisions[i], now) {
					m.replace(held, id.(string), decisions, decisions, now) //nolint:errcheck,forcetypeassert // likewise
					break
				}
			}
			return true
		})
	}
}

// verdict is what a gate says of a request.
type verdict struct {
	closed bool
	shadow bool // a rule in mode shadow would have refused it
	stale  bool // it is refused only because decisions are stale
	rule   string
	retry  int64 // seconds
	limit  int64
	window float64
}

// judge judges a request by the decisions about its callers. Those of generations before valid do not count. A new feed tells its decisions
// first, and then makes them valid. So a request must read valid before the decisions.
func (m *memory) judge(hits [][]decision, valid int64, policy string, now float64, elapsed int64) verdict {
	refuses := policy == "closed" && m.anyStale(elapsed)
	for _, shadow := range []bool{false, true} {
		var found *decision
		until := 0.0
		for _, decisions := range hits {
			if d, end := m.closedBy(decisions, valid, policy, shadow, now, elapsed); end > until {
				found, until = d, end
			}
		}
		if found != nil && (!shadow || !refuses) {
			retry := math.Max(1, math.Ceil(until-now))
			return verdict{closed: !shadow, shadow: shadow, rule: found.rule, retry: int64(retry), limit: found.limit, window: found.window}
		}
	}
	return verdict{closed: refuses, stale: refuses, retry: 1}
}

// closedBy returns the decision that closes a caller for longest, and when its gate opens: 0 if it is open.
func (m *memory) closedBy(
	decisions []decision, valid int64, policy string, shadow bool, now float64, elapsed int64,
) (found *decision, until float64) {
	var spans []span
	for i := range decisions {
		d := &decisions[i]
		if d.shadow != shadow || d.generation < valid || policy == "open" && m.stale(d.partition, elapsed) {
			continue
		}
		spans = append(spans, d.spans...)
		for _, s := range d.spans {
			if s.From <= now && now < s.Until && s.Until > until {
				found, until = d, s.Until
			}
		}
	}
	for grown := found != nil; grown; { // spans that follow without a gap
		grown = false
		for _, s := range spans {
			if s.From <= until && s.Until > until {
				until, grown = s.Until, true
			}
		}
	}
	return found, until
}

func (m *memory) anyStale(elapsed int64) bool {
	for p := range m.states.Load().([]string) { //nolint:errcheck,forcetypeassert // there is nothing else in it
		if m.stale(p, elapsed) {
			return true
		}
	}
	return false
}

func (m *memory) stale(partition int, elapsed int64) bool {
	states := m.states.Load().([]string) //nolint:errcheck,forcetypeassert // there is nothing else in it
	if partition < 0 || partition >= len(states) {
		return false
	}
	silent := elapsed-m.heard.Load() >= int64(3*time.Second)
	return states[partition] == "stale" || silent && states[partition] == "fresh"
}

// setFields sets the header fields of the answer to a refused request.
func (v *verdict) setFields(h http.Header) {
	seconds := strconv.FormatInt(v.retry, 10)
	h.Set("Retry-After", seconds)
	if v.rule == "" {
		return
	}
	for _, c := range v.rule {
		if c < ' ' || c > '~' {
			return
		}
	}
	name := `"` + strings.ReplaceAll(strings.ReplaceAll(v.rule, `\`, `\\`), `"`, `\"`) + `"`
	h.Set("RateLimit", name+";r=0;t="+seconds)
	if v.limit > 0 && v.limit < 1e15 && v.window > 0 {
		h.Set("RateLimit-Policy", name+";q="+strconv.FormatInt(v.limit, 10)+";w="+strconv.FormatInt(int64(math.Ceil(v.window)), 10))
	}
}
