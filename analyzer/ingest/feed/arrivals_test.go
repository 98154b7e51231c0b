package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// fed returns the frames that a log becomes by a mapping, with all their entries.
func fed(t *testing.T, mapping, log string) (frames []schemas.Frame, versions []uint32) {
	t.Helper()
	b := newBroker()
	c := config(t, b)
	format, err := ingest.ParseMapping("mapping", []byte(mapping), "", schemas.IDs{})
	if err != nil {
		t.Fatal(err)
	}
	c.Format = format
	run(t, c, func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		return errors.Join(s.Text(ctx, []byte(log), 0, int64(len(log))), s.Close())
	})
	for _, values := range b.requests() {
		for _, value := range values {
			var f schemas.Frame
			if err := f.Decode(value); err != nil {
				t.Fatal(err)
			}
			frames, versions = append(frames, f), append(versions, schemas.FrameVersionOf(value))
		}
	}
	return frames, versions
}

// TestEntriesOfLinesThatHaveADuration: times are ms after a start, and arrived is of the same. A log whose mapping names no duration is
// sent as it always was, in frames of version 1.
func TestEntriesOfLinesThatHaveADuration(t *testing.T) {
	const start = 1_772_366_400_000 // ms
	for _, test := range []struct {
		name, mapping, log string
		version            uint32
		want               []string
	}{
		{
			"no duration", "", `{"t":0,"took":250,"k":"a","s":200,"c":7,"d":9}`, 1,
			[]string{"0 arrival", "0 response 200 cost 7"},
		},
		{
			"the time is the start", "duration: {field: took, unit: ms}, time: {field: t, at: start}", `{"t":0,"took":250,"k":"a","s":200,"c":7}`, 2,
			[]string{"0 arrival arrived 0", "250 response 200 cost 7 arrived 0"},
		},
		{
			"the time is the end", "duration: {field: took, unit: ms}, time: {field: t, at: end}", `{"t":250,"took":250,"k":"a","s":200,"c":7}`, 2,
			[]string{"0 arrival arrived 0", "250 response 200 cost 7 arrived 0"},
		},
		{
			"a declared cost", "duration: {field: took, unit: ms}, time: {field: t, at: end}, cost: {field: c, declared: d}", `{"t":250,"took":250,"k":"a","s":200,"c":7,"d":9}`, 2,
			[]string{"0 arrival arrived 0 declared 9", "250 response 200 cost 7 arrived 0 declared 9"},
		},
		{
			"blocked", "duration: {field: took, unit: ms}, time: {field: t, at: start}", `{"t":0,"took":250,"k":"a","s":429}`, 1,
			[]string{"0 arrival blocked", "250 response 429 cost 0 blocked"},
		},
		{
			"no duration in this line", "duration: {field: took, unit: ms}, time: {field: t, at: end}", `{"t":250,"k":"a","s":200,"c":7}`, 2,
			[]string{"250 arrival arrived 250", "250 response 200 cost 7 arrived 250"},
		},
		{
			"without responses", "duration: {field: took, unit: ms}, time: {field: t, at: end}, responses: false", `{"t":250,"took":250,"k":"a"}`, 1,
			[]string{"0 arrival"},
		},
		{
			"two lines of a request", "duration: {field: took, unit: ms}, time: {field: t, at: start}, arrivals: {part: first}",
			`{"t":0,"took":1,"k":"a","part":"first"}` + "\n" + `{"t":0,"took":250,"k":"a","s":200,"c":7,"part":"last"}`, 2,
			[]string{"0 arrival arrived 0", "250 response 200 cost 7 arrived 0"},
		},
		{
			"two lines of a request that was blocked after the first", "duration: {field: took, unit: ms}, time: {field: t, at: start}, arrivals: {part: first}",
			`{"t":0,"k":"a","part":"first"}` + "\n" + `{"t":0,"took":10,"k":"a","s":429,"part":"last"}`, 2,
			[]string{"0 arrival arrived 0", "10 response 429 cost 0 blocked arrived 0"},
		},
		{
			"a sidecar reports the arrivals", "duration: {field: took, unit: ms}, time: {field: t, at: end}, arrivals: none",
			`{"t":250,"took":250,"k":"a","s":200,"c":7}` + "\n" + `{"t":300,"took":1,"k":"a","s":429}`, 2,
			[]string{"250 response 200 cost 7 arrived 0", "300 response 429 cost 0 blocked"},
		},
		{
			"a sidecar reports the arrivals, and no duration is known", "arrivals: none", `{"t":250,"k":"a","s":200,"c":7}`, 1,
			[]string{"250 response 200 cost 7"},
		},
	} {
		mapping := `{version: 1, format: json, callers: {k: "{k}"}, status: s`
		for field, text := range map[string]string{"time: ": "time: {field: t}", "cost: ": "cost: {field: c}", test.mapping: test.mapping} {
			if text != "" && (field == test.mapping || !strings.Contains(test.mapping, field)) {
				mapping += ", " + text
			}
		}
		log := test.log
		for _, at := range []int{0, 250, 300} {
			log = strings.ReplaceAll(log, fmt.Sprintf(`"t":%d,`, at), fmt.Sprintf(`"t":%d,`, start+at))
		}
		frames, versions := fed(t, mapping+"}", log+"\n")
		var got []string
		for _, f := range frames {
			for _, e := range f.Entries {
				text := fmt.Sprint(e.Time/1e6-start, " arrival")
				if e.Response {
					text = fmt.Sprint(e.Time/1e6-start, " response ", e.Status, " cost ", e.Cost)
				}
				if e.Blocked {
					text += " blocked"
				}
				if e.Arrived != 0 {
					text += fmt.Sprint(" arrived ", e.Arrived*10-start)
				}
				if e.Declared != 0 {
					text += fmt.Sprint(" declared ", e.Declared)
				}
				got = append(got, text)
			}
		}
		if !slices.Equal(got, test.want) || len(versions) != 1 || versions[0] != test.version {
			t.Errorf("%s: got %q in frames of versions %v, want %q in one of version %d", test.name, got, versions, test.want, test.version)
		}
	}
}

// TestAFrameHasRoomForWhatItsFirstResponseAdds: arrivals alone fill a frame of version 1, and one response makes all its entries larger.
func TestAFrameHasRoomForWhatItsFirstResponseAdds(t *testing.T) {
	var log bytes.Buffer
	for n := range 6500 {
		fmt.Fprintf(&log, `{"time":%d,"k":"a","part":"first"}`+"\n", 1_772_366_400+n)
		if n > 5500 { // one of them comes when the frame is nearly full
			fmt.Fprintf(&log, `{"time":%d,"took":1,"k":"a","part":"last"}`+"\n", 1_772_366_400+n)
		}
	}
	frames, _ := fed(t, `{version: 1, format: json, callers: {k: "{k}"}, time: {at: start}, duration: {field: took, unit: s}, arrivals: {part: first}}`, log.String())
	arrivals, responses := 0, 0
	for _, f := range frames {
		for _, e := range f.Entries {
			if e.Response {
				responses++
			} else {
				arrivals++
			}
		}
	}
	if arrivals != 6500 || responses != 999 {
		t.Errorf("got %d arrivals and %d responses, want 6500 and 999", arrivals, responses)
	}
}

// TestWhatIsCountedOfALogWithDurations: a cost counts in the minute in which its request arrived. What is in flight is known of a log that has
// lines of arrivals; the arrivals and responses of a log of ends cancel out.
func TestWhatIsCountedOfALogWithDurations(t *testing.T) {
	const minute = 1_772_366_400 // s
	line := func(at, took float64, cost int, more string) string {
		return fmt.Sprintf(`{"t":%.3f,"took":%.3f,"k":"a","c":%d%s}`+"\n", minute+at, took, cost, more)
	}
	const end, start = "time: {field: t, at: end}", "time: {field: t, at: start}, arrivals: {part: first}"
	first, last := `,"part":"first"`, `,"part":"last"`
	for _, test := range []struct {
		name, mapping, charge, log string
		counted, inFlight          int64
	}{
		{"ends", end, "arrival", line(70, 20, 700, "") + line(71, 1, 5, ""), 5, 0},
		{"ends, charged at the end", end, "end", line(70, 20, 700, "") + line(71, 1, 5, ""), 705, 0},
		{"ends, of which the gate has refused one", end, "arrival", line(70, 20, 700, `,"s":429`) + line(71, 1, 5, ""), 5, 0},
		{"a start", start, "arrival", line(61, 0, 0, first), 0, 1},
		{"starts and ends", start, "arrival", line(50, 0, 0, first) + line(61, 0, 0, first) + line(62, 0, 0, first) + line(61, 5, 9, last) + line(50, 20, 700, last), 9, 1},
		{"a start whose end is too long ago", start, "arrival", line(61, 0, 0, first) + line(61, 86401, 9, last), 9, 0},
		{"a start, and the gate refuses it", start, "arrival", line(61, 0, 0, first) + line(61, 0.001, 0, `,"part":"last","s":429`), 0, 0},
		{"an end before its start", start, "arrival", line(61, 0, 0, first) + line(61, -7, 9, last), 9, 0},
	} {
		hold := ""
		if test.charge == "arrival" {
			hold = ", hold: {estimate: 10}"
		}
		set, err := rules.Parse("rules", fmt.Appendf(nil, "version: 1\nrules: [{name: r, callers: k, limit: 1000, window: 1m, algorithm: fixed, measure: cost, charge: %s%s}]\n", test.charge, hold))
		if err != nil {
			t.Fatal(err)
		}
		caller := schemas.Caller{Kind: "k", ID: "a"}
		f := fold.New(set, fold.Options{NoStore: true, Partitions: testPartitions, Partition: schemas.Partition(schemas.DefaultPartitionKey().Hash(caller.Kind, caller.ID), testPartitions)})
		frames, _ := fed(t, "{version: 1, format: json, callers: {k: '{k}'}, status: s, cost: {field: c}, duration: {field: took, unit: s}, "+test.mapping+"}", test.log)
		for i := range frames {
			value, err := frames[i].AppendTo(nil)
			if err == nil {
				err = f.Frame(fold.Record{Offset: int64(i), Time: (minute + 100) * 1e9, Value: value})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got := f.View().Look(caller, (minute+75)*1e9).Rules[0]
		if got.Count.Total != test.counted || got.Room.InFlight != test.inFlight || f.Stats().Closes != 0 {
			t.Errorf("%s: got %d counted and %d in flight, want %d and %d", test.name, got.Count.Total, got.Room.InFlight, test.counted, test.inFlight)
		}
	}
}
