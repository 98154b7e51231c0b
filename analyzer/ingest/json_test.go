package ingest

import (
	"encoding/json"
	"slices"
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
