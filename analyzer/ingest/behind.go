package ingest

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/509da70d/floodgate/schemas"
)

// Bounds of what Behind looks at.
const (
	behindLines  = 1000 // of one scanner
	behindEnough = 20   // lines that a conclusion needs
	behindJudged = 200  // lines after which a log that goes on is judged
	behindNearly = 0.95 // of the lines is nearly all of them
)

// Behind sees whether a log counts proxies in place of the clients behind them: whether the addresses that are counted are private,
// and what becomes of forwarded addresses. It looks at the first 1000 lines of each scanner. Any goroutine may use it.
type Behind struct {
	trusted bool                  // the mapping trusts proxies
	ip      int                   // index of callers of kind ip in Line.IDs; negative: there are none
	judge   func(advice []string) // see Noting

	mu        sync.Mutex
	lines     int // guarded by mu: that were looked at
	private   int // guarded by mu: whose client has a private address
	quoted    int // guarded by mu: that end in a quoted address that is not read
	forwarded int // guarded by mu: that have a forwarded address where the mapping looks for it
	behind    int // guarded by mu: whose client stood behind a trusted proxy
}

// Noting returns a copy of the format whose scanners are seen by a Behind. After 200 lines it calls judge once with its advice, if there is
// some. A nil judge is never called: a log that ends has an Advice at its end.
func (f *Format) Noting(judge func(advice []string)) (*Format, *Behind) {
	b := &Behind{trusted: f.trusts, ip: slices.Index(f.kinds, schemas.KindIP), judge: judge}
	made := *f
	made.open = func() Scanner { return &notingScanner{Scanner: f.open(), to: b} }
	return &made, b
}

// notingScanner shows a Behind the first lines of a Scanner.
type notingScanner struct {
	Scanner

	to   *Behind
	seen int
}

// Scan implements Scanner.
func (s *notingScanner) Scan(line []byte, l *Line) Reason {
	reason := s.Scanner.Scan(line, l)
	if reason == OK && s.seen < behindLines {
		s.seen++
		s.to.note(line, l)
	}
	return reason
}

// note looks at a line that counts.
func (b *Behind) note(line []byte, l *Line) {
	if b.ip < 0 || l.IDs[b.ip] == "" {
		return
	}
	if b.count(line, l) == behindJudged && b.judge != nil {
		if advice := b.Advice(); len(advice) > 0 {
			b.judge(advice)
		}
	}
}

// count counts a line, and returns how many there are.
func (b *Behind) count(line []byte, l *Line) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines++
	if private(l.IDs[b.ip]) {
		b.private++
	}
	if l.forwarded {
		b.forwarded++
	} else if endsInAddress(line) {
		b.quoted++
	}
	if l.behind {
		b.behind++
	}
	return b.lines
}

// Advice returns what was seen that is probably not meant, for people: one sentence each.
func (b *Behind) Advice() (advice []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines < behindEnough {
		return nil
	}
	nearlyAll := func(n int) bool { return float64(n) >= behindNearly*float64(b.lines) }
	switch {
	case b.trusted && b.forwarded == 0:
		advice = append(advice, "the trusted proxies have no effect: no line has forwarded addresses where this format looks for them. "+
			`--format 'nginx:...' or 'apache:...' with the text of your log_format says where they stand`)
	case b.trusted && b.behind == 0:
		advice = append(advice, "the trusted proxies have no effect: no line comes from one of their networks")
	case nearlyAll(b.quoted):
		advice = append(advice, "the lines end in a quoted address that is not counted. If it is X-Forwarded-For of your proxies, "+
			"--trusted with the networks of these counts the clients behind them")
	}
	if nearlyAll(b.private) {
		advice = append(advice, fmt.Sprintf("%d of %d callers that were looked at have private addresses. If these are proxies of your own, "+
			"they are counted in place of your clients: log X-Forwarded-For, and give the networks of the proxies by --trusted", b.private, b.lines))
	}
	return advice
}

// private reports whether an address is of no client on the Internet.
func private(text string) bool {
	addr, err := netip.ParseAddr(text)
	// Between carriers and their customers (RFC 6598), clouds have load balancers.
	carriers := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)
	return err == nil && (addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || carriers.Contains(addr))
}

// endsInAddress reports whether a line ends in a quoted list of addresses, as X-Forwarded-For is.
func endsInAddress(line []byte) bool {
	line = bytes.TrimRight(line[:min(len(line), MaxLine)], " \r")
	if len(line) == 0 || line[len(line)-1] != '"' {
		return false
	}
	line = line[:len(line)-1]
	list := string(line[bytes.LastIndexByte(line, '"')+1:])
	_, err := netip.ParseAddr(strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:]))
	return err == nil
}
