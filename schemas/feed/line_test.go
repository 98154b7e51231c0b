package feed

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

const noon = 1_764_331_200_000_000_000

// TestLinesAreAsSpecified has each line as schemas/FEED.md describes it, and reads it again.
func TestLinesAreAsSpecified(t *testing.T) {
	closed := schemas.Decision{
		Rule: "per-ip", Caller: schemas.Caller{Kind: "ip", ID: "203.0.113.9"}, Mode: schemas.ModeEnforce, CloseAt: noon + 1, Until: noon + 60e9,
		Partition: 3, Evidence: schemas.Evidence{Limit: 100, Window: 60e9},
	}
	shared := schemas.Decision{
		Rule: `a "b"`, Caller: schemas.Caller{Kind: "key", ID: "\xff<é\n"}, Mode: schemas.ModeShadow, CloseAt: noon, Until: noon + 5e8, Early: true,
		Next: schemas.Span{CloseAt: noon + 5e8, Until: noon + 20e9}, Share: &schemas.Share{
			From: noon, Until: noon + 6e9, Period: 1e8, Permits: 7, DemandFrom: noon - 2e9, DemandUntil: noon, Demand: 31,
		},
	}
	held := schemas.Decision{
		Rule: "tokens", Caller: schemas.Caller{Kind: "key", ID: "k"}, Mode: schemas.ModeEnforce, CloseAt: noon, Until: noon + 14e9, Early: true, Held: true,
		Next: schemas.Span{CloseAt: noon + 14e9, Until: noon + 15e9, Early: true},
	}
	opened := schemas.Decision{Caller: schemas.Caller{Kind: "key", ID: "a<é\n"}, Mode: schemas.ModeEnforce}
	for _, test := range []struct {
		line string
		text []byte
		want Line
	}{
		{`{"type":"start","version":1}`, AppendStart(nil, false), Line{Type: Start, Version: 1}},
		{`{"type":"start","version":1,"resumed":true}`, AppendStart(nil, true), Line{Type: Start, Version: 1, Resumed: true}},
		{`{"type":"current","cursor":"18446744073709551615"}`, AppendCurrent(nil, math.MaxUint64), Line{Type: Current, Cursor: "18446744073709551615"}},
		{
			`{"type":"decision","rule":"per-ip","kind":"ip","id":"203.0.113.9","mode":"enforce","spans":[{"from":1764331200.000000001,"until":1764331264.25,"jitter":4.25}],` +
				`"limit":100,"window":60,"partition":3,"cursor":"7"}`,
			AppendDecision(nil, &closed, [2]int64{noon + 64_250e6}, 7), Line{Type: Decision, Cursor: "7", Decision: closed},
		},
		{
			`{"type":"decision","rule":"a \"b\"","kind":"key","id_base64":"/zzDqQo=","mode":"shadow",` +
				`"spans":[{"from":1764331200,"until":1764331200.5,"early":true},{"from":1764331200.5,"until":1764331221,"jitter":1}],` +
				`"share":{"from":1764331200,"until":1764331206,"period":0.1,"permits":7,"demand_from":1764331198,"demand_until":1764331200,"demand":31}}`,
			AppendDecision(nil, &shared, [2]int64{noon + 5e8, noon + 21e9}, 0), Line{Type: Decision, Decision: shared},
		},
		{
			`{"type":"decision","rule":"tokens","kind":"key","id":"k","mode":"enforce",` +
				`"spans":[{"from":1764331200,"until":1764331214,"early":true,"held":true},{"from":1764331214,"until":1764331215,"early":true}]}`,
			AppendDecision(nil, &held, [2]int64{noon + 14e9, noon + 15e9}, 0), Line{Type: Decision, Decision: held},
		},
		{`{"type":"decision","kind":"key","id":"a\u003cé\n","mode":"enforce"}`, AppendDecision(nil, &opened, [2]int64{}, 0), Line{Type: Decision, Decision: opened}},
		{`{"type":"heartbeat","at":1764331200}`, AppendHeartbeat(nil, noon, nil, 0), Line{Type: Heartbeat, At: noon, Partitions: []Partition{}}},
		{
			`{"type":"heartbeat","at":1764331200,"partitions":[{"state":"cold"},{"state":"fresh","age":0.25,"lag":0.004,"epoch":9,"seq":8,"watermark":7}],"cursor":"6"}`,
			AppendHeartbeat(nil, noon, []Partition{{State: "cold"}, {"fresh", 250 * time.Millisecond, 4 * time.Millisecond, 9, 8, 7}}, 6),
			Line{Type: Heartbeat, Cursor: "6", At: noon, Partitions: []Partition{{State: "cold"}, {"fresh", 250 * time.Millisecond, 4 * time.Millisecond, 9, 8, 7}}},
		},
		{`{"type":"later","members":7}`, []byte(`{"type":"later","members":7}` + "\n"), Line{Type: "later"}},
	} {
		if got := string(test.text); got != test.line+"\n" {
			t.Errorf("got\n%swant\n%s", got, test.line)
		}
		got, err := Parse(test.text)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v and %v, want %+v", test.line, got, err, test.want)
		}
	}
}

// TestWhatIsNoLineIsRefused says of each mistake what was got.
func TestWhatIsNoLineIsRefused(t *testing.T) {
	decision := func(members string) string {
		return `{"type":"decision","kind":"ip","id":"1.2.3.4","mode":"enforce",` + members + `}`
	}
	for _, test := range []struct{ line, want string }{
		{``, "unexpected end"},
		{`{"type":"start"} x`, "after top-level value"},
		{`{}`, "got no type"},
		{`{"type":"decision","kind":"ip","id":"1.2.3.4"}`, `mode: got "", want enforce or shadow`},
		{`{"type":"decision","kind":"IP","id":"1.2.3.4","mode":"enforce"}`, "kind"},
		{`{"type":"decision","kind":"ip","mode":"enforce"}`, "id"},
		{decision(`"partition":-1`), "partition: got -1"},
		{decision(`"partition":4294967296`), "cannot unmarshal"},
		{decision(`"spans":[{},{},{}]`), "spans: got 3"},
		{decision(`"spans":[{"from":2,"until":2}]`), "from 2 until 2"},
		{decision(`"spans":[{"from":1,"until":9,"jitter":8}]`), "jitter of 8"},
		{decision(`"spans":[{"from":1,"until":9,"jitter":-1}]`), "jitter of -1"},
		{decision(`"spans":[{"from":1,"until":1e3}]`), "got 1e3, want seconds without an exponent"},
		{decision(`"spans":[{"from":0.1234567890,"until":9}]`), "1 to 9 digits"},
		{decision(`"window":9223372036.854775808`), "fit 64 bits"},
		{decision(`"window":"60"`), "want seconds"},
	} {
		if _, err := Parse([]byte(test.line)); !errors.Is(err, ErrLine) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want ErrLine with %q", test.line, err, test.want)
		}
	}
}

// FuzzParse: what can be read is written in a form that reads as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"decision","rule":"r","kind":"ip","id":"1.2.3.4","mode":"shadow","spans":[{"from":-1.5,"until":2.25,"jitter":0.5,"early":true}],"limit":1,"window":60,"share":{"from":1}}`))
	f.Add([]byte(`{"type":"decision","kind":"key","id":"k","mode":"enforce","spans":[{"from":1,"until":2,"early":true,"held":true},{"from":2,"until":3,"held":true}]}`))
	f.Add([]byte(`{"type":"decision","kind":"key","id":"k","mode":"enforce","spans":[{"from":1,"until":2,"held":true}]}`))
	f.Add([]byte(`{"type":"heartbeat","at":1764331200.000000001,"partitions":[{"state":"stale","age":4,"epoch":1}],"cursor":"9"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		var again []byte
		switch d := &l.Decision; l.Type {
		case Decision:
			again = AppendDecision(nil, d, [2]int64{d.Until, d.Next.Until}, 0)
		case Heartbeat:
			for i := range l.Partitions {
				if p := &l.Partitions[i]; p.Epoch == 0 {
					*p = Partition{State: "cold"}
				} else {
					p.State = "fresh"
				}
			}
			again = AppendHeartbeat(nil, l.At, l.Partitions, 0)
		default:
			return
		}
		l.Cursor = ""
		if got, err := Parse(again); err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("%s\ngot %+v and %v\nwant %+v", again, got, err, l)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	d := schemas.Decision{
		Rule: "per-ip", Caller: schemas.Caller{Kind: "ip", ID: "203.0.113.9"}, Mode: schemas.ModeEnforce, CloseAt: noon + 1, Until: noon + 60e9,
		Evidence: schemas.Evidence{Limit: 100, Window: 60e9},
	}
	line := AppendDecision(nil, &d, [2]int64{noon + 64_250e6}, 7)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
