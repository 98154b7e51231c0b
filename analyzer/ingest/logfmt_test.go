package ingest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// logfmtOf returns what a line of logfmt says of a key, or the reason why it says nothing.
func logfmtOf(t testing.TB, line string) string {
	t.Helper()
	m := Mapping{Callers: callers(t, "key=k"), OnlyCallers: true, Time: "t", Layout: TimeUnix}
	s, l := scanner(t, "logfmt", m), roomy()
	if r := Scan(s, []byte("t=1 "+line), l); r != OK {
		return "- " + r.String()
	}
	return l.IDs[0]
}

func TestLogfmtValues(t *testing.T) {
	for line, want := range map[string]string{
		`k=v`:                           "v",
		`k="v"`:                         "v",
		`k="a b"`:                       "a b",
		`k="a \"b\" c"`:                 `a "b" c`,
		`k="a\\"`:                       `a\`,
		`k="a\nb\tc\rd"`:                "a\nb\tc\rd",
		`k="\x1b\u00e9"`:                "\x1bé",
		`k="\xzz\u12"`:                  `\xzz\u12`,
		`k="\"`:                         "- other format", // cut
		`k="v`:                          "- other format",
		`k=v k=w`:                       "v",
		`k= x=1`:                        "- missing field",
		`k="" x=1`:                      "- missing field",
		`k=- x=1`:                       "- missing field",
		`k`:                             "- missing field",
		`flag k=v`:                      "v",
		`flag1 flag2 k=v flag3`:         "v",
		`a=1 b="2" k=v c=3`:             "v",
		`msg="k=no" k=yes`:              "yes",
		`msg="\"k=no" k=yes`:            "yes",
		`k==v`:                          "=v",
		`k=a=b`:                         "a=b",
		`K=v`:                           "- missing field",
		`kk=v`:                          "- missing field",
		"\tk=v\t":                       "v",
		`k="a"x=1`:                      "a",
		`k=\x22`:                        `\x22`, // bare: nothing is escaped
		`k=` + strings.Repeat("v", 257): schemas.ID(strings.Repeat("v", 257)),
		`k=` + strings.Repeat("v", 256): strings.Repeat("v", 256),
		"k=\xff\xfe":                    "\xff\xfe",
		"k=a\x00b":                      "a\x00b",
	} {
		if got := logfmtOf(t, line); got != want {
			t.Errorf("%.60s: got %.60q, want %.60q", line, got, want)
		}
	}
}

// TestLogfmtReadsWhatStrconvQuotes: any value comes back, whatever stands around it.
func TestLogfmtReadsWhatStrconvQuotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\= \n\té\x1b\u2028")), 1, 30, 200).Draw(t, "value")
		junk := rapid.StringOfN(rapid.RuneFrom([]rune("k=\"\\ v")), 0, 10, 40).Draw(t, "junk")
		if value == "-" {
			return
		}
		line := fmt.Sprintf("t=1 msg=%s k=%s more=%s", strconv.Quote(junk), strconv.Quote(value), strconv.Quote(junk))
		f, err := NewFormat("logfmt", Mapping{Callers: []CallerTemplate{{Kind: "key", Template: "{k}"}}, OnlyCallers: true, Time: "t", Layout: TimeUnix})
		if err != nil {
			t.Fatal(err)
		}
		l := new(Line)
		if got := Scan(f.Scanner(), []byte(line), l); got != OK || l.IDs[0] != value {
			t.Fatalf("%s: got %v, %q, want %q", line, got, l.IDs, value)
		}
	})
}
