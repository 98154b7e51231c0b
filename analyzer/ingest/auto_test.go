package ingest

import (
	"bytes"
	"strings"
	"testing"
)

// findings scans lines with auto and returns what it reports.
func findings(t *testing.T, m Mapping, lines ...string) (found []Finding) {
	t.Helper()
	f, err := NewFormat(FormatAuto, m)
	if err != nil {
		t.Fatal(err)
	}
	s, l := f.Reporting(func(f Finding) { found = append(found, f) }).Scanner(), roomy()
	for _, line := range lines {
		Scan(s, []byte(line), l)
	}
	return found
}

// TestAutoSaysWhatItTook, once, and by which line.
func TestAutoSaysWhatItTook(t *testing.T) {
	got := findings(t, Mapping{}, "", "starting", innerLine, innerLine)
	if len(got) != 1 || got[0].Format != "combined" || !strings.Contains(got[0].String(), "auto took format combined, the first that reads this line: "+peer) {
		t.Errorf("got %v", got)
	}
	got = findings(t, Mapping{Unwrap: []string{"cri"}}, "2024-01-02T09:04:05.1Z stdout F "+innerLine)
	if len(got) != 1 || got[0].Format != "combined" {
		t.Errorf("got %v", got)
	}
	got = findings(t, Mapping{}, "2024-01-02T09:04:05.1Z stdout F "+innerLine)
	if len(got) != 1 || !strings.Contains(got[0].String(), "combined inside of cri") {
		t.Errorf("got %v", got)
	}
}

// TestAutoSaysWhatLinesLookLike that no format reads, and what to do.
func TestAutoSaysWhatLinesLookLike(t *testing.T) {
	request := ` - - ` + clfTime + ` "GET / HTTP/1.1" 200 17`
	for line, want := range map[string]string{
		"h.example " + peer + request:                                       "nginx:$host $remote_addr",
		peer + " www.example.com - " + clfTime + ` "GET / HTTP/1.1" 200 17`: "--format lighttpd",
		peer + " " + clfTime + ` "GET / HTTP/1.1" 200 17`:                   "nginx:...",
		`{"a":"GET / HTTP/1.1"}`:                                            "format: json",
		"a=b c=d - HTTP/1.1":                                                "logfmt",
		"GET / HTTP/1.1":                                                    "floodgate formats",
	} {
		got := findings(t, Mapping{}, line, line+"2", line+"3", line+"4")
		if len(got) != 1 || got[0].Format != "" || len(got[0].Refused) != 3 || !strings.Contains(got[0].String(), want) || !strings.Contains(got[0].String(), "\n  "+line+"3") {
			t.Errorf("%s: got %v, want %s", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"client_ip,time,path": "--format csv", `{"a":1}`: "client: {address: NAME}", peer + " " + clfTime: "'nginx:...'", "h.example" + request: "kind host", "what is this": "floodgate formats",
	} {
		if got := Nearest(line); !strings.Contains(got, want) || strings.ContainsFunc(got, func(r rune) bool { return r > '~' }) {
			t.Errorf("%s: got %s, want %s, in ASCII: errors escape all else", line, got, want)
		}
	}
}

// TestThePageOfFormatsIsTrue: README.md is what floodgate formats prints, and what is read of the samples.
func TestThePageOfFormatsIsTrue(t *testing.T) {
	var page bytes.Buffer
	if err := WriteFormats(&page); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "README.md", page.String()+writeSamples(t))
	for _, f := range listFormats() {
		for _, field := range f.Fields {
			if _, err := NewFormat(f.Name, Mapping{Callers: callers(t, "x="+strings.Split(field, "|")[0])}); err != nil {
				t.Errorf("%s: the page lists the field %s: %v", f.Name, field, err)
			}
		}
	}
}

// TestHostNamesAreCallersOfAKindOfTheirOwn: in small letters, and only where they are asked for.
func TestHostNamesAreCallersOfAKindOfTheirOwn(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{Callers: callers(t, "host=ip")}), roomy()
	if got := Scan(s, []byte(`Crawler.Example.NET. - - `+clfTime+` "GET / HTTP/1.1" 200 17`), l); got != OK || l.IDs[0] != "" || l.IDs[1] != "crawler.example.net" {
		t.Errorf("got %v, %q", got, l.IDs)
	}
	if got := Scan(scanner(t, "combined", Mapping{}), []byte(`crawler.example.net - - `+clfTime+` "GET / HTTP/1.1" 200 17`), l); got != BadAddress {
		t.Errorf("got %v", got)
	}
}
