package record

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// ledger counts what a test has given to a Recorder and what it has reported of it.
type ledger struct {
	*server
	given            uint64 // requests, once for each caller that is charged
	drained, settled uint64
	acked, unknown   uint64
	undelivered      uint64
	now              time.Time
}

// TestConservation drives a Recorder that is far too small through anything a server and a link may do, and balances the
// books after every step, to the unit.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &ledger{server: newServer(Options{MaxEntries: 1, Responses: true}), now: noon}
		until := noon.Add(time.Hour)
		l.set.ApplyAt(noon, []schemas.Decision{{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "closed"}, Mode: schemas.ModeEnforce,
			CloseAt: noon.UnixNano(), Until: until.UnixNano(),
		}})
		t.Repeat(map[string]func(*rapid.T){
			"request": l.requests,
			"drain":   l.drains,
			"settle":  l.settles,
			"contend": func(t *rapid.T) { // every stripe is taken for one request
				for i := range l.rec.stripes {
					l.rec.stripes[i].takeWaiting()
				}
				l.request("unlucky", "/", l.now)
				l.given++
				for i := range l.rec.stripes {
					l.rec.stripes[i].release()
				}
			},
			"": func(t *rapid.T) { l.balance(t) },
		})
	})
}

// requests makes some requests of two callers.
func (l *ledger) requests(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "ms")) * time.Millisecond)
	spread := rapid.SampledFrom([]int{1, 1000}).Draw(t, "callers")
	count := rapid.Uint32Range(0, 3).Draw(t, "count")
	for i := range rapid.IntRange(1, 300).Draw(t, "requests") {
		var c gate.Callers
		c.AddAddr(l.ips, netip.AddrFrom4([4]byte{10, 0, byte(i % spread >> 8), byte(i % spread)}))
		closed := i%7 == 0
		if c.Add(l.keys, fmt.Sprint(i%spread)); closed {
			c.Add(l.keys, "closed")
		}
		v := l.set.CheckAt(&c, noon)
		if v.Closed != closed {
			t.Fatalf("got %+v, want closed %v", v, closed)
		}
		l.rec.Record(&c, v, Request{Resource: "/", At: l.now, Count: count})
		charged := uint64(2)
		if closed {
			charged = 1 // the caller whose gate was closed
		}
		l.given += charged * uint64(max(count, 1))
		if !closed && i%2 == 0 {
			l.rec.Respond(&c, Response{Resource: "/", Status: 200 + i%3, Cost: 1, At: l.now})
			l.given += 2
		}
	}
}

func (l *ledger) drains(t *rapid.T) {
	var seen uint64
	n := l.rec.Drain(func(_ uint64, e *schemas.Entry) {
		seen += uint64(e.Count)
		if e.Blocked != (e.ID == "closed") {
			t.Fatalf("got %+v, want blocked for the closed caller only", e)
		}
	})
	if seen != n {
		t.Fatalf("got entries of %d requests, want the %d that Drain says", seen, n)
	}
	l.drained += n
}

// settles says what became of some of what was drained.
func (l *ledger) settles(t *rapid.T) {
	n := rapid.Uint64Range(0, l.drained-l.settled).Draw(t, "n")
	l.settled += n
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		l.rec.Acked(n)
		l.acked += n
	case 1:
		l.rec.Unknown(n)
		l.unknown += n
	case 2:
		l.rec.Dropped(Undelivered, n)
		l.undelivered += n
	}
}

func (l *ledger) balance(t *rapid.T) {
	st := l.rec.Stats()
	if st.Accepted != l.given || st.Acked != l.acked || st.Unknown != l.unknown || st.Dropped[Undelivered] != l.undelivered {
		t.Fatalf("got %+v, want what was given and said: %+v", st, l)
	}
	if st.Accepted != st.Acked+st.DroppedTotal()+st.Unknown+st.Queued {
		t.Fatalf("got %+v, which does not add up", st)
	}
	if held := st.Queued - (l.drained - l.settled); held+l.drained+st.Dropped[Full]+st.Dropped[Contended] != l.given {
		t.Fatalf("got %+v with %d drained, of which %d settled, want %d in all", st, l.drained, l.settled, l.given)
	}
}
