package replay

import (
	"fmt"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The oracle counts a log as slowly and as plainly as the words of analyzer/rules/README.md can be written down, and
// shares no code with what it judges: regular expressions, package time, one list of admissions per caller.

// verdict is what the oracle says about a log.
type verdict struct {
	Lines    int            `json:"lines"`
	Rejected map[string]int `json:"rejected_by_reason"`
	Late     int            `json:"late"`
	Callers  int            `json:"callers"`
	Closes   []string       `json:"closes"` // rule caller close_at until
	Blocked  int            `json:"blocked"`
}

type oracleLine struct {
	caller string
	at     time.Time
}

// oracleWindow counts one caller under one rule: it is told of an admission and returns until when the window is full.
type oracleWindow func(at time.Time) (until time.Time)

// oracleRule makes the window of a caller.
type oracleRule func() oracleWindow

func oracle(log string, reorder time.Duration, rules ...oracleRule) verdict {
	v := verdict{Rejected: map[string]int{}, Closes: []string{}}
	var lines []oracleLine
	var newest time.Time
	for text := range strings.Lines(log) {
		v.Lines++
		line, reason := oracleRead(strings.TrimRight(text, "\r\n"))
		switch {
		case reason != "":
			v.Rejected[reason]++
		case line.at.Before(newest.Add(-reorder)):
			v.Late++
		default:
			lines = append(lines, line)
			if line.at.After(newest) {
				newest = line.at
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b oracleLine) int { return a.at.Compare(b.at) })
	type state struct {
		windows []oracleWindow
		until   []time.Time
	}
	callers := map[string]*state{}
	for _, l := range lines {
		s := callers[l.caller]
		if s == nil {
			s = &state{until: make([]time.Time, len(rules))}
			for _, r := range rules {
				s.windows = append(s.windows, r())
			}
			callers[l.caller] = s
		}
		if slices.ContainsFunc(s.until, l.at.Before) {
			v.Blocked++
			continue
		}
		for i, w := range s.windows {
			if until := w(l.at); until.After(l.at) {
				s.until[i] = until
				v.Closes = append(v.Closes, fmt.Sprintf("r%d %s %s %s", i, l.caller, l.at.Format(time.RFC3339Nano), until.Format(time.RFC3339Nano)))
			}
		}
	}
	v.Callers = len(callers)
	return v
}

var (
	oracleHead = regexp.MustCompile(`^(\S*) `)
	oracleTime = regexp.MustCompile(`^\S* .*?\[([^\]]{26})(\] "|\]?$)`)
)

func oracleRead(text string) (oracleLine, string) {
	if strings.Trim(text, "\x00 \t") == "" {
		return oracleLine{}, "empty"
	}
	host := text
	if m := oracleHead.FindStringSubmatch(text); m != nil {
		host = m[1]
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return oracleLine{}, "client address"
	}
	m := oracleTime.FindStringSubmatch(text)
	if m == nil {
		return oracleLine{}, "bad time"
	}
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[1])
	if err != nil {
		return oracleLine{}, "bad time"
	}
	if addr = addr.Unmap().WithZone(""); addr.Is6() { // the first four of eight groups are the client
		groups := strings.Split(addr.StringExpanded(), ":")
		addr = netip.MustParseAddr(strings.Join(groups[:4], ":") + "::")
	}
	return oracleLine{"ip:" + addr.String(), at.UTC()}, ""
}

func oracleFixed(limit int, length time.Duration) oracleRule {
	return func() oracleWindow {
		counts := map[int64]int{}
		return func(at time.Time) time.Time {
			n := at.UnixNano() / int64(length)
			if counts[n]++; counts[n] < limit {
				return time.Time{}
			}
			return time.Unix(0, (n+1)*int64(length)).UTC()
		}
	}
}

func oracleSliding(limit int, length time.Duration, slots int64) oracleRule {
	width := (int64(length) + slots - 1) / slots
	return func() oracleWindow {
		counts := map[int64]int{}
		sum := func(k int64) (n int) {
			for i := k - slots; i <= k; i++ {
				n += counts[i]
			}
			return n
		}
		return func(at time.Time) time.Time {
			k := at.UnixNano() / width
			counts[k]++
			for sum(k) >= limit {
				k++
			}
			return time.Unix(0, k*width).UTC() // the slot at hand if it was never full: not after at
		}
	}
}

func oracleLog(limit int, length time.Duration) oracleRule {
	return func() oracleWindow {
		var times []time.Time
		return func(at time.Time) time.Time {
			times = append(times, at)
			if len(times) < limit {
				return time.Time{}
			}
			return times[len(times)-limit].Add(length)
		}
	}
}

func oracleGCRA(limit int, length time.Duration, burst int64) oracleRule {
	step := big.NewInt(int64(length) / int64(limit))
	return func() oracleWindow {
		tat := new(big.Int)
		return func(at time.Time) time.Time {
			t := big.NewInt(at.UnixNano())
			if tat.Cmp(t) < 0 {
				tat.Set(t)
			}
			tat.Add(tat, step)
			bound := new(big.Int).Mul(step, big.NewInt(burst))
			if bound.Add(bound, t).Add(bound, big.NewInt(int64(length))); tat.Cmp(bound) > 0 {
				tat.Set(bound)
			}
			until := new(big.Int).Mul(step, big.NewInt(1-burst))
			return time.Unix(0, until.Add(until, tat).Int64()).UTC()
		}
	}
}

// of is the same about a run.
func (o outcome) verdict() verdict {
	v := verdict{
		Lines: int(o.summary.Lines), Rejected: map[string]int{}, Late: int(o.summary.Late),
		Callers: int(o.summary.Callers), Closes: []string{}, Blocked: int(o.summary.Blocked),
	}
	for reason, n := range o.summary.RejectedByReason {
		v.Rejected[reason] = int(n)
	}
	for _, c := range o.closes {
		v.Closes = append(v.Closes, c.Rule+" "+c.brief())
	}
	return v
}
