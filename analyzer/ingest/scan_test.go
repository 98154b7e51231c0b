package ingest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// scanner returns a scanner of the format, or fails the test.
func scanner(t testing.TB, format string, m Mapping) Scanner {
	t.Helper()
	f, err := NewFormat(format, m)
	if err != nil {
		t.Fatal(err)
	}
	return f.Scanner()
}

// callers parses kind=field arguments.
func callers(t testing.TB, args ...string) []CallerTemplate {
	t.Helper()
	var fields []CallerTemplate
	for _, a := range args {
		f, err := ParseCallerField(a)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, f)
	}
	return fields
}

// roomy returns a Line whose scratch need not grow for most lines, so that checkLine can tell where its views point to.
func roomy() *Line { return &Line{scratch: make([]byte, 0, maxScratch)} }

// checkLine fails the test unless l keeps what Line promises about an accepted line.
func checkLine(t testing.TB, line []byte, l *Line) {
	t.Helper()
	if l.Time < 0 || l.Time > maxSecond*second+second-1 {
		t.Errorf("time %d is out of range", l.Time)
	}
	if l.Cost < 0 || l.Status > 999 || len(l.Resource) > schemas.MaxResource {
		t.Errorf("got cost %d, status %d, a resource of %d bytes", l.Cost, l.Status, len(l.Resource))
	}
	if !slices.ContainsFunc(l.IDs, func(id string) bool { return id != "" }) {
		t.Error("accepted without a caller")
	}
	for _, s := range append(slices.Clone(l.IDs), l.Resource) {
		grown := cap(l.scratch) > maxScratch                                                                   // what was given out before lies in the array before
		if !grown && s != "/" && !schemas.Hashed(s) && !within(s, view(line)) && !within(s, view(l.scratch)) { // "/" is the path of http://host
			t.Errorf("%q is neither a view into the line nor into the scratch", s)
		}
	}
	for _, id := range l.IDs {
		if len(id) > schemas.MaxCallerID {
			t.Errorf("id of %d bytes", len(id))
		}
	}
}

// within reports whether s shares the memory of outer, or is empty.
func within(s, outer string) bool {
	at, start := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.StringData(outer)))
	return s == "" || at >= start && at+uintptr(len(s)) <= start+uintptr(len(outer))
}

func TestScanKnowsLineEndsAndEmptyLines(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{}), new(Line)
	for line, want := range map[string]Reason{
		"":                      Empty,
		"\r":                    Empty,
		" \t \r":                Empty,
		"\x00\x00\x00":          Empty, // a file that was extended before it was written
		benchCombined + "\r":    OK,
		"127.0.0.1":             BadTime,
		"x":                     BadAddress,
		strings.Repeat(" ", 99): Empty,
	} {
		if got := Scan(s, []byte(line), l); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

func TestLongLinesCountByTheirStart(t *testing.T) {
	// A client that sends a header of 64 KiB must not escape: its line counts by what stands before.
	s, l := scanner(t, "combined", Mapping{}), new(Line)
	long := benchCombined[:len(benchCombined)-1] + strings.Repeat("x", 2*MaxLine) + `"`
	if got := Scan(s, []byte(long), l); got != OK || l.IDs[0] != "83.149.9.216" || l.Status != 200 {
		t.Errorf("got %v, caller %q, status %d", got, l.IDs[0], l.Status)
	}
	if got := Scan(s, bytes.Repeat([]byte{'x'}, MaxLine+1), l); got != TooLong {
		t.Errorf("got %v, want %v", got, TooLong)
	}
	if got := Scan(s, bytes.Repeat([]byte{'x'}, MaxLine), l); got != BadAddress {
		t.Errorf("got %v, want %v", got, BadAddress)
	}
	j := scanner(t, "json", benchMapping())
	if got := Scan(j, []byte(strings.TrimSuffix(benchJSON, `"}`)+strings.Repeat("x", MaxLine)+`"}`), l); got != OK || l.Cost != 203023 {
		t.Errorf("json: got %v, cost %d", got, l.Cost)
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reasons {
		if name := r.String(); name == "" || name == "unknown" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[r.String()] = true
	}
	if Reasons.String() != "unknown" {
		t.Errorf("got %q for no reason at all", Reasons)
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	lines := map[string]struct {
		format string
		m      Mapping
		line   string
	}{
		"combined":  {"combined", Mapping{}, benchCombined},
		"ipv6":      {"combined", Mapping{}, strings.Replace(benchCombined, "83.149.9.216", "2001:DB8:0::1", 1)},
		"composite": {"combined", Mapping{Callers: callers(t, "ip_route=ip+resource", "agent=agent")}, benchCombined},
		"json":      {"json", benchMapping(), benchJSON},
		"escaped":   {"json", Mapping{Callers: callers(t, "key=k")}, `{"time":1431857103,"k":"a\"b"}`},
		"nested":    {"json", Mapping{Callers: callers(t, "key=a.b")}, `{"time":1431857103,"a":{"b":"c"}}`},
	}
	for name, c := range lines {
		s, l, line := scanner(t, c.format, c.m), new(Line), []byte(c.line)
		if got := Scan(s, line, l); got != OK { // also grows the scratch
			t.Errorf("%s: got %v", name, got)
		}
		if n := testing.AllocsPerRun(100, func() { Scan(s, line, l) }); n != 0 {
			t.Errorf("%s: got %v allocations a line, want 0", name, n)
		}
	}
}

func TestEarlierViewsSurviveLaterOnesOfTheSameLine(t *testing.T) {
	// Each id is built in the scratch, which has to grow while the first ones are already given out.
	kinds := callers(t, "ip=a", "k1=b+b+b", "k2=b+c+b", "k3=c+c+c")
	s := scanner(t, "json", Mapping{Callers: kinds})
	b, c := strings.Repeat("b", 60), strings.Repeat("c", 60)
	line := []byte(`{"time":1,"a":"::FFFF:1.2.3.4","b":"` + b + `","c":"` + c + `"}`)
	l := new(Line)
	if got := Scan(s, line, l); got != OK {
		t.Fatal(got)
	}
	want := []string{"1.2.3.4", b + "|" + b + "|" + b, b + "|" + c + "|" + b, c + "|" + c + "|" + c}
	if !slices.Equal(l.IDs, want) {
		t.Errorf("got %q, want %q", l.IDs, want)
	}
}
