package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestPeersCountWhatTheySay: requests of 6 000 that last 500 ms, against limits of 10 000 in a second, and of 2 in flight, with a lag of
// 100 ms. They come before and after the first arrival is known, before and after the first end is known, and in the second window.
func TestPeersCountWhatTheySay(t *testing.T) {
	times := []int64{0, 90, 110, 590, 610, 710, 1050, 1250}
	for name, want := range map[string]string{ // y is admitted
		"check and report": "yyyyynyn", // 12 000 are known at 690 ms, and 12 000 ended from 1.09 s to 1.11 s
		"flat hold 0":      "yyyyynyy", // but they arrived in the first window
		"flat hold 2000":   "yyyynnyy", // at 610 ms, the first cost 6 000, and two are in flight
		"flat hold 5000":   "yyynnnyy", // two are known to be in flight at 190 ms
		"oracle":           "yyynnnyy", // 12 000 are known at 190 ms
		"in flight":        "yyynnyyn", // 3 are in flight, 2, none, 1, and 2
	} {
		m := lastsOf(t, name == "in flight", "1s, algorithm: fixed")
		m.rule.Limit = 10_000
		if m.flies() {
			m.rule.Limit = 2
		}
		list := peersOf(m)
		i := slices.IndexFunc(list, func(p *peer) bool { return p.name == name })
		if m.flies() {
			i = 0
		}
		if i < 0 {
			t.Fatalf("got no peer %s", name)
		}
		s := &scripted{}
		for _, at := range times {
			s.list = append(s.list, Request{
				At: start + at*int64(ms), Cost: 6000, Duration: 500 * ms, Callers: []schemas.Caller{{Kind: Kind, ID: "c"}},
			})
		}
		list[i].run(&Config{Start: start, Lag: exactly(100 * ms)}, m, s, start+int64(2*time.Second))
		if s.said != want {
			t.Errorf("%s: got %s, want %s", name, s.said, want)
		}
	}
}

// scripted is traffic that a test has written.
type scripted struct {
	list []Request
	said string
}

func (s *scripted) next(r *Request) bool {
	if len(s.list) == 0 {
		return false
	}
	*r, s.list = s.list[0], s.list[1:]
	return true
}

func (s *scripted) decided(_ *Request, admitted bool) {
	s.said += map[bool]string{true: "y", false: "n"}[admitted]
}
