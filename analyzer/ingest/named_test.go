package ingest

import (
	"strings"
	"testing"
	"time"
)

func TestW3CLogs(t *testing.T) {
	const header = "#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes cs(Referer)"
	for name, c := range map[string]struct {
		lines string
		want  string // of the last line
	}{
		"IIS":                     {header + "\n2020-08-18 07:33:35 198.51.100.7 GET /a 200 17 -", "ok GET /a"},
		"a tab between":           {header + "\n2020-08-18\t07:33:35\t198.51.100.7\tGET\t/a\t200\t17\t-", "ok GET /a"},
		"a blank between tabs":    {header + "\n2020-08-18\t07:33:35\t198.51.100.7\tGET\t/a b\t200\t17\t-", "ok GET /a b"},
		"a blank at the end":      {header + "\n2020-08-18 07:33:35 198.51.100.7 GET /a 200 17 - ", "ok GET /a"},
		"other directives":        {"#Software: x\n#Version: 1.0\n#Date: x\n" + header + "\n#Remark: y\n2020-08-18 07:33:35 198.51.100.7 GET /a 200 17 -", "ok GET /a"},
		"other columns later":     {header + "\n#Fields: c-ip date time\n198.51.100.7 2020-08-18 07:33:35", "ok "},
		"the same name twice":     {"#Fields: date time c-ip c-ip\n2020-08-18 07:33:35 198.51.100.7 203.0.113.9", "ok "},
		"more values":             {header + "\n2020-08-18 07:33:35 198.51.100.7 GET /a b 200 17 -", "ambiguous quotes "},
		"fewer values":            {header + "\n2020-08-18 07:33:35 198.51.100.7 GET /a 200 17", "ambiguous quotes "},
		"no columns yet":          {"2020-08-18 07:33:35 198.51.100.7 GET /a 200 17 -", "other format "},
		"a comment of another":    {"# Fields", "other format "},
		"the header itself":       {header, "header "},
		"no address":              {header + "\n2020-08-18 07:33:35 - GET /a 200 17 -", "missing field "},
		"a host name":             {header + "\n2020-08-18 07:33:35 h.example GET /a 200 17 -", "client address "},
		"a bad date":              {header + "\n2020-13-18 07:33:35 198.51.100.7 GET /a 200 17 -", "bad time "},
		"a time without a date":   {"#Fields: time c-ip\n07:33:35 198.51.100.7", "missing field "},
		"a byte order mark":       {"\ufeff" + header + "\n2020-08-18 07:33:35 198.51.100.7 GET /a 200 17 -", "ok GET /a"},
		"a carriage return":       {header + "\r\n2020-08-18 07:33:35 198.51.100.7 GET /a 200 17 -\r", "ok GET /a"},
		"too many columns":        {"#Fields: " + strings.Repeat("a ", maxColumns+1), "other format "},
		"a forged header in text": {header + "\n2020-08-18 07:33:35 198.51.100.7 GET /#Fields:+c-ip 200 17 -", "ok GET /#Fields:+c-ip"},
	} {
		s, l, got := scanner(t, "w3c", Mapping{}), roomy(), ""
		for line := range strings.SplitSeq(c.lines, "\n") {
			if r := Scan(s, []byte(line), l); r == OK {
				got = "ok " + l.Resource
				if l.IDs[0] != "198.51.100.7" || l.Time != at(t, "2020-08-18T07:33:35Z") {
					t.Errorf("%s: got %+v", name, l)
				}
			} else {
				got = r.String() + " "
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestLTSVLogs(t *testing.T) {
	const stamp = "time:" + clfTime
	for line, want := range map[string]string{
		"host:198.51.100.7\t" + stamp + "\treq:GET /a HTTP/1.1\tstatus:200":        "ok GET /a",
		stamp + "\thost:198.51.100.7":                                              "ok ",
		stamp + "\thost:198.51.100.7\t":                                            "ok ",
		stamp + "\thost:198.51.100.7\thost:203.0.113.9":                            "ok ",
		stamp + "\thost:198.51.100.7\tmethod:GET\turi:/a?b":                        "ok GET /a",
		stamp + "\thost:198.51.100.7\tua:x host:203.0.113.9":                       "ok ",
		stamp + "\thost:198.51.100.7\tua:a:b:c":                                    "ok ",
		"time:2015-05-17T10:05:03Z\tremote_addr:198.51.100.7":                      "ok ",
		stamp + "\thost:h.example":                                                 "client address ",
		stamp + "\thost:-":                                                         "missing field ",
		stamp + "\tstatus:200":                                                     "missing field ",
		"host:198.51.100.7\tstatus:200":                                            "missing field ",
		"time:soon\thost:198.51.100.7":                                             "bad time ",
		stamp + "\thost:198.51.100.7\tnonsense":                                    "other format ",
		stamp + "\thost:198.51.100.7\ta b:c":                                       "other format ",
		"host:198.51.100.7":                                                        "other format ",
		`198.51.100.7 - - ` + clfTime + ` "GET /` + "\thost:203.0.113.9\t" + stamp: "other format ",
		"": "empty ",
	} {
		s, l := scanner(t, "ltsv", Mapping{}), roomy()
		got := Scan(s, []byte(line), l).String() + " "
		if got == "ok " {
			if got += l.Resource; l.IDs[0] != "198.51.100.7" || l.Time != at(t, "2015-05-17T10:05:03Z") {
				t.Errorf("%s: got %+v", line, l)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestTimesWithoutAZone are of UTC.
func TestTimesWithoutAZone(t *testing.T) {
	c := clock{layout: TimeNoZone}
	for text, want := range map[string]string{
		"06/Feb/2009:12:14:14.655":        "2009-02-06T12:14:14.655Z",
		"06/Feb/2009:12:14:14":            "2009-02-06T12:14:14Z",
		"06/Feb/2009:12:14:14.000000001":  "2009-02-06T12:14:14.000000001Z",
		"2020-08-18 07:33:35":             "2020-08-18T07:33:35Z",
		"2020-08-18T07:33:35":             "2020-08-18T07:33:35Z",
		"06/Feb/2009:12:14:14.0000000001": "",
		"06/Feb/2009:12:14:14.x":          "",
		"06/Feb/2009:12:14:14 +0000":      "",
		"06/Foo/2009:12:14:14":            "",
		"30/Feb/2009:12:14:14":            "",
		"06/Feb/2009:12:14:6":             "",
		"06/Feb/2009:12:14":               "",
		"2020-08-18 07:33":                "",
		"2020-08-18 07:33:35Z":            "",
		"2020-08-18 07:33:61":             "",
		"":                                "",
		"1":                               "",
		"06/":                             "",
	} {
		got, ok := c.parse(text)
		if ok != (want != "") || ok && got != at(t, want) {
			t.Errorf("%s: got %v, %v, want %s", text, time.Unix(0, got).UTC(), ok, want)
		}
	}
}

// TestHeadsOfSyslog: what is a head, and what is not.
func TestHeadsOfSyslog(t *testing.T) {
	for line, want := range map[string]string{
		"<190>Jan  2 09:04:05 web nginx: x":                "x",
		"<190>Jan 12 09:04:05 web nginx[1]: x y":           "x y",
		"Jan 12 09:04:05 web nginx[1]: x":                  "x",
		"Jan 12 09:04:05 nginx: x":                         "x",
		"Jan 12 09:04:05 web nginx:x":                      "-",
		"Jan 12 09:04:05 web nginx x":                      "-",
		"Jan 12 09:04:05 ":                                 "-",
		"Foo 12 09:04:05 web nginx: x":                     "-",
		"2024-01-02T09:04:05Z web nginx: x":                "x",
		"2024-01-02T09:04:05.123+01:00 web nginx[1]: x":    "x",
		"2024-01-02 09:04:05 web nginx[1]: x":              "-",
		"<165>1 2024-01-02T09:04:05Z web nginx 1 ID47 - x": "x",
		"<165>1 - - - - - - x":                             "x",
		"<165>1 - - - - - - \ufeffx":                       "x",
		"<165>1 - - - - - [a] x":                           "x",
		`<165>1 - - - - - [a b="c"][d e="f"] x`:            "x",
		`<165>1 - - - - - [a b="]"] x`:                     "x",
		`<165>1 - - - - - [a b="\"]"] x`:                   "x",
		`<165>1 - - - - - [a b="c`:                         "-",
		"<165>1 - - - - - [a]x":                            "-",
		"<165>1 - - - -":                                   "-",
		"<1650>Jan  2 09:04:05 web nginx: x":               "-",
		"<x>Jan  2 09:04:05 web nginx: x":                  "-",
		"<190":                                             "-",
		"<190>":                                            "-",
		"":                                                 "-",
		"x":                                                "-",
		"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\"": "-",
	} {
		got, reason := syslogLine{}.unwrap(line, roomy())
		if reason != OK {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestHeadsOfCRI: what is a head, and what is not.
func TestHeadsOfCRI(t *testing.T) {
	for line, want := range map[string]string{
		"2024-01-02T09:04:05.1Z stdout F x y":            "x y",
		"2024-01-02T09:04:05.1Z stderr F x":              "x",
		"2024-01-02T09:04:05.1Z stdout F ":               "",
		"2024-01-02T09:04:05.1Z stdout F":                "",
		"2024-01-02T09:04:05.1Z stdout F:tag x":          "x",
		"2024-01-02T09:04:05.1Z stdout P x":              "x",
		"2024-01-02T09:04:05.1Z stdout X x":              "-",
		"2024-01-02T09:04:05.1Z stdin F x":               "-",
		"2024-01-02T09:04:05.1Z F x":                     "-",
		"2024-01-02 09:04:05.1Z stdout F x":              "-",
		"soon stdout F x":                                "-",
		"":                                               "-",
		"2024-01-02T09:04:05.1Z":                         "-",
		"2024-01-02T09:04:05.123456789+01:00 stdout F x": "x",
	} {
		got, reason := new(criLine).unwrap(line, roomy())
		if reason != OK {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestMembersThatHoldALine: which JSON objects have one.
func TestMembersThatHoldALine(t *testing.T) {
	for line, want := range map[string]string{
		`{"log":"x"}`:                 "x",
		`{"log":"x\n"}`:               "x",
		`{"log":"x\r\n"}`:             "x",
		`{"log":"a\"b\\c\u00e9"}`:     `a"b\cé`,
		` {"log":"x"}`:                "x",
		"\ufeff{\"log\":\"x\"}":       "x",
		`{"a":{"log":"y"},"log":"x"}`: "x",
		`{"log":""}`:                  "-",
		`{"log":null}`:                "-",
		`{"log":{"a":"x"}}`:           "-",
		`{"message":"x"}`:             "-",
		`{"log":"x"`:                  "-",
		`[{"log":"x"}]`:               "-",
		`log`:                         "-",
		"":                            "-",
	} {
		got, reason := newMember("log").unwrap(line, roomy())
		if reason != OK {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
