package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// hostile is text that clients put into what servers log. Servers never log a raw newline: the line ends there.
func hostile() []string {
	return []string{
		"\x00", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", `\"`, `\\`, `\\\"`, `\`, `"`, `""`, `" "`, `] "`, `[`, `]`, `[]`,
		"[17/May/2030:10:05:03 +0000]", `[17/May/2030:10:05:03 +0000] "GET / HTTP/1.1"`, "\xff\xfe", "\xc3\x28", "\u202e", "\ufeff",
		"é", "\U0001f600", "%00", "%0d%0a", `\x0d\x0a`, "\r", "\t", " ", "  ", "", "-", "{", "}", `{"time":1}`, `":`, `,"ip":"6.6.6.6"`,
		"${jndi:ldap://x}", "<script>", "' OR 1=1 --", strings.Repeat("A", 5000), strings.Repeat(`\"`, 3000), strings.Repeat(`\`, 4999),
		strings.Repeat("[", 300), strings.Repeat("{", 300), strings.Repeat(" ", 5000), "::1", "1.2.3.4", "HTTP/1.1", "GET / HTTP/1.1",
	}
}

// TestHostileTextChangesNobodysCaller: whatever stands in the fields that a client controls, the address and the time are
// the server's, as long as the server escapes quotes as all do.
func TestHostileTextChangesNobodysCaller(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{}), new(Line)
	want := at(t, "2015-05-17T10:05:03Z")
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, raw := range hostile() {
		h := escape.Replace(raw)
		for _, line := range []string{
			"1.2.3.4 - " + h + " " + clfTime + ` "GET / HTTP/1.1" 200 17 "-" "-"`,
			"1.2.3.4 - - " + clfTime + ` "` + h + `" 200 17 "-" "-"`,
			"1.2.3.4 - - " + clfTime + ` "GET ` + h + ` HTTP/1.1" 200 17 "-" "-"`,
			"1.2.3.4 - - " + clfTime + ` "` + h + ` / HTTP/1.1" 200 17 "-" "-"`,
			"1.2.3.4 - - " + clfTime + ` "GET / HTTP/1.1" 200 17 "` + h + `" "-"`,
			"1.2.3.4 - - " + clfTime + ` "GET / HTTP/1.1" 200 17 "-" "` + h + `"`,
		} {
			if got := Scan(s, []byte(line), l); got != OK || l.IDs[0] != "1.2.3.4" || l.Time != want || l.Status != 200 || l.Cost != 17 {
				t.Errorf("%.200q: got %v, %+v", line, got, l)
			}
		}
	}
}

// TestHostileTextInJSON: the same for JSON, where the server escapes by JSON's rules or leaves bytes as they are.
func TestHostileTextInJSON(t *testing.T) {
	s := scanner(t, "json", Mapping{Callers: callers(t, "ip=addr", "key=key"), Resource: "path", Status: "status"})
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, raw := range hostile() {
		h := escape.Replace(raw)
		line := []byte(`{"agent":"` + h + `","time":1,"` + h + `":"x","addr":"1.2.3.4","key":"` + h + `","a":{"` + h + `":["` + h + `"]},"status":200,"path":"` + h + `"}`)
		l := roomy()
		got := Scan(s, line, l)
		key := schemas.ID(raw)
		if got != OK || l.IDs[0] != "1.2.3.4" || l.IDs[1] != key || l.Time != second || l.Status != 200 {
			t.Errorf("%.200q: got %v, %+v, want key %.100q", line, got, l, key)
			continue
		}
		checkLine(t, line, l)
	}
}

// TestEveryByteChanged: a line with any one byte changed to any other is read or refused, with nothing that is not in it.
func TestEveryByteChanged(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		m      Mapping
		line   string
	}{
		"combined": {"combined", Mapping{Callers: callers(t, "agent=agent")}, `1.2.3.4 - - ` + clfTime + ` "GET /a HTTP/1.1" 200 17 "-" "x"`},
		"ipv6":     {"common", Mapping{}, `::ffff:1.2.3.4 - u ` + clfTime + ` "GET /a HTTP/1.1" 200 17`},
		"json":     {"json", Mapping{Callers: callers(t, "ip=a", "key=b.c")}, `{"time":1.5,"a":"1.2.3.4","b":{"c":"\u0041"}}`},
	} {
		s, accepted := scanner(t, c.format, c.m), 0
		for i := range len(c.line) {
			for b := range 256 {
				line := []byte(c.line)
				line[i] = byte(b)
				l := roomy()
				if Scan(s, line, l) == OK {
					accepted++
					checkLine(t, line, l)
				}
			}
		}
		if accepted < 256 {
			t.Errorf("%s: only %d accepted", name, accepted)
		}
	}
}

// TestScannersOfAFormatShareNothing: a format hands out scanners to as many goroutines as want one.
func TestScannersOfAFormatShareNothing(t *testing.T) {
	for name, m := range map[string]Mapping{"combined": {}, "json": {Callers: callers(t, "ip=addr", "key=http.key"), Resource: "path"}} {
		f, err := NewFormat(name, m)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				s, l := f.Scanner(), new(Line)
				for i := range 500 {
					ip := fmt.Sprintf("10.0.%d.%d", worker, i%200)
					sec := i % 60
					line := fmt.Appendf(nil, `%s - - [17/May/2015:10:%02d:%02d +0000] "GET / HTTP/1.1" 200 17`, ip, worker, sec)
					if name == "json" {
						line = fmt.Appendf(nil, `{"http":{"key":"k\n%d"},"addr":"%s","time":"2015-05-17T10:%02d:%02dZ"}`, i, ip, worker, sec)
					}
					want := at(t, fmt.Sprintf("2015-05-17T10:%02d:%02dZ", worker, sec))
					if got := s.Scan(line, l); got != OK || l.IDs[0] != ip || l.Time != want {
						t.Errorf("%s: got %v, %+v", line, got, l)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// TestNothingIsLeftOfTheLineBefore: a Line goes from line to line, and from format to format.
func TestNothingIsLeftOfTheLineBefore(t *testing.T) {
	full := scanner(t, "json", Mapping{Callers: callers(t, "ip=a", "key=b", "tenant=c"), Resource: "r", Status: "s", Cost: "n"})
	plain := scanner(t, "combined", Mapping{})
	l := new(Line)
	rich := []byte(`{"time":2,"a":"1.2.3.4","b":"k","c":"t\"","r":"/r","s":200,"n":17}`)
	for _, poor := range []string{`{"time":1,"b":"z"}`, `{"b":"z","time":1,"s":null,"r":"","n":{}}`} {
		if got := full.Scan(rich, l); got != OK || l.IDs[2] != `t"` {
			t.Fatal(got, l)
		}
		if got := full.Scan([]byte(poor), l); got != OK || !slices.Equal(l.IDs, []string{"", "z", ""}) || l.Time != second || l.Resource != "" || l.Status != 0 || l.Cost != 0 {
			t.Errorf("%s: got %v, %+v", poor, got, l)
		}
	}
	if got := full.Scan(rich, l); got != OK {
		t.Fatal(got)
	}
	if got := plain.Scan([]byte("1.2.3.5 - - "+clfTime), l); got != OK || !slices.Equal(l.IDs, []string{"1.2.3.5"}) || l.Resource != "" || l.Status != 0 || l.Cost != 0 {
		t.Errorf("got %v, %+v", got, l)
	}
	if full.Scan([]byte(`{"b":"k"}`), l); full.Scan([]byte(`{"time":1}`), l) != MissingField {
		t.Error("took the caller of the line before")
	}
}

// TestALineKeepsLittleMemory: one line with a long escaped value must not leave each of thousands of Lines large.
func TestALineKeepsLittleMemory(t *testing.T) {
	s, l := scanner(t, "json", Mapping{Callers: callers(t, "key=k"), Resource: "p"}), new(Line)
	long := []byte(`{"time":1,"k":"a","p":"/\"` + strings.Repeat("x", 50_000) + `"}`)
	if got := s.Scan(long, l); got != OK || len(l.Resource) != 1024 {
		t.Fatal(got, len(l.Resource))
	}
	if got := s.Scan([]byte(`{"time":1,"k":"a\n"}`), l); got != OK || cap(l.scratch) > maxScratch {
		t.Errorf("got %v, keeps %d bytes", got, cap(l.scratch))
	}
}

// TestRandomBytes: what no server ever wrote is refused without a panic, whatever its length.
func TestRandomBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := append(hostile(), "1.2.3.4", " ", clfTime, `"`, `{"`, `":`, `,`, "time", "1431857103", "}", "GET / HTTP/1.1", " 200 ")
	for _, format := range []string{"combined", "common", "json"} {
		m := Mapping{}
		if format == "json" {
			m = Mapping{Callers: callers(t, "ip=time", "key=a.b")}
		}
		s, l := scanner(t, format, m), new(Line)
		for range 5000 {
			var line []byte
			for range r.IntN(12) {
				line = append(line, parts[r.IntN(len(parts))]...)
			}
			l.scratch = make([]byte, 0, maxScratch)
			if Scan(s, line, l) == OK {
				checkLine(t, line, l)
			}
		}
	}
}
