package ingest

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// TestRealLog reads a real server's log and compares each line with what a regular expression and the standard library
// make of it; see the facts beside the log.
func TestRealLog(t *testing.T) {
	dir := os.Getenv("FLOODGATE_LOGS")
	if dir == "" {
		t.Skip("FLOODGATE_LOGS does not name a directory with real logs")
	}
	f, err := os.Open(filepath.Join(dir, "apache_combined.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	s, l, ids := scanner(t, "combined", Mapping{}), new(Line), map[string]bool{}
	total, unlike := 0, 0
	for lines := bufio.NewScanner(z); lines.Scan(); total++ {
		if got := Scan(s, lines.Bytes(), l); got != OK {
			t.Fatalf("%s: got %v", lines.Text(), got)
		}
		ids[strings.Clone(l.IDs[0])] = true
		m := combinedOracle.FindStringSubmatch(lines.Text())
		if m == nil {
			unlike++
			continue
		}
		when, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		got := fmt.Sprintf("%s %d %s %03d %d", l.IDs[0], l.Time, l.Resource, l.Status, l.Cost)
		if want := fmt.Sprintf("%s %d %s %s %s", m[1], when.UnixNano(), m[3]+" "+pathOf(m[4]), m[6], strings.Replace(m[7], "-", "0", 1)); err != nil || got != want {
			t.Errorf("%s: got %s, want %s, %v", lines.Text(), got, want, err)
		}
	}
	if total != 10_000 || len(ids) != 1753 || unlike > 20 {
		t.Errorf("got %d lines of %d callers, %d of them unlike the others", total, len(ids), unlike)
	}
}

// TestLinesComeBack writes lines from their parts and reads the parts back.
func TestLinesComeBack(t *testing.T) {
	s := scanner(t, "combined", Mapping{Callers: callers(t, "user=user", "method=method", "ref=referer", "agent=agent")})
	word := rapid.StringMatching(`[!#-Z\]-~]{1,30}`) // without space, quote, bracket and backslash
	rapid.Check(t, func(t *rapid.T) {
		var raw [16]byte
		copy(raw[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))
		addr := netip.AddrFrom16(raw)
		if rapid.Bool().Draw(t, "ipv4") {
			addr = netip.AddrFrom4([4]byte(raw[:4]))
		}
		when := time.Unix(rapid.Int64Range(86400, maxSecond-86400).Draw(t, "time"), 0).In(time.FixedZone("", 60*rapid.IntRange(-720, 840).Draw(t, "zone")))
		user, method, ref, agent := word.Draw(t, "user"), rapid.StringMatching(`[A-Z]{1,9}`).Draw(t, "method"), word.Draw(t, "referer"), word.Draw(t, "agent")
		path := "/" + rapid.StringMatching(`[a-zA-Z0-9/._%~-]{0,40}`).Draw(t, "path")
		query := rapid.SampledFrom([]string{"", "?", "?a=b", "?a=b?c"}).Draw(t, "query")
		status, cost := rapid.IntRange(100, 599).Draw(t, "status"), rapid.Int64Range(0, 1e17).Draw(t, "cost")
		line := fmt.Appendf(nil, `%s - %s [%s] "%s %s%s HTTP/1.1" %d %d "%s" "%s"`, addr, user,
			when.Format("02/Jan/2006:15:04:05 -0700"), method, path, query, status, cost, ref, agent)
		l := new(Line)
		if got := Scan(s, line, l); got != OK {
			t.Fatalf("%s: got %v", line, got)
		}
		absent := func(s string) string { return strings.TrimSuffix(s, map[bool]string{true: "-"}[s == "-"]) }
		counted := addr.Unmap()
		if counted.Is6() {
			clear(raw[8:])
			counted = netip.AddrFrom16(raw)
		}
		want := []string{counted.String(), absent(user), method, absent(ref), absent(agent)}
		if fmt.Sprint(l.IDs) != fmt.Sprint(want) || l.Time != when.UnixNano() || l.Resource != schemas.Method(method)+" "+path || int(l.Status) != status || l.Cost != cost {
			t.Fatalf("%s: got %+v, want %v", line, l, want)
		}
	})
}
