package pb

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/schemas"
)

func newDecision() *schemas.Decision {
	return &schemas.Decision{
		Rule: "per-ip", RuleVersion: 0xfeedfacecafebeef, Caller: schemas.Caller{Kind: "ip", ID: "203.0.113.9"},
		Mode: schemas.ModeEnforce, CloseAt: 1_700_000_000_000_000_000, Until: 1_700_000_060_000_000_000,
		Partition: 3, Epoch: 1_700_000_000_000, Seq: 17,
		Evidence: schemas.Evidence{
			Count: 101, Limit: 100, Window: int64(time.Minute), WindowStart: 1_699_999_980_000_000_000, Rate: 12.5,
			AsOfOffset: 99, AsOfTime: 1_700_000_000_000_000_000, Lag: 3_000_000,
		},
	}
}

func newClaim() *schemas.Claim {
	return &schemas.Claim{Partition: 3, Epoch: 1_700_000_000_000, Nonce: math.MaxUint64, Owner: "analyzer-1/4711"}
}

func newHeartbeat() *schemas.Heartbeat {
	return &schemas.Heartbeat{
		Partition: 3, Epoch: 1_700_000_000_000, Seq: 18, Time: 1_700_000_001_000_000_000, Watermark: 100,
		LogTime: 1_700_000_000_990_000_000, Lag: 3_000_000, From: 42, State: 7, RulesID: math.MaxUint64, RulesFrom: 50,
		API: "analyzer-1.example:9096", Control: 12, Events: 13, End: 120, Frames: 2,
	}
}

// appendAny appends whichever field of r is set.
func appendAny(dst []byte, r Record) ([]byte, error) {
	switch {
	case r.Decision != nil:
		return AppendDecision(dst, r.Decision)
	case r.Claim != nil:
		return AppendClaim(dst, r.Claim)
	}
	return AppendHeartbeat(dst, r.Heartbeat)
}

// encode returns the record's bytes.
func encode(t testing.TB, r Record) []byte {
	t.Helper()
	b, err := appendAny(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decisionWith returns a decision that was changed.
func decisionWith(change func(d *schemas.Decision)) Record {
	d := newDecision()
	change(d)
	return Record{Decision: d}
}

func records() map[string]Record {
	return map[string]Record{
		"decision":                       {Decision: newDecision()},
		"claim":                          {Claim: newClaim()},
		"heartbeat":                      {Heartbeat: newHeartbeat()},
		"the first claim of partition 0": {Claim: &schemas.Claim{}},
		"a heartbeat of nothing":         {Heartbeat: &schemas.Heartbeat{}},
		"an id of any bytes":             decisionWith(func(d *schemas.Decision) { d.Caller.ID = "\x00\xff\xfe" }),
		"a shadow rule without evidence": decisionWith(func(d *schemas.Decision) { d.Mode, d.Evidence = schemas.ModeShadow, schemas.Evidence{} }),
		"an opening":                     decisionWith(func(d *schemas.Decision) { d.Until = 0 }),
		"until before 1970":              decisionWith(func(d *schemas.Decision) { d.CloseAt, d.Until = -5, math.MinInt64 }),
		"early":                          decisionWith(func(d *schemas.Decision) { d.Early = true }),
		"held": decisionWith(func(d *schemas.Decision) {
			d.Early, d.Held = true, true
			d.Evidence.Held, d.Evidence.InFlight, d.Evidence.Margin, d.Evidence.Learned = 21_400, 14, 8_900, 128
		}),
		"early, and a next one": decisionWith(func(d *schemas.Decision) { d.Early, d.Next = true, nextOf(d) }),
		"a next one that touches, and is counted": decisionWith(func(d *schemas.Decision) {
			d.Next = schemas.Span{CloseAt: d.Until, Until: d.Until + 1}
		}),
		"a share":                          decisionWith(func(d *schemas.Decision) { d.Share = newShare() }),
		"a share of a caller that is open": decisionWith(func(d *schemas.Decision) { d.Until, d.Share = 0, newShare() }),
		"overshoot":                        decisionWith(func(d *schemas.Decision) { d.Evidence.Expected, d.Evidence.Bound = 0.0081, 0.065 }),
		"everything": decisionWith(func(d *schemas.Decision) {
			d.Early, d.Next, d.Share, d.Evidence.Expected, d.Evidence.Bound = true, nextOf(d), newShare(), 1, math.MaxFloat64
		}),
		"the longest share": decisionWith(func(d *schemas.Decision) {
			year := int64(schemas.MaxClosure)
			d.Share = &schemas.Share{From: math.MinInt64, Until: math.MinInt64 + year, Period: year, Permits: math.MaxInt64,
				DemandFrom: math.MaxInt64 - year, DemandUntil: math.MaxInt64, Demand: math.MaxInt64}
		}),
		"the longest of all": decisionWith(func(d *schemas.Decision) {
			d.Rule, d.Caller.ID = strings.Repeat("r", MaxRule), strings.Repeat("\xff", schemas.MaxCallerID)
			d.Caller.Kind = strings.Repeat("k", schemas.MaxCallerKind)
			d.CloseAt, d.Until, d.Early = math.MinInt64, math.MinInt64+1, true
			d.Next = schemas.Span{CloseAt: math.MaxInt64 - 1, Until: math.MaxInt64, Early: true}
			d.Share = &schemas.Share{From: -2, Until: -1, Period: 1 << 54, Permits: math.MaxInt64, DemandFrom: -2, DemandUntil: -1, Demand: math.MaxInt64}
			d.Partition, d.Epoch, d.Seq = math.MaxInt32, math.MaxUint64, math.MaxUint64
			d.Evidence = schemas.Evidence{Count: -1, Limit: -1, Window: -1, WindowStart: -1, Rate: math.MaxFloat64, AsOfOffset: -1, AsOfTime: -1, Lag: -1,
				Expected: math.MaxFloat64, Bound: math.MaxFloat64}
		}),
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	for name, want := range records() {
		t.Run(name, func(t *testing.T) {
			b, err := appendAny([]byte("before"), want)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > MaxRecord {
				t.Errorf("got %d bytes, want at most %d", len(b), MaxRecord)
			}
			got, err := Decode(b[len("before"):])
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestEveryTruncationOfARecordIsRefused(t *testing.T) {
	for name, r := range records() {
		b := encode(t, r)
		for n := range b {
			got, err := Decode(b[:n:n])
			if want := ErrMalformed; !errors.Is(err, want) && (n > 0 || !errors.Is(err, ErrUnknown)) {
				t.Errorf("%s, first %d of %d bytes: got %v and %+v, want %v", name, n, len(b), err, got, want)
			}
		}
	}
}

func TestLongClosuresAreCut(t *testing.T) {
	year := int64(schemas.MaxClosure)
	for name, test := range map[string]struct{ closeAt, until, want int64 }{
		"ten years":            {1000, 10 * year, 1000 + year},
		"just too long":        {1000, 1001 + year, 1000 + year},
		"just long enough":     {1000, 1000 + year, 1000 + year},
		"all of time":          {math.MinInt64, math.MaxInt64, math.MinInt64 + year},
		"at the end of time":   {math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64},
		"a year before it":     {math.MaxInt64 - year, math.MaxInt64, math.MaxInt64},
		"open since for ever":  {math.MaxInt64, math.MinInt64, math.MinInt64},
		"open at that instant": {7, 7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecision()
			d.CloseAt, d.Until = test.closeAt, test.until
			r, err := Decode(encode(t, Record{Decision: d}))
			if err != nil {
				t.Fatal(err)
			}
			if r.Decision.CloseAt != test.closeAt || r.Decision.Until != test.want {
				t.Errorf("got %d to %d, want %d to %d", r.Decision.CloseAt, r.Decision.Until, test.closeAt, test.want)
			}
			foreign := wire(t, func(m *Decision) { m.CloseAt, m.Until = test.closeAt, test.until })
			if r, err = Decode(foreign); err != nil || r.Decision.Until != test.want {
				t.Errorf("from an encoder that does not cut: got %+v, %v, want until %d", r.Decision, err, test.want)
			}
		})
	}
}

// wire returns the bytes of a decision as an encoder that checks nothing would write it.
func wire(t *testing.T, change func(m *Decision)) []byte {
	t.Helper()
	var r DecisionsRecord
	if err := proto.Unmarshal(encode(t, Record{Decision: newDecision()}), &r); err != nil {
		t.Fatal(err)
	}
	change(r.GetDecision())
	b, err := proto.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(m *Decision)
		want   error
	}{
		"no mode":              {func(m *Decision) { m.Mode = 0 }, ErrMode},
		"an unknown mode":      {func(m *Decision) { m.Mode = 3 }, ErrMode},
		"a mode that wraps":    {func(m *Decision) { m.Mode = 256 + 1 }, ErrMode},
		"a negative mode":      {func(m *Decision) { m.Mode = -255 }, ErrMode},
		"no kind":              {func(m *Decision) { m.Kind = nil }, schemas.ErrCallerKind},
		"a kind with a colon":  {func(m *Decision) { m.Kind = []byte("a:b") }, schemas.ErrCallerKind},
		"no id":                {func(m *Decision) { m.Id = nil }, schemas.ErrCallerID},
		"a long id":            {func(m *Decision) { m.Id = make([]byte, schemas.MaxCallerID+1) }, schemas.ErrCallerID},
		"a huge id":            {func(m *Decision) { m.Id = make([]byte, 1<<20) }, ErrBounds},
		"a long rule":          {func(m *Decision) { m.Rule = strings.Repeat("r", MaxRule+1) }, ErrBounds},
		"a negative partition": {func(m *Decision) { m.Partition = -1 }, ErrBounds},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(wire(t, test.change))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got != (Record{}) {
				t.Errorf("got %+v beside an error", got)
			}
			if reason := Reason(err); reason == "" || reason == "other" {
				t.Errorf("reason for %v: got %q", err, reason)
			}
		})
	}
}

func TestDecodeRefusesForeignBytes(t *testing.T) {
	for name, test := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                  {nil, ErrUnknown},
		"a later kind of record":   {[]byte{0x7a, 0x02, 0x08, 0x01}, ErrUnknown}, // field 15
		"a length of 2^31":         {[]byte{0x0a, 0x80, 0x80, 0x80, 0x80, 0x08}, ErrMalformed},
		"a length of 2^63":         {[]byte{0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, ErrMalformed},
		"a length that never ends": {[]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ErrMalformed},
		"text":                     {[]byte("close all the gates"), ErrMalformed},
		"a rule that is not UTF-8": {[]byte{0x0a, 0x03, 0x0a, 0x01, 0xff}, ErrMalformed},
		"an empty decision":        {[]byte{0x0a, 0x00}, ErrMode},
	} {
		if _, err := Decode(test.b); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// A later version may say more; what this one knows still counts.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	want := Record{Claim: newClaim()}
	b := append(encode(t, want), 0x7a, 0x02, 0x08, 0x01) // field 15
	got, err := Decode(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestEvidenceIsNoReasonToDropADecision(t *testing.T) {
	for _, rate := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		got, err := Decode(wire(t, func(m *Decision) { m.Evidence.Rate, m.Evidence.Expected, m.Evidence.Bound = rate, rate, rate }))
		if err != nil {
			t.Errorf("rate %v: got %v", rate, err)
			continue
		}
		if e := got.Decision.Evidence; e.Rate != 0 || e.Expected != 0 || e.Bound != 0 {
			t.Errorf("rate %v: got %+v, want 0 for rate, expected and bound", rate, e)
		}
		d := newDecision()
		d.Evidence.Expected, d.Evidence.Bound = rate, rate
		if b, want := encode(t, Record{Decision: d}), encode(t, Record{Decision: newDecision()}); string(b) != string(want) {
			t.Errorf("rate %v: our encoder wrote %x, want expected and bound 0: %x", rate, b, want)
		}
	}
	got, err := Decode(wire(t, func(m *Decision) { m.Evidence = nil }))
	if err != nil || got.Decision.Evidence != (schemas.Evidence{}) {
		t.Errorf("no evidence: got %+v, %v", got.Decision, err)
	}
}

func TestAppendRefusesWhatDecodeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		record Record
		want   error
	}{
		"no mode":             {decisionWith(func(d *schemas.Decision) { d.Mode = 0 }), ErrMode},
		"nobody":              {decisionWith(func(d *schemas.Decision) { d.Caller = schemas.Caller{} }), schemas.ErrCallerKind},
		"a rule not in UTF-8": {decisionWith(func(d *schemas.Decision) { d.Rule = "\xff" }), ErrMalformed},
		"a long rule":         {decisionWith(func(d *schemas.Decision) { d.Rule = strings.Repeat("r", MaxRule+1) }), ErrBounds},
		"a long owner":        {Record{Claim: &schemas.Claim{Owner: strings.Repeat("o", MaxOwner+1)}}, ErrBounds},
		"a claim below 0":     {Record{Claim: &schemas.Claim{Partition: -1}}, ErrBounds},
		"a heartbeat below 0": {Record{Heartbeat: &schemas.Heartbeat{Partition: -1}}, ErrBounds},
	} {
		got, err := appendAny([]byte("before"), test.record)
		if !errors.Is(err, test.want) || string(got) != "before" {
			t.Errorf("%s: got %q, %v, want %v and the buffer as it was", name, got, err, test.want)
		}
	}
}

func TestReason(t *testing.T) {
	for want, err := range map[string]error{
		"": nil, "malformed": ErrMalformed, "unknown": ErrUnknown, "bounds": ErrBounds, "mode": ErrMode,
		"caller_id": schemas.ErrCallerID, "other": errors.New("disk on fire"),
	} {
		if got := Reason(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
