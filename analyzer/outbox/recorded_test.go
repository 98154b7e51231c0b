package outbox

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestWhatIsPublishedIsThatRecorded: which decisions go out when, and what is repeated, follows from changes, plans and times alone. Times
// are multiples of 5 ms, so that they often are equal. Each line of testdata/recorded.txt is a place in a history, and a checksum of what
// went out since the line before. A change that is meant to change it rewrites the file with -update.
func TestWhatIsPublishedIsThatRecorded(t *testing.T) {
	var got strings.Builder
	for _, lag := range []int64{0, 20, 200, 3000} {
		r := newRecorded(t, lag*ms)
		for step := range 4000 {
			r.step()
			if step%200 == 199 {
				fmt.Fprintf(&got, "a lag of %d ms, step %d: %d wait, %d in force, %08x\n", lag, step+1, r.queue.Len(), r.force.Len(), r.sum)
				r.sum = 0
			}
		}
	}
	const file = "testdata/recorded.txt"
	if testenv.Update() {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(lines) || line != lines[i] {
			t.Fatalf("%s:%d: got\n%s, want\n%s\n(%s writes it)", file, i+1, line, lines[min(i, len(lines)-1)], testenv.UpdateCommand(t))
		}
	}
}

// recorded is a publisher without Kafka, and what happens to it at random.
type recorded struct {
	rng   *rand.Rand
	rules []*rules.Rule
	queue Queue
	force *InForce
	now   int64
	lag   int64
	count int64 // of records in the log
	sum   uint32
}

func newRecorded(t *testing.T, lag int64) *recorded {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: second, callers: key, limit: 10, window: 1s}\n"+
		"  - {name: shadow, callers: key, limit: 10, window: 10s, mode: shadow}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &recorded{rng: rand.New(rand.NewPCG(uint64(lag), 3)), rules: set.Rules, force: NewInForce(5), now: now, lag: lag}
}

// say adds to the checksum.
func (r *recorded) say(format string, args ...any) {
	r.sum = crc32.Update(r.sum, crc32.IEEETable, fmt.Appendf(nil, format+"\n", args...))
}

// show adds a decision to the checksum.
func (r *recorded) show(what string, d schemas.Decision) {
	share := ""
	if d.Share != nil {
		share = fmt.Sprintf("%+v", *d.Share)
	}
	d.Share = nil
	r.say("%s %+v %s", what, d, share)
}

// around returns a time near now.
func (r *recorded) around(before, after int64) int64 {
	return r.now + 5*ms*(r.rng.Int64N(before+after)-before)
}

// span returns a closure, or none.
func (r *recorded) span(isEarly bool) schemas.Span {
	if r.rng.IntN(3) == 0 {
		return schemas.Span{}
	}
	at := r.around(20, 60)
	return schemas.Span{CloseAt: at, Until: at + 5*ms*r.rng.Int64N(60), Early: isEarly}
}

func (r *recorded) share() *schemas.Share {
	if r.rng.IntN(4) > 0 {
		return nil
	}
	from := r.around(10, 20)
	return &schemas.Share{From: from, Until: from + 5*ms*r.rng.Int64N(100), Period: 100 * ms, Permits: 3}
}

func (r *recorded) caller() schemas.Caller {
	return schemas.Caller{Kind: "key", ID: string(rune('a' + r.rng.IntN(8)))}
}

func (r *recorded) change() fold.Change {
	closed, before := r.span(false), r.span(false)
	return fold.Change{
		Rule: r.rules[r.rng.IntN(len(r.rules))], Caller: r.caller(), At: r.around(20, 1), Offset: r.count - r.rng.Int64N(2), Limit: 10,
		Kind:     []policy.Transition{policy.Same, policy.Closed, policy.Closed, policy.Moved, policy.Moved, policy.Opened}[r.rng.IntN(6)],
		Before:   policy.Closure{CloseAt: before.CloseAt, Until: before.Until, Nth: 1},
		Closure:  policy.Closure{CloseAt: closed.CloseAt, Until: closed.Until, Nth: 1},
		Forecast: predict.Forecast{Next: r.span(r.rng.IntN(4) > 0), Share: r.share(), Covered: r.rng.IntN(5) == 0},
	}
}

func (r *recorded) plan() predict.Plan {
	rule, caller, first := r.rules[r.rng.IntN(len(r.rules))], r.caller(), r.span(r.rng.IntN(3) > 0)
	return predict.Plan{Rule: rule, Caller: caller, At: r.now, Offset: r.count - r.rng.Int64N(2), Shares: r.rng.IntN(5) == 0, Decision: schemas.Decision{
		Rule: rule.Name, Caller: caller, Mode: rule.Mode, CloseAt: first.CloseAt, Until: first.Until, Early: first.Early, Next: r.span(true),
		Share: r.share(), Evidence: schemas.Evidence{AsOfTime: r.around(20, 1)},
	}}
}

// step lets something happen.
func (r *recorded) step() {
	r.now += 5 * ms * r.rng.Int64N(3)
	if r.rng.IntN(500) == 0 {
		r.now += 5 * ms * r.rng.Int64N(60_000) // up to five minutes
	}
	r.count++
	switch n := r.rng.IntN(40); {
	case n < 28:
		r.offer()
	case n < 31:
		r.publish(r.queue.Take(r.now, r.rng.IntN(4)))
	case n < 34:
		at, ok := r.queue.Due()
		r.say("due %d %v", at, ok)
		r.publish(r.queue.Take(max(r.now, at), 0))
	case n < 37:
		r.repeat()
	case n < 38:
		c := r.change()
		r.queue.Add(decisionOf(&c), Opened)
	case n < 39:
		if r.rng.IntN(4) == 0 {
			r.publish(r.queue.TakeAll(r.now))
		}
	default:
		r.reconcile()
	}
}

func (r *recorded) offer() {
	changes, plans := make([]fold.Change, r.rng.IntN(3)), make([]predict.Plan, r.rng.IntN(3))
	for i := range changes {
		changes[i] = r.change()
	}
	for i := range plans {
		plans[i] = r.plan()
	}
	if r.rng.IntN(300) == 0 { // other rules open so many callers at once
		changes = make([]fold.Change, OpenTogether+r.rng.IntN(2))
		for i := range changes {
			changes[i] = r.change()
			changes[i].Kind = policy.Opened
		}
	}
	spared := r.queue.Offer(changes, plans, Terms{
		Now: r.now, AsOf: r.now - 5*ms*r.rng.Int64N(3), Lag: r.lag, Margin: 10 * ms, Measured: r.lag, Urgent: r.rng.IntN(20) == 0,
	})
	r.say("spared %d", spared)
}

func (r *recorded) publish(list []Item) {
	for i := range list {
		r.show(fmt.Sprint(list[i].Kind, list[i].Spared, len(list[i].Closes)), list[i].Decision)
		if !list[i].Spared {
			r.force.Set(&list[i].Decision, r.now)
		}
	}
}

// repeat goes through a cycle, whose order is that of a map.
func (r *recorded) repeat() {
	r.force.BeginCycle(r.now, r.count)
	some := r.force.Left() / 2
	list := r.force.Next(r.force.Left(), r.now)
	slices.SortFunc(list, byKey)
	for _, d := range list {
		r.show("repeat", d)
	}
	r.force.Repeated(some)
	r.say("left %d from %d", r.force.Left(), r.force.From())
	r.force.BeginCycle(r.now+sec, r.count+1) // it goes on with the one under way
	r.force.Repeated(r.force.Left())
	r.say("left %d from %d by rule %v", r.force.Left(), r.force.From(), r.force.ByRule())
}

func byKey(a, b schemas.Decision) int {
	return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Caller.ID, b.Caller.ID))
}

// reconcile lets another publisher take over from what gates hold.
func (r *recorded) reconcile() {
	believed := make(map[Key]schemas.Decision)
	for range 12 {
		d := r.plan().Decision
		believed[KeyOf(&d)] = d
	}
	changes := make([]fold.Change, 5)
	for i := range changes {
		changes[i] = r.change()
	}
	r.force = NewInForce(5)
	open := r.force.Reconcile(believed, changes, r.now, func(d *schemas.Decision) bool { return d.Caller.ID == "a" })
	slices.SortFunc(open, byKey)
	for _, d := range open {
		r.show("open", d)
	}
	r.repeat()
}
