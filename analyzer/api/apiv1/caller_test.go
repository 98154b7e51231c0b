package apiv1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// strict reads what the API reads: one value, and no field that the type does not have.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more behind the value")
	}
	return nil
}

// TestWhatIsWrittenIsRead: each type, with all fields filled and with none, comes back as it was from its own JSON.
func TestWhatIsWrittenIsRead(t *testing.T) {
	for name, zero := range types() {
		for _, want := range []reflect.Value{filled(reflect.TypeOf(zero)), reflect.ValueOf(zero)} {
			text, err := json.Marshal(want.Interface())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := reflect.New(want.Type())
			if err := strict(text, got.Interface()); err != nil || !reflect.DeepEqual(got.Elem().Interface(), want.Interface()) {
				t.Errorf("%s: got %+v and %v of %s\nwant %+v", name, got.Elem(), err, text, want)
			}
		}
	}
}

// TestAFieldTooManyIsRefused at each depth: a field that is misspelt would be a limit for all rules in place of one.
func TestAFieldTooManyIsRefused(t *testing.T) {
	for name, zero := range types() {
		if reflect.TypeOf(zero).Kind() != reflect.Struct {
			continue
		}
		text, err := json.Marshal(filled(reflect.TypeOf(zero)).Interface())
		if err != nil {
			t.Fatal(err)
		}
		for at := range text {
			if text[at] != '{' {
				continue
			}
			more := fmt.Sprintf(`%s{"ruel":"x",%s`, text[:at], text[at+1:])
			if err := strict([]byte(more), reflect.New(reflect.TypeOf(zero)).Interface()); err == nil || !strings.Contains(err.Error(), "ruel") {
				t.Errorf("%s: got %v of %s, want the field refused", name, err, more)
			}
		}
	}
}

// FuzzBodies: whatever a client sends as a body, what is read of it is written and read again as the same, and no id changes on the way.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"caller":{"kind":"key","id":"a"},"until":"2026-11-22T12:00:00Z","reason":"r"}`))
	f.Add([]byte(`{"caller":{"kind":"key","id_base64":"/wA="},"rule":"r","limit":9223372036854775807,"reason":"\u0000\ud800"}`))
	f.Add([]byte(`{"callers":[{"kind":"ip","id":"::1"}],"count":-1,"status":1e3,"rules":"version: 1"}`))
	f.Add([]byte(`{"id":"00","reason":"","until":"0000-01-01T00:00:00+23:59"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{&CloseRequest{}, &OpenRequest{}, &LimitRequest{}, &ResetRequest{}, &ModeRequest{}, &UndoRequest{}, &TryRequest{}, &RulesCheck{}} {
			if strict(body, v) != nil {
				continue
			}
			text, err := json.Marshal(v)
			if err != nil {
				if strings.Contains(err.Error(), "Time.MarshalJSON") {
					continue // it is read before it is refused: years from 0 to 9999, and offsets below a day
				}
				t.Fatalf("%s was read as %+v, and cannot be written: %v", body, v, err)
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := strict(text, again); err != nil {
				t.Fatalf("%s was written as %s, which cannot be read: %v", body, text, err)
			}
			if rewritten, err := json.Marshal(again); err != nil || !bytes.Equal(rewritten, text) {
				t.Fatalf("%s was written as %s and then as %s", body, text, rewritten)
			}
		}
	})
}

// ids that break what looks only at text.
var ids = []string{
	"a", "", "/", "%2f", "..", "line\nbreak", "\x1b[2J", "\x00", "\xff", "a\xffb", "\xed\xa0\x80", "\xc0\xaf", "\ufffd", "<script>&\u2028", `"\`,
	strings.Repeat("é", 128), strings.Repeat("\xfe", 256), "\xf4\x90\x80\x80", "\U0010ffff",
}

// TestAnIDComesBackAsItWas: an id is bytes, and JSON is text.
func TestAnIDComesBackAsItWas(t *testing.T) {
	for _, id := range ids {
		want := schemas.Caller{Kind: "key", ID: id}
		written := event.CallerOf(want)
		if got := written.Caller(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if (written.IDBase64 != nil) == utf8.ValidString(id) {
			t.Errorf("%q: got id_base64 %q, want it if and only if the id is not UTF-8", id, written.IDBase64)
		}
		text, err := json.Marshal(written)
		if err != nil || !utf8.Valid(text) {
			t.Fatalf("%q: got %q and %v, want UTF-8", id, text, err)
		}
		var read Caller
		if err := strict(text, &read); err != nil || read.Caller() != want {
			t.Errorf("got %q and %v of %s, want %q", read.Caller(), err, text, want)
		}
	}
}

// FuzzCaller: the same for whatever id.
func FuzzCaller(f *testing.F) {
	for _, id := range ids {
		f.Add("key", id)
	}
	f.Fuzz(func(t *testing.T, kind, id string) {
		if schemas.ValidateKind(kind) != nil {
			return
		}
		want := schemas.Caller{Kind: kind, ID: id}
		text, err := json.Marshal(event.CallerOf(want))
		var read Caller
		if err = errors.Join(err, strict(text, &read)); err != nil || read.Caller() != want {
			t.Fatalf("got %q and %v of %s, want %q", read.Caller(), err, text, want)
		}
	})
}

// TestTwoIDsAreNeverOne: an id that is not UTF-8 is shown with replacement characters, and another one may have these as its bytes.
func TestTwoIDsAreNeverOne(t *testing.T) {
	written := make(map[string]string)
	for _, id := range ids {
		text, err := json.Marshal(event.CallerOf(schemas.Caller{Kind: "key", ID: id}))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := written[string(text)]; ok {
			t.Errorf("%q and %q are both %s", id, other, text)
		}
		written[string(text)] = id
	}
}

// TestABase64IDWins: a client that sends both means the bytes, since CallerOf writes both; and bad base64 is no id at all.
func TestABase64IDWins(t *testing.T) {
	var c Caller
	if err := strict([]byte(`{"kind":"key","id":"\ufffd","id_base64":"/w=="}`), &c); err != nil || c.Caller().ID != "\xff" {
		t.Errorf("got %q and %v, want the byte 0xff", c.Caller().ID, err)
	}
	for _, bad := range []string{`"/w"`, `"_w=="`, `"/w==x"`, `7`, `["a"]`} {
		if err := strict([]byte(`{"kind":"key","id_base64":`+bad+`}`), &Caller{}); err == nil {
			t.Errorf("id_base64 %s: got %+v, want an error", bad, c)
		}
	}
}

// TestTimesAtTheEdges: all times that Unix nanoseconds can name are written and read as they are, to the nanosecond.
func TestTimesAtTheEdges(t *testing.T) {
	for _, ns := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 999_999_999, noon.UnixNano(), math.MaxInt64 - 1, math.MaxInt64} {
		want := Part{From: time.Unix(0, ns).UTC(), Until: time.Unix(0, ns).UTC(), Leaves: time.Unix(0, ns).UTC()}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Part
		if err := strict(text, &got); err != nil || got != want || got.From.UnixNano() != ns {
			t.Errorf("got %+v and %v of %s, want %+v", got, err, text, want)
		}
		if !strings.Contains(string(text), `Z"`) {
			t.Errorf("got %s, want UTC", text)
		}
	}
}

// TestTheZeroTimeIsLeftOut where a field may lack, but not the begin of 1970, which is a time.
func TestTheZeroTimeIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		until   time.Time
		written bool
	}{{time.Time{}, false}, {time.Time{}.UTC(), false}, {time.Unix(0, 0).UTC(), true}, {time.Unix(0, math.MinInt64).UTC(), true}} {
		for _, v := range []any{Action{Until: c.until}, ControlRecord{Until: c.until}, Explanation{Until: c.until}, CallerLine{Until: c.until}, TryRule{Until: c.until}} {
			text, err := json.Marshal(v)
			if err != nil || strings.Contains(string(text), `"until"`) != c.written {
				t.Errorf("%T: got %s and %v, want until: %v", v, text, err, c.written)
			}
		}
	}
}

// TestNumbersKeepAllDigits: offsets, epochs and counts are larger than what a float64 holds.
func TestNumbersKeepAllDigits(t *testing.T) {
	want := DecisionView{Epoch: math.MaxUint64, Seq: math.MaxUint64 - 1, Offset: math.MaxInt64, Count: math.MaxInt64 - 1, Limit: math.MinInt64, LagNS: 1<<53 + 1}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got DecisionView
	if err := strict(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
	for _, bad := range []string{`{"epoch":-1}`, `{"offset":1.5}`, `{"offset":9223372036854775808}`, `{"count":"7"}`, `{"early":1}`} {
		if err := strict([]byte(bad), &got); err == nil {
			t.Errorf("got %+v of %s, want an error", got, bad)
		}
	}
}

// TestAProblemIsAnError whose text is its title and its detail.
func TestAProblemIsAnError(t *testing.T) {
	for want, p := range map[string]*Problem{
		"Not found":              {Title: "Not found", Status: 404},
		"Bad request: no caller": {Title: "Bad request", Detail: "no caller", Status: 400, Pointer: "/caller"},
	} {
		if got := fmt.Sprint(error(p)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if as, ok := errors.AsType[*Problem](fmt.Errorf("ask: %w", p)); !ok || as.Status != p.Status {
			t.Errorf("got %+v, want the problem with its status", as)
		}
	}
}
