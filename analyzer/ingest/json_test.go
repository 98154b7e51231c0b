package ingest

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// jsonMapping has a caller of each kind, and every other field.
func jsonMapping(t testing.TB) Mapping {
	t.Helper()
	return Mapping{
		Callers:  callers(t, "ip=addr", "key=http.key", "addr_path=addr+path"),
		Resource: "path", Status: "status", Cost: "bytes",
	}
}

func TestJSONReadsALine(t *testing.T) {
	s, l, line := scanner(t, "json", benchMapping()), new(Line), []byte(benchJSON)
	if got := s.Scan(line, l); got != OK {
		t.Fatal(got)
	}
	if l.Time != at(t, "2015-05-17T10:05:03.123Z") || l.IDs[0] != "83.149.9.216" || l.Status != 200 || l.Cost != 203023 ||
		l.Resource != "GET /presentations/kibana-search.png" {
		t.Errorf("got %+v", l)
	}
	checkLine(t, line, l)
}

// TestJSONLines: id is what IDs joined by spaces must be where the line counts.
func TestJSONLines(t *testing.T) {
	s := scanner(t, "json", jsonMapping(t))
	for _, c := range []struct {
		line   string
		reason Reason
		id     string
	}{
		{`{"time":1,"addr":"1.2.3.4"}`, OK, "1.2.3.4  "},
		{` { "time" : 1 , "addr" : "1.2.3.4" } `, OK, "1.2.3.4  "},
		{"\ufeff{\"time\":1,\"addr\":\"1.2.3.4\"}\t", OK, "1.2.3.4  "},
		{`{"addr":"1.2.3.4","path":"/a|b","time":1}`, OK, "1.2.3.4  1.2.3.4|/a|b"},
		{`{"addr":"1.2.3.4|/a","http.key":"k","path":"b","time":1}`, OK, " k ~092bb7e8c5fed583abefa7396ff4c38e|b"},
		{`{"addr":"1.2.3.4","path":"/a?b","time":"1"}`, OK, "1.2.3.4  1.2.3.4|/a?b"},
		{`{"addr":"::FFFF:1.2.3.4","time":1}`, OK, "1.2.3.4  "},
		{`{"addr":"1.2\u002e3.4","ti\u006de":1}`, OK, "1.2.3.4  "},
		{`{"addr":"nobody","http":{"key":"k"},"time":1}`, OK, " k "},
		{`{"http":{"x":[{"key":"no"}],"key":"a\"b\\","y":{}},"time":1}`, OK, ` a"b\ `},
		{`{"http.key":"flat","time":1}`, OK, " flat "},
		{`{"http":{"key":42},"time":1}`, OK, " 42 "},
		{`{"http":{"key":true},"time":1}`, OK, " true "},
		{`{"http":{"key":"first"},"http":{"key":"last"},"time":9,"time":1}`, OK, " last "},
		{`{"http":{"key":"first"},"http":{"other":"last"},"time":1}`, OK, " first "},
		{`{"http.key":"k","http.key":null,"addr":"1.2.3.4","time":1}`, OK, "1.2.3.4  "},
		{`{"http.key":"\ud83d\ude00é\n","time":1}`, OK, " \U0001f600é\n "},
		{"{\"http.key\":\"\xff\x00\x1b[31m\",\"time\":1}", OK, " \xff\x00\x1b[31m "},
		{`{"http.key":"k","time":1,}`, OK, " k "},

		// Damaged behind what counts.
		{`{"http.key":"k","time":1,"agent":"Mozi`, OK, " k "},
		{`{"http.key":"k","time":1,"status":20`, OK, " k "},
		{`{"http.key":"k","time":1 "status":200}`, OK, " k "},
		{`{"http.key":"k","time":1,nonsense}`, OK, " k "},
		{`{"http.key":"k","time":1,"addr":}`, OK, " k "},
		{`{"http.key":"k","time":1,"a":[1,{"b":"}]`, OK, " k "},
		{`{"http.key":"k","time":1} and more`, OK, " k "},

		{`{"http.key":"k","time":1431857103`, BadJSON, ""}, // the time may have lost digits
		{`{"http.key":"k`, BadJSON, ""},
		{`{"http.key`, BadJSON, ""},
		{`{"http.key":`, BadJSON, ""},
		{`{"time":1,"http":{"key":"k"`, BadJSON, ""},
		{`{"time":1,"http":{"key":k}}`, MissingField, ""},
		{`{`, BadJSON, ""}, {`}`, BadJSON, ""}, {`{}`, MissingField, ""}, {`[]`, BadJSON, ""}, {`null`, BadJSON, ""}, {`{"`, BadJSON, ""},
		{`["time",1,"addr","1.2.3.4"]`, BadJSON, ""},
		{benchCombined, BadJSON, ""},
		{`{"addr":"1.2.3.4"}`, MissingField, ""},
		{`{"addr":"1.2.3.4","time":null}`, MissingField, ""},
		{`{"addr":"1.2.3.4","time":{}}`, MissingField, ""},
		{`{"addr":"1.2.3.4","time":"soon"}`, BadTime, ""},
		{`{"addr":"1.2.3.4","time":-1}`, BadTime, ""},
		{`{"addr":"1.2.3.4:80","time":1}`, OK, "1.2.3.4  "},
		{`{"addr":"[::FFFF:1.2.3.4]:80","time":1}`, OK, "1.2.3.4  "},
		{`{"addr":"1.2.3.4:x","time":1}`, BadAddress, ""},
		{`{"addr":["1.2.3.4"],"time":1}`, MissingField, ""},
		{`{"addr":"","http":{"key":null},"time":1}`, MissingField, ""},
		{`{"http":"key","time":1}`, MissingField, ""},
		{`{"http.key":"` + strings.Repeat("k", 257) + `","time":1}`, OK, " " + schemas.ID(strings.Repeat("k", 257)) + " "},
		{`{"http":` + strings.Repeat(`{"http":`, 500) + `1` + strings.Repeat(`}`, 501) + `,"time":1}`, MissingField, ""},
	} {
		l, line := roomy(), []byte(c.line)
		got := s.Scan(line, l)
		if got != c.reason || got == OK && strings.Join(l.IDs, " ") != c.id {
			t.Errorf("%.200s: got %v, %q, want %v, %q", c.line, got, strings.Join(l.IDs, " "), c.reason, c.id)
		}
		if got == OK {
			checkLine(t, line, l)
		}
	}
}

func TestJSONNumbers(t *testing.T) {
	s, l := scanner(t, "json", jsonMapping(t)), new(Line)
	for text, want := range map[string]struct {
		status uint16
		cost   int64
	}{
		`200,"bytes":17`: {200, 17}, `"200","bytes":"17"`: {200, 17}, `null,"bytes":null`: {0, 0}, `1000,"bytes":1e3`: {0, 1000},
		`200.0,"bytes":17.9`: {200, 17}, `-1,"bytes":-1`: {0, 0}, `99999999999999999999,"bytes":99999999999999999999`: {0, 1<<63 - 1},
		`true,"bytes":false`: {0, 0}, `"","bytes":"nan"`: {0, 0}, `70000,"bytes":9223372036854775807`: {0, 1<<63 - 1},
	} {
		if got := s.Scan([]byte(`{"addr":"1.2.3.4","time":1,"status":`+text+`}`), l); got != OK || l.Status != want.status || l.Cost != want.cost {
			t.Errorf("%s: got %v, %d, %d, want %v", text, got, l.Status, l.Cost, want)
		}
	}
}

// TestJSONEveryTruncation: cut anywhere, the line counts as soon as time and caller stand there whole, and never changes
// into something else.
func TestJSONEveryTruncation(t *testing.T) {
	s, l := scanner(t, "json", benchMapping()), new(Line)
	readable := strings.Index(benchJSON, `,"method"`)
	for n := range len(benchJSON) {
		got := Scan(s, []byte(benchJSON[:n]), l)
		if (got == OK) != (n >= readable) {
			t.Errorf("cut to %s: got %v", benchJSON[:n], got)
		}
		if got == OK && (l.IDs[0] != "83.149.9.216" || l.Status != 0 && l.Status != 200 || l.Cost != 0 && l.Cost != 203023) {
			t.Errorf("cut to %s: got %+v", benchJSON[:n], l)
		}
	}
}

// TestJSONReadsWhatEncodingJSONWrites: objects with escapes, nesting and any order of members.
func TestJSONReadsWhatEncodingJSONWrites(t *testing.T) {
	s := scanner(t, "json", jsonMapping(t))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\/{}[]:,\n\u2028é\U0001f600 \x00")), 1, 20, 60)
		key, junk := text.Draw(t, "key"), text.Draw(t, "junk")
		seconds := rapid.Int64Range(0, 4_000_000_000).Draw(t, "seconds")
		object := map[string]any{
			"time": seconds, "addr": "1.2.3.4", "path": "/" + rapid.StringMatching(`[a-z"\\]{0,9}`).Draw(t, "path"),
			"status": rapid.IntRange(100, 599).Draw(t, "status"), "bytes": rapid.Int64Range(0, 1<<62).Draw(t, "bytes"),
			"http": map[string]any{"key": key, junk: []any{junk, nil, 1.5, map[string]any{}}}, "z" + junk: junk,
		}
		line, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		l := new(Line)
		if got := s.Scan(line, l); got != OK {
			t.Fatalf("%s: got %v", line, got)
		}
		want := []string{"1.2.3.4", key, "1.2.3.4|" + object["path"].(string)}
		if !slices.Equal(l.IDs, want) || l.Time != seconds*second || l.Resource != object["path"] ||
			int(l.Status) != object["status"] || l.Cost != object["bytes"] {
			t.Fatalf("%s: got %+v", line, l)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(benchJSON))
	f.Add([]byte(`{"time":"1431857103.5","addr":"::1","http":{"key":"a\"b"},"http.key":1,"path":"/\u0000"}`))
	f.Add([]byte(`{"time":1,"http":{"a":[{}],"key":null},"addr":"1.2.3.4","status":1e2,"bytes":-0}`))
	f.Add([]byte("{\"ti\\u006de\":1,\"addr\":\"1.2.3.4\",\"a\":\"\\\\\",\"bytes\":\"\xff\"}"))
	s := scanner(f, "json", jsonMapping(f))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, before := roomy(), string(line)
		got := s.Scan(line, l)
		if got == OK {
			checkLine(t, line, l)
		}
		if string(line) != before {
			t.Error("Scan changed the line")
		}
		want, ok := jsonOracle(line)
		if !ok || len(line) > MaxLine {
			return
		}
		if got != OK || l.Time != want.Time || !slices.Equal(l.IDs, want.IDs) || l.Resource != want.Resource || l.Status != want.Status || l.Cost != want.Cost {
			t.Errorf("%q: got %v, %+v, want %+v", line, got, l, want)
		}
	})
}

// jsonOracle reads a line by encoding/json; ok only if the line is an ordinary one.
func jsonOracle(line []byte) (Line, bool) {
	var o struct {
		Time   uint32 `json:"time"`
		Addr   string `json:"addr"`
		Path   string `json:"path"`
		Status uint8  `json:"status"`
		Bytes  int64  `json:"bytes"`
	}
	var names map[string]json.RawMessage
	if json.Unmarshal(line, &o) != nil || json.Unmarshal(line, &names) != nil || o.Bytes < 0 || o.Addr == "" {
		return Line{}, false
	}
	for name, raw := range names {
		// encoding/json ignores the case of keys; repeats null and invalid UTF-8; reads -0 as 0. And nothing with a key.
		lower := strings.ToLower(name)
		plain := slices.Contains([]string{"time", "addr", "path", "status", "bytes"}, name)
		if lower != name && !plain || strings.HasPrefix(name, "http") || plain && string(raw) == "null" || strings.ContainsAny(name+string(raw), "\ufffdſK") || strings.HasPrefix(string(raw), "-") {
			return Line{}, false
		}
		if strings.Count(string(line), `"`+name+`"`) > 1 || strings.Contains(string(line), `\u`) {
			return Line{}, false
		}
	}
	if names["time"] == nil || !slices.Equal([]byte(o.Addr), []byte("1.2.3.4")) {
		return Line{}, false
	}
	l := Line{Time: int64(o.Time) * second, IDs: []string{o.Addr, "", ""}, Status: uint16(o.Status), Cost: o.Bytes}
	if o.Path != "" {
		l.IDs[2] = o.Addr + "|" + o.Path
		if len(l.IDs[2]) > schemas.MaxCallerID {
			l.IDs[2] = ""
		}
	}
	l.resource(pathOf(o.Path))
	return l, true
}

// jsonText draws text out of what matters to the walk.
func jsonText() *rapid.Generator[string] {
	return rapid.StringOf(rapid.SampledFrom([]rune(`ab"\{}[]:, 1-`)))
}

// closing is stringEnd by looking at each byte in turn.
func closing(s string, i int) int {
	for escape := false; i < len(s); i++ {
		switch {
		case escape:
			escape = false
		case s[i] == '\\':
			escape = true
		case s[i] == '"':
			return i
		}
	}
	return len(s)
}

func TestStringsEndWhereTheyEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := jsonText().Draw(t, "text")
		i := rapid.IntRange(0, len(s)).Draw(t, "from")
		want := closing(s, i)
		if got := stringEnd(s, i); got != want {
			t.Fatalf("stringEnd(%q, %d): got %d, want %d", s, i, got, want)
		}
		end, plain := keyEnd(s, i)
		if end != want || plain == strings.Contains(s[i:want], `\`) {
			t.Fatalf("keyEnd(%q, %d): got %d, %v, want %d", s, i, end, plain, want)
		}
		if got := plainEnd(s, i); got != 0 && (s[i] != '"' || got != closing(s, i+1)+1) {
			t.Fatalf("plainEnd(%q, %d): got %d", s, i, got)
		}
	})
}

func TestValuesEndWhereTheyEnd(t *testing.T) {
	for text, want := range map[string]string{
		`"a",`: `"a"`, `"",`: `""`, `"a\"b" x`: `"a\"b"`, `"a\\",`: `"a\\"`, `"a\",`: "", `"a`: "", `"`: "",
		`1,`: "1", `-1.5e3}`: "-1.5e3", `1]`: "1", `1 ,`: "1", `12`: "", `1"`: "1", `-`: "", `-,`: "-",
		`true,`: "true", `false}`: "false", `null `: "null", `nul,`: "", `nulls,`: "", `True,`: "", `NaN,`: "", `,`: "", `}`: "", "": "",
		`{},`: `{}`, `[],`: `[]`, `{"a":[1,{"b":"}"}]},x`: `{"a":[1,{"b":"}"}]}`, `["]",1],`: `["]",1]`, `{`: "", `[[]`: "", `{"a":"}`: "",
		`["\"]"],`: `["\"]"]`, `[}`: `[}`, // not worth telling: it is damaged, and passed over whole
	} {
		end := valueEnd(text, 0)
		if got := text[:end]; got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestTheLowestEqualByteIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "bytes")
		c := rapid.OneOf(rapid.Byte(), rapid.SampledFrom(b)).Draw(t, "byte")
		got := -1
		if hit := equalBytes(word(string(b)), c); hit != 0 {
			for got = 0; hit&0xff == 0; got++ {
				hit >>= 8
			}
		}
		if want := strings.IndexByte(string(b), c); got != want {
			t.Fatalf("%x in % x: got %d, want %d", c, b, got, want)
		}
	})
}

// TestKeysInChangingOrder: what the scanner remembers of a line never shows in the next one.
func TestKeysInChangingOrder(t *testing.T) {
	s := scanner(t, "json", Mapping{Callers: callers(t, "ip=a", "key=k.x", "tenant=tenant"), Status: "status"})
	members := []string{`"time":1`, `"time" :1`, `"a":"1.2.3.4"`, `"a" : "1.2.3.4"`, `"\u0061":"1.2.3.4"`, `"k":{"x":"y"}`, `"k.x":"y"`, `"tenant":"t"`, `"ten":"no"`,
		`"tenants":"no"`, `"status":200`, `"stat":500`, `"":0`, `"` + strings.Repeat("long", 40) + `":1`}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(members), 0, 30).Draw(t, "members")
		line := []byte("{" + strings.Join(drawn, ",") + "}")
		has := func(part string) bool { return strings.Contains(string(line), part) }
		l := new(Line)
		got := s.Scan(line, l)
		if want := has(`"time`) && (has(`"1.2.3.4"`) || has(`"y"`) || has(`"t"`)); (got == OK) != want {
			t.Fatalf("%s: got %v", line, got)
		}
		if got != OK {
			return
		}
		if (l.IDs[0] != "") != has(`"1.2.3.4"`) || (l.IDs[1] != "") != has(`"y"`) || (l.IDs[2] != "") != has(`"t"`) || (l.Status == 200) != has(`"status"`) {
			t.Fatalf("%s: got %+v", line, l)
		}
	})
}

func TestWholeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[0-9]{1,25}(\.[0-9]{1,5})?`), rapid.StringMatching(`-?[0-9]{1,3}(\.[0-9])?(e[0-9])?`)).Draw(t, "number")
		f, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatal(s)
		}
		want := int64(0)
		if f.Sign() > 0 {
			n := new(big.Int).Quo(f.Num(), f.Denom())
			if want = math.MaxInt64; n.IsInt64() {
				want = n.Int64()
			}
		}
		// Numbers with an exponent go through a float64: exact up to 2^53.
		rounded := strings.Contains(s, "e") && want >= 1<<53
		if got := whole(s); got != want && (!rounded || math.Abs(float64(got)-float64(want)) > float64(want)/1e15) {
			t.Fatalf("%s: got %d, want %d", s, got, want)
		}
	})
	for _, s := range []string{"", "x", "true", "-5", "nan", "-inf", "inf", "+Infinity", "1x", " 1", "0x10p", "0x1p9", "1_0", "1e-9", ".", "1.2.3", "1.x", "1.5e", "99999999999999999999x"} {
		if got := whole(s); got != 0 {
			t.Errorf("%q: got %d, want 0", s, got)
		}
	}
}

// TestAFractionNeverRoundsUp: a float64 takes each of these for one more.
func TestAFractionNeverRoundsUp(t *testing.T) {
	for s, want := range map[string]int64{
		"1130000000000000.9":            1130000000000000,
		"4503599627370495.99":           1<<52 - 1,
		"9007199254740993.5":            1<<53 + 1,
		"9223372036854775806.999":       math.MaxInt64 - 1,
		"9223372036854775807.0":         math.MaxInt64,
		"9223372036854775807.9":         math.MaxInt64,
		"9223372036854775808.0":         math.MaxInt64,
		"0.99999999999999999999":        0,
		"7.":                            7,
		".75":                           0,
		"+7.9":                          7,
		"12345e-2":                      123,
		"95e-1":                         9,
		"1e400":                         math.MaxInt64,
		strings.Repeat("0", 99) + "7.9": 7,
	} {
		if got := whole(s); got != want {
			t.Errorf("%s: got %d, want %d", s, got, want)
		}
	}
}

func TestUnixTimesAreExact(t *testing.T) {
	units := map[TimeLayout]int64{TimeUnix: 1e9, TimeUnixMilli: 1e6, TimeUnixMicro: 1e3, TimeUnixNano: 1}
	rapid.Check(t, func(t *rapid.T) {
		nanos := rapid.Int64Range(0, maxSecond*second).Draw(t, "nanos")
		for layout, unit := range units {
			c := clock{layout: layout}
			// Written with all its digits, the time comes back to the nanosecond, as no float64 could.
			text := strconv.FormatInt(nanos/unit, 10)
			if unit > 1 {
				text += "." + strconv.FormatInt(unit+nanos%unit, 10)[1:]
			}
			if got, ok := c.parse(text); !ok || got != nanos {
				t.Fatalf("%v %s: got %d, %v, want %d", layout, text, got, ok, nanos)
			}
		}
	})
}
