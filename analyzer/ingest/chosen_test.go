package ingest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// nestedMapping reads one field of a nested object, as logs of Caddy need it.
func nestedMapping() Mapping {
	return Mapping{Callers: []CallerTemplate{{Kind: "ip", Template: "{request.remote_ip}"}}}
}

// longList returns a line as Caddy logs a request whose client sent n headers of one value, and then one header of so many
// values that the line is as long as one may be.
func longList(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"time":1,"request":{"remote_ip":"203.0.113.9","headers":{"A":[""`)
	b.WriteString(strings.Repeat(`,""`, n))
	b.WriteString(`],"B":[""`)
	b.WriteString(strings.Repeat(`,""`, (MaxLine-b.Len()-8)/3))
	b.WriteString(`]}}}`)
	return []byte(b.String())
}

// TestLongListsDoNotFillTheParser: a client sends headers whose lists are long, each time in another place. A parser that
// keeps the memory of each place keeps the square of a line: 160 KiB for each of these, and 1.6 GiB after all that there
// are.
func TestLongListsDoNotFillTheParser(t *testing.T) {
	testenv.Long(t)
	s, l := scanner(t, "json", nestedMapping()), new(Line)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range 1000 {
		if r := Scan(s, longList(n), l); r != OK || l.IDs[0] != "203.0.113.9" {
			t.Fatalf("%d headers: got %v, %+v", n, r, l)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 32<<20 {
		t.Errorf("got %d MiB kept by one scanner, want at most 32", kept>>20)
	}
	runtime.KeepAlive(s)
}

// deepRoutes returns templates of which a path of one letter fits all nodes but no end: each depth has the letter and a
// segment in braces.
func deepRoutes(depth int) (templates []string) {
	for i := range 1 << depth {
		t := ""
		for d := range depth {
			if i>>d&1 == 0 {
				t += "/a"
			} else {
				t += "/{x}"
			}
		}
		templates = append(templates, t+"/end")
	}
	return templates
}

// TestAPathVisitsANodeOnce: a path that fits many templates nearly costs at most one look at each of their nodes, and no
// more for segments that are repeated behind them.
func TestAPathVisitsANodeOnce(t *testing.T) {
	r, err := newRoutes(deepRoutes(8), "")
	if err != nil {
		t.Fatal(err)
	}
	nodes := countNodes(&r.root)
	for _, path := range []string{
		"a/a/a/a/a/a/a/a", "a/a/a/a/a/a/a/a/x", strings.Repeat("a/", 5000), strings.Repeat("a/", 8) + strings.Repeat("x", 60_000),
	} {
		visits := 0
		if got := r.root.findCounted(path, &visits); got != "" || r.name("/"+path) != "/"+path {
			t.Errorf("%.40q: got template %q, want none", path, got)
		}
		if visits > nodes {
			t.Errorf("%.40q: got %d visits, want at most %d, one for each node", path, visits, nodes)
		}
	}
}

func countNodes(n *route) int {
	if n == nil {
		return 0
	}
	all := 1 + countNodes(n.any)
	for _, next := range n.next {
		all += countNodes(next)
	}
	return all
}

// findCounted is find, and counts the nodes that it visits.
func (n *route) findCounted(path string, visits *int) string {
	*visits++
	segment, rest, more := strings.Cut(path, "/")
	for _, next := range [...]*route{n.next[segment], n.any} {
		switch {
		case next == nil || next == n.any && segment == "":
		case !more:
			if next.name != "" {
				return next.name
			}
		default:
			if t := next.findCounted(rest, visits); t != "" {
				return t
			}
		}
	}
	return n.rest
}

// chosenLines are lines of one length for each format: as software writes them, with a long random header, and as somebody
// chooses them who has read the source.
func chosenLines() map[string]struct {
	mapping Mapping
	lines   map[string]string
} {
	const n = 16 << 10
	random := make([]byte, n)
	for i := range random {
		random[i] = "abcdefghijklmnopqrstuvwxyz0123456789/=+-."[rand.IntN(41)]
	}
	fill := func(s string) string { return strings.Repeat(s, n/len(s)) }
	clf := func(agent string) string {
		return `203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "` + agent + `"`
	}
	flat := func(agent string) string {
		return `{"agent":` + agent + `,"request":{"remote_ip":"203.0.113.9"},"time":1}`
	}
	nested := func(headers string) string {
		return `{"time":1,"request":{"remote_ip":"203.0.113.9","headers":{` + headers + `"Z":["z"]}}}`
	}
	key := func(agent string) string { return `time=1 ip=203.0.113.9 status=200 key="` + agent + `"` }
	quoted := `"` + string(random) + `"`
	type set = struct {
		mapping Mapping
		lines   map[string]string
	}
	return map[string]set{
		"combined": {Mapping{Callers: []CallerTemplate{{Kind: "agent", Template: "{agent}"}}}, map[string]string{
			"random": clf(string(random)), "escaped quotes": clf(fill(`\"`)), "backslashes": clf(fill(`\\`)), "ends of a time": clf(fill(`] \"`)),
		}},
		"json": {nestedMapping(), map[string]string{
			"random": flat(quoted), "escaped quotes": flat(`"` + fill(`\"`) + `"`), "brackets": flat(fill("[") + fill("]")),
			"equal keys": flat("1," + fill(`"agent":1,`) + `"a":1`), "escaped keys": flat("1," + fill(`"\u0061":1,`) + `"a":1`),
			"random header": nested(`"A":[` + quoted + `],`), "many headers": nested(fill(`"A":["a"],`)), "one long list": nested(`"A":[` + fill(`"",`) + `""],`),
		}},
		"logfmt": {Mapping{Callers: []CallerTemplate{{Kind: "key", Template: "{key}"}}}, map[string]string{
			"random": key(string(random)), "escapes": key(fill(`\x41`)), "keys alone": key("") + fill(" a"), "equal keys": key("") + fill(" key=1"),
		}},
	}
}

// BenchmarkChosenInput reads lines of equal length: random ones, and the worst that was found.
func BenchmarkChosenInput(b *testing.B) {
	for format, set := range chosenLines() {
		f, err := NewFormat(format, set.mapping)
		if err != nil {
			b.Fatal(err)
		}
		for name, line := range set.lines {
			b.Run(format+"/"+name, func(b *testing.B) {
				s, l, text := f.Scanner(), new(Line), []byte(line)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					Scan(s, text, l)
				}
			})
		}
	}
	r, err := newRoutes(deepRoutes(6), "")
	if err != nil {
		b.Fatal(err)
	}
	for name, path := range map[string]string{"random": "/" + fmt.Sprint(rand.Uint64()), "fits all nearly": "/a/a/a/a/a/a/x"} {
		b.Run("routes of 64 templates/"+name, func(b *testing.B) {
			for b.Loop() {
				r.name(path)
			}
		})
	}
}
