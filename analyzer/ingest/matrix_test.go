package ingest

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/pattern"
)

// TestBadInput is the matrix of bad input, as far as lines go: every row is read or refused for its reason, in every
// format of objects and in text. Rows that are about frames are those of package schemas.
func TestBadInput(t *testing.T) {
	s := scanner(t, "json", Mapping{
		Callers: callers(t, "ip=ip", "key=key"), Status: "status", Cost: "cost", Resource: "path",
	})
	for name, c := range map[string]struct {
		line string
		want Reason
	}{
		"nothing":                   {``, Empty},
		"white space":               {" \t ", Empty},
		"NULs":                      {"\x00\x00\x00\x00", Empty},
		"random bytes":              {"\xde\xad\xbe\xef\x01\x02", BadJSON},
		"a byte order mark alone":   {"\ufeff", BadJSON},
		"another format":            {benchCombined, BadJSON},
		"an array":                  {`[{"time":1,"key":"k"}]`, BadJSON},
		"time in 1970":              {`{"time":0,"key":"k"}`, OK},
		"time before 1970":          {`{"time":-1,"key":"k"}`, BadTime},
		"least int64":               {fmt.Sprintf(`{"time":%d,"key":"k"}`, int64(math.MinInt64)), BadTime},
		"largest int64":             {fmt.Sprintf(`{"time":%d,"key":"k"}`, int64(math.MaxInt64)), BadTime},
		"beyond uint64":             {`{"time":99999999999999999999,"key":"k"}`, BadTime},
		"a time of letters":         {`{"time":"soon","key":"k"}`, BadTime},
		"a time of objects":         {`{"time":{"a":1},"key":"k"}`, MissingField},
		"infinite time":             {`{"time":"Infinity","key":"k"}`, BadTime},
		"time that is no number":    {`{"time":"NaN","key":"k"}`, BadTime},
		"hexadecimal time":          {`{"time":"0x10","key":"k"}`, BadTime},
		"an exponent":               {`{"time":1e9,"key":"k"}`, OK},
		"a huge exponent":           {`{"time":1e999,"key":"k"}`, BadTime},
		"the 30th of February":      {`{"time":"2015-02-30T00:00:00Z","key":"k"}`, BadTime},
		"second 60":                 {`{"time":"2015-06-30T23:59:60Z","key":"k"}`, BadTime},
		"no zone":                   {`{"time":"2015-06-30T23:59:59","key":"k"}`, BadTime},
		"year 10000":                {`{"time":"10000-01-01T00:00:00Z","key":"k"}`, BadTime},
		"empty caller":              {`{"time":1,"key":""}`, MissingField},
		"null caller":               {`{"time":1,"key":null}`, MissingField},
		"caller of 256 bytes":       {`{"time":1,"key":"` + strings.Repeat("k", 256) + `"}`, OK},
		"caller of 257 bytes":       {`{"time":1,"key":"` + strings.Repeat("k", 257) + `"}`, OK},
		"caller of a megabyte":      {`{"time":1,"key":"` + strings.Repeat("k", 1<<20) + `"}`, TooLong},
		"agent of a megabyte":       {`{"time":1,"key":"k","agent":"` + strings.Repeat("k", 1<<20) + `"}`, OK},
		"invalid UTF-8":             {"{\"time\":1,\"key\":\"\xff\xfe\xc3\x28\"}", OK},
		"a NUL in an id":            {"{\"time\":1,\"key\":\"a\x00b\"}", OK},
		"an escaped NUL":            {`{"time":1,"key":"a\u0000b"}`, OK},
		"half a surrogate":          {`{"time":1,"key":"\ud800"}`, OK},
		"ANSI":                      {"{\"time\":1,\"key\":\"\x1b[2J\"}", OK},
		"an address out of range":   {`{"time":1,"ip":"256.1.1.1"}`, BadAddress},
		"an octal address":          {`{"time":1,"ip":"010.1.1.1"}`, BadAddress},
		"a short address":           {`{"time":1,"ip":"10.1"}`, BadAddress},
		"an address as a number":    {`{"time":1,"ip":167772161}`, BadAddress},
		"a zone":                    {`{"time":1,"ip":"fe80::1%eth0"}`, OK},
		"a zone of an IPv4 address": {`{"time":1,"ip":"1.2.3.4%eth0"}`, BadAddress},
		"a name":                    {`{"time":1,"ip":"localhost"}`, BadAddress},
		"two addresses":             {`{"time":1,"ip":"1.2.3.4, 5.6.7.8"}`, BadAddress},
		"a bad address and a key":   {`{"time":1,"ip":"x","key":"k"}`, OK},
		"deep nesting":              {`{"time":1,"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"key":"k"}`, OK},
		"deep nesting, cut":         {`{"time":1,"a":` + strings.Repeat("[", 60_000), BadJSON},
		"many members":              {`{` + strings.Repeat(`"a":1,`, 5_000) + `"time":1,"key":"k"}`, OK},
		"costs":                     {`{"time":1,"key":"k","cost":-5,"status":-5}`, OK},
	} {
		line, l := []byte(c.line), roomy()
		if got := Scan(s, line, l); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		} else if got == OK {
			checkLine(t, line[:min(len(line), MaxLine)], l)
		}
	}
}

// TestCosts: what is no number costs nothing, what is too large the most there is, and nothing is below 0.
func TestCosts(t *testing.T) {
	for text, want := range map[string][3]int64{ // times 1, 1000 and 10^9
		"0":                    {0, 0, 0},
		"1":                    {1, 1000, 1e9},
		"0.123":                {0, 123, 123e6},
		"0.0005":               {0, 0, 500_000},
		"1.9999":               {1, 1999, 1_999_900_000},
		"12.":                  {12, 12_000, 12e9},
		".5":                   {0, 500, 500e6},
		"4294967295":           {4294967295, 4294967295_000, 4294967295e9},
		"9223372036854775807":  {math.MaxInt64, math.MaxInt64, math.MaxInt64},
		"99999999999999999999": {math.MaxInt64, math.MaxInt64, math.MaxInt64},
		"-1":                   {0, 0, 0},
		"-0.5":                 {0, 0, 0},
		"1e3":                  {1000, 1_000_000, 1e12},
		"":                     {0, 0, 0},
		"-":                    {0, 0, 0},
		"12ms":                 {0, 0, 0},
		"0x10":                 {0, 0, 0},
		"inf":                  {0, 0, 0},
		"nan":                  {0, 0, 0},
		"1.2.3":                {0, 0, 0},
		"0.1234567890123":      {0, 123, 123456789},
	} {
		for i, scale := range []int64{1, 1000, 1_000_000_000} {
			got := scaled(text, scale)
			if got != want[i] {
				t.Errorf("%s × %d: got %d, want %d", text, scale, got, want[i])
			}
		}
	}
}

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"{a}":                 "a",
		"{a}|{b}":             "a b",
		"{a}-{b}/{c}:{d}":     "a b c d",
		"user {a}":            "a",
		"{a} behind":          "a",
		"{a|b}|{c}":           "a|b c",
		"{a.b.c}":             "a.b.c",
		"{client:port}":       "client:port",
		"":                    "error",
		"text":                "error",
		"{}":                  "error",
		"{a":                  "error",
		"a}":                  "error",
		"{a}}":                "error",
		"{{a}}":               "error",
		"{a}{b}":              "error",
		"}{":                  "error",
		"{a}|{b}|{c}|{d}|{e}": "error",
	} {
		parsed, err := parseTemplate(text)
		var got []string
		for _, p := range parsed.parts {
			got = append(got, p.field)
		}
		if err != nil {
			got = []string{"error"}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v, want %s", text, got, err, want)
		}
	}
}

// TestCompositesCannotBeForged: two different requests never have the same composite id.
func TestCompositesCannotBeForged(t *testing.T) {
	seen := make(map[string]string)
	s := scanner(t, "json", Mapping{Callers: []CallerTemplate{{Kind: "pair", Template: "{a}|{b}"}, {Kind: "any", Template: "{a}-{b}"}}})
	for _, a := range []string{"x", "x|y", "|", "x|", "|x", "x-y", "-", "y"} {
		for _, b := range []string{"x", "x|y", "|", "x|", "|x", "x-y", "-", "y"} {
			l := roomy()
			if Scan(s, fmt.Appendf(nil, `{"time":1,"a":%q,"b":%q}`, a, b), l) != OK {
				continue
			}
			for i, id := range l.IDs {
				key, from := fmt.Sprint(i, id), fmt.Sprintf("%q %q", a, b)
				if was, twice := seen[key]; id != "" && twice && was != from {
					t.Errorf("%s and %s are both %q", was, from, id)
				}
				seen[key] = from
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("got %d ids", len(seen))
	}
}

func TestDropFilters(t *testing.T) {
	network := netip.MustParsePrefix
	for name, c := range map[string]struct {
		filters []Filter
		dropped string // of the lines below
	}{
		"status":         {[]Filter{{Status: []pattern.StatusRange{{From: 300, To: 399}}}}, "b"},
		"client":         {[]Filter{{Client: []netip.Prefix{network("10.0.0.0/8"), network("2001:db8::/32")}}}, "bd"},
		"path":           {[]Filter{{Fields: []FieldFilter{{fieldResource, []pattern.Glob{pattern.NewGlob("/static/*"), pattern.NewGlob("/healthz")}}}}}, "ac"},
		"method":         {[]Filter{{Fields: []FieldFilter{{"method", []pattern.Glob{pattern.NewGlob("HEAD")}}}}}, "d"},
		"agent":          {[]Filter{{Fields: []FieldFilter{{"agent", []pattern.Glob{pattern.NewGlob("kube-probe/*")}}}}}, "c"},
		"both must hold": {[]Filter{{Client: []netip.Prefix{network("10.0.0.0/8")}, Status: []pattern.StatusRange{{From: 200, To: 200}}}}, ""},
		"one of two":     {[]Filter{{Status: []pattern.StatusRange{{From: 404, To: 404}}}, {Status: []pattern.StatusRange{{From: 301, To: 301}}}}, "bd"},
		"an IPv6 client": {[]Filter{{Client: []netip.Prefix{network("2001:db8::1/128")}}}, "d"},
		"its neighbour":  {[]Filter{{Client: []netip.Prefix{network("2001:db8::2/128"), network("2001:db8::/128")}}}, ""},
		"its text":       {[]Filter{{Fields: []FieldFilter{{fieldClient, []pattern.Glob{pattern.NewGlob("2001:db8::1")}}}}}, "d"},
		"client field":   {[]Filter{{Fields: []FieldFilter{{fieldClient, []pattern.Glob{pattern.NewGlob("192.0.2.*")}}}}}, "ac"},
	} {
		s, got := scanner(t, "combined", Mapping{Drop: c.filters}), ""
		for id, line := range map[string]string{
			"a": `192.0.2.1 - - ` + clfTime + ` "GET /static/a.png?x HTTP/1.1" 200 1 "-" "curl/8"`,
			"b": `10.9.9.9 - - ` + clfTime + ` "GET /a HTTP/1.1" 301 1 "-" "curl/8"`,
			"c": `192.0.2.2 - - ` + clfTime + ` "GET /healthz HTTP/1.1" 200 1 "-" "kube-probe/1.30"`,
			"d": `2001:db8::1 - - ` + clfTime + ` "HEAD /staticx HTTP/1.1" 404 1 "-" "curl/8"`,
		} {
			switch r := Scan(s, []byte(line), roomy()); r {
			case Dropped:
				got += id
			case OK:
			default:
				t.Errorf("%s: got %v", line, r)
			}
		}
		for _, id := range c.dropped {
			if !strings.ContainsRune(got, id) {
				t.Errorf("%s: line %c is not dropped", name, id)
			}
		}
		if len(got) != len(c.dropped) {
			t.Errorf("%s: got %q dropped, want %q", name, got, c.dropped)
		}
	}
	if Dropped.Rejected() || Header.Rejected() || OK.Rejected() || !Empty.Rejected() || !TooMany.Rejected() {
		t.Error("what is dropped is no reject, and what cannot be read is one")
	}
}

// TestBlockedLines: a server's own 429s must not keep its gate shut.
func TestBlockedLines(t *testing.T) {
	for _, c := range []struct {
		m      Mapping
		status int
		want   bool
	}{
		{Mapping{}, 429, true},
		{Mapping{}, 200, false},
		{Mapping{}, 503, false},
		{Mapping{}, 0, false},
		{Mapping{}, 999, false},
		{Mapping{NoBlocked: true}, 429, false},
		{Mapping{Blocked: []pattern.StatusRange{{From: 503, To: 503}}}, 429, false},
		{Mapping{Blocked: []pattern.StatusRange{{From: 503, To: 503}}}, 503, true},
		{Mapping{Blocked: []pattern.StatusRange{{From: 400, To: 499}, {From: 503, To: 503}}}, 404, true},
	} {
		s, l := scanner(t, "common", c.m), roomy()
		line := fmt.Appendf(nil, `1.2.3.4 - - %s "GET / HTTP/1.1" %03d 1`, clfTime, c.status)
		if got := Scan(s, line, l); got != OK || l.Blocked != c.want {
			t.Errorf("%s: got %v, blocked %v, want %v", line, got, l.Blocked, c.want)
		}
	}
}
