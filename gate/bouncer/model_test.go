package bouncer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// firewall is a bouncer. Either it works as CrowdSec's firewall bouncer in nftables mode: it applies "deleted" first, and skips what its set
// holds already. Or it works as the plugin for Traefik: it applies "new" first, and overwrites. Elements leave the set by themselves.
type firewall struct {
	agent      string
	overwrites bool
	set        map[string]time.Time // by value: when the element leaves
}

func (f *firewall) apply(s stream, now time.Time) {
	maps.DeleteFunc(f.set, func(_ string, until time.Time) bool { return !until.After(now) })
	for _, d := range s.Deleted {
		if !f.overwrites {
			delete(f.set, d.Value)
		}
	}
	for _, d := range s.New {
		if _, held := f.set[d.Value]; f.overwrites || !held {
			left, _ := time.ParseDuration(d.Duration)
			f.set[d.Value] = now.Add(left)
		}
	}
	for _, d := range s.Deleted {
		if f.overwrites {
			delete(f.set, d.Value)
		}
	}
}

// TestFirewallsHoldWhatIsClosed: whatever is decided, by several rules, forwards and backwards, and whatever a bouncer missed: after
// each poll its set holds the addresses that are closed, and nothing else, and no answer deletes one of these. The set of a bouncer that
// overwrites has the ends of now.
func TestFirewallsHoldWhatIsClosed(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, 1, Options{})
			bouncers := []*firewall{{"a", false, map[string]time.Time{}}, {"b", false, map[string]time.Time{}}, {"c", true, map[string]time.Time{}}}
			for range 150 {
				w.act(random)
				f := bouncers[random.IntN(len(bouncers))]
				w.agent = f.agent
				query := ""
				switch random.IntN(12) {
				case 0: // the answer is lost
					r := request("/v1/decisions/stream")
					r.RemoteAddr = w.address
					r.Header.Set("User-Agent", f.agent)
					w.ServeHTTP(broken{header: http.Header{}}, r)
					continue
				case 1: // it starts again, with an empty set
					clear(f.set)
					query = "startup=true"
				}
				answer := w.get(query)
				f.apply(answer, time.Now())
				w.compare(fmt.Sprintf("seed %d, bouncer %s", seed, f.agent), f, &answer)
			}
		})
	}
}

// act decides something, or lets time pass.
func (w *world) act(random *rand.Rand) {
	id := fmt.Sprintf("192.0.2.%d", random.IntN(6))
	if random.IntN(4) == 0 {
		id = fmt.Sprintf("2001:db8:0:%x::", random.IntN(3)+1)
	}
	rule := []string{"a", "b", "c"}[random.IntN(3)]
	switch random.IntN(10) {
	case 0, 1, 2, 3:
		w.decide(rule, id, 0, 5+random.Float64()*60)
	case 4:
		w.decide(rule, id, random.Float64()*20, 25+random.Float64()*60)
	case 5:
		w.decide(rule, id, 0, 0)
	case 6:
		w.decide(rule, id, 0, 30, func(d *schemas.Decision) { d.Mode = schemas.ModeShadow })
	case 7:
		w.decide(rule, id, 0, 15, func(d *schemas.Decision) {
			d.Next = schemas.Span{CloseAt: d.Until + int64(random.IntN(2))*5e9, Until: d.Until + 25e9, Early: random.IntN(2) == 0}
		})
	default:
		w.pass(time.Duration(random.IntN(12000)) * time.Millisecond)
	}
}

// compare compares a set with the truth, by brute force.
func (w *world) compare(what string, f *firewall, answer *stream) {
	w.t.Helper()
	now := time.Now()
	want := map[string]time.Time{}
	for d := range w.board.All {
		for _, s := range []schemas.Span{{CloseAt: d.CloseAt, Until: d.Until}, d.Next} {
			if s == (schemas.Span{CloseAt: d.CloseAt, Until: d.Until}) && d.Next.CloseAt == d.Until && !d.Next.Early {
				s.Until = d.Next.Until
			}
			closed := s.CloseAt <= now.UnixNano() && s.Until > now.UnixNano() && s.Until-s.CloseAt >= int64(DefaultMinClosure)
			if closed && !s.Early && d.Mode == schemas.ModeEnforce {
				value := w.prefix(mustAddr(d.Caller.ID)).String()
				if p := w.prefix(mustAddr(d.Caller.ID)); p.IsSingleIP() {
					value = d.Caller.ID
				}
				if until := time.Unix(0, s.Until); until.After(want[value]) {
					want[value] = until
				}
			}
		}
	}
	for value, until := range want {
		if until.Sub(now) < shortestDuration { // it is closed, and not given any more
			continue
		}
		if got, held := f.set[value]; !held || f.overwrites && until.Sub(got).Abs() > time.Millisecond {
			w.t.Fatalf("%s: %s: got it held %t for %v, want it for %v", what, value, held, got.Sub(now), until.Sub(now))
		}
	}
	for _, d := range answer.Deleted {
		if until, closed := want[d.Value]; closed {
			w.t.Fatalf("%s: %s: got it deleted, want it kept: it is closed for %v", what, d.Value, until.Sub(now))
		}
	}
	for value, until := range f.set {
		if _, closed := want[value]; !closed && until.Sub(now) > time.Second {
			w.t.Fatalf("%s: %s: got it held for %v, want it open", what, value, until.Sub(now))
		}
	}
}
