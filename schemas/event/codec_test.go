package event

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

const head = `{"id":"00112233445566778899aabbccddeeff","type":"closed","time":"2026-11-22T12:00:00Z","partition":1,"offset":2`

// TestLaterVersionsAreRead: a later version may write fields and types that this one does not know.
func TestLaterVersionsAreRead(t *testing.T) {
	t.Parallel()
	e, err := Decode([]byte(head + `,"colour":{"deep":[1,2]},"caller":{"kind":"ip","id":"192.0.2.1","name":"n"}}`))
	if err != nil || e.Caller.ID != "192.0.2.1" || !e.Known() {
		t.Errorf("got %+v, %v, want the fields that are known", e, err)
	}
	e, err = Decode([]byte(strings.Replace(head, "closed", "paused", 1) + `}`))
	if err != nil || e.Type != "paused" || e.Known() {
		t.Errorf("got %+v, %v, want an event of an unknown type", e, err)
	}
}

// TestTimesAreUTC: another program may write another zone.
func TestTimesAreUTC(t *testing.T) {
	t.Parallel()
	e, err := Decode([]byte(strings.Replace(head, "12:00:00Z", "13:00:00+01:00", 1) + `}`))
	if err != nil || !reflect.DeepEqual(e.Time, noon(0)) {
		t.Errorf("got %v, %v, want %v", e.Time, err, noon(0))
	}
}

// TestACallerHasOneForm: two programs that write the same caller in two ways mean one event.
func TestACallerHasOneForm(t *testing.T) {
	t.Parallel()
	for caller, want := range map[string]schemas.Caller{
		`{"id_base64":""}`:                          {},
		`{"kind":"ip","id":"x","id_base64":""}`:     {Kind: "ip", ID: "x"},
		`{"kind":"ip","id":"?","id_base64":"eA=="}`: {Kind: "ip", ID: "x"},
		`{"kind":"ip","id":"?","id_base64":"/w=="}`: {Kind: "ip", ID: "\xff"},
	} {
		e, err := Decode([]byte(head + `,"caller":` + caller + `}`))
		if err != nil || !reflect.DeepEqual(e.Caller, CallerOf(want)) {
			t.Errorf("%s: got %+v, %v, want %+v", caller, e.Caller, err, CallerOf(want))
		}
	}
}

// TestAllUnixNanosecondsAreRead: senders choose times, and an event that cannot be read back would spoil the store that it waits in.
func TestAllUnixNanosecondsAreRead(t *testing.T) {
	t.Parallel()
	for _, nanos := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 1, math.MaxInt64} {
		at := time.Unix(0, nanos).UTC()
		e := Event{Type: Closed, Time: at, CloseAt: at, Until: at, Rule: "r"}
		e.Identify()
		if got, err := Decode(e.Encode()); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%d: got %+v, %v, want %+v", nanos, got, err, e)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ value, want string }{
		"nothing":       {"", "unexpected end"},
		"no object":     {`[1]`, "cannot unmarshal array"},
		"two objects":   {head + `}{}`, "after top-level value"},
		"no id":         {`{"type":"closed","time":"2026-11-22T12:00:00Z"}`, `id: got "", want 32 hexadecimal digits`},
		"id in letters": {strings.Replace(head, "0011", "ZZ11", 1) + `}`, "id: got"},
		"long id":       {strings.Replace(head, "0011", strings.Repeat("0", 1000), 1) + `}`, "id: got"},
		"no type":       {strings.Replace(head, "closed", "", 1) + `}`, "type: got 0 bytes, want 1 to 64"},
		"long type":     {strings.Replace(head, "closed", strings.Repeat("c", 65), 1) + `}`, "type: got 65 bytes"},
		"no time":       {`{"id":"00112233445566778899aabbccddeeff","type":"closed"}`, "time: got none"},
		"no such time":  {strings.Replace(head, "T12", "T25", 1) + `}`, "parsing time"},
		"year 9999":     {strings.Replace(head, "2026", "9999", 1) + `}`, "time: got the year 9999, want 1677 to 2262"},
		"year 10000":    {head + `,"until":"9999-12-31T23:59:59-01:00"}`, "until: got the year 10000"},
		"offset":        {head[:strings.Index(head, `"offset"`)] + `"offset":-1}`, "offset: got -1, want 0 or more"},
		"float":         {head + `,"count":1.5}`, "cannot unmarshal number 1.5"},
		"long rule":     {head + `,"rule":"` + strings.Repeat("r", 65) + `"}`, "rule: got 65 bytes, want at most 64"},
		"long reason":   {head + `,"reason":"` + strings.Repeat("r", 1537) + `"}`, "reason: got 1537 bytes"},
		"caller kind":   {head + `,"caller":{"kind":"IP","id":"x"}}`, "caller: bad caller kind"},
		"caller id":     {head + `,"caller":{"kind":"ip","id":""}}`, "caller: bad caller id"},
		"long caller":   {head + `,"caller":{"kind":"ip","id":"` + strings.Repeat("i", 257) + `"}}`, "caller: bad caller id"},
		"bad base64":    {head + `,"caller":{"kind":"ip","id":"x","id_base64":"?"}}`, "base64"},
		"too long":      {head + `,"x":"` + strings.Repeat("x", MaxBytes) + `"}`, "bytes, want at most 16384"},
		"deep":          {head + `,"x":` + strings.Repeat("[", MaxBytes/2), "unexpected end"},
	} {
		e, err := Decode([]byte(c.value))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want an error with %q", name, e, err, c.want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: got an error of %d bytes, want a short one", name, len(err.Error()))
		}
	}
}

// FuzzDecode: whatever decodes can be encoded, and decodes to the same again.
func FuzzDecode(f *testing.F) {
	for _, e := range samples() {
		f.Add(e.Encode())
	}
	f.Add([]byte(head + `,"caller":{"id_base64":""}}`))
	f.Add([]byte(head + `,"caller":{"kind":"ip","id":"\ud800"},"until":"9999-12-31T23:59:59-01:00"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := Decode(value)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("got %v, want ErrFormat", err)
			}
			return
		}
		again := e.Encode()
		if len(again) > MaxBytes {
			return // it quotes what was not quoted before
		}
		f, err := Decode(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if third := f.Encode(); !bytes.Equal(again, third) {
			t.Fatalf("got %s, want %s", third, again)
		}
		e.Identify()
		f.Identify()
		if e.ID != f.ID {
			t.Fatalf("got the ids %s and %s of one event", e.ID, f.ID)
		}
	})
}
