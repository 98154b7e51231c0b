package pb

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// Whatever decodes is within bounds, and encodes to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, r := range records() {
		f.Add(encode(f, r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Decode(b)
		if err != nil {
			if Reason(err) == "other" || got != (Record{}) {
				t.Fatalf("got %+v and %v", got, err)
			}
			return
		}
		if d := got.Decision; d != nil {
			if d.Caller.Validate() != nil || d.Mode.String() == "unknown" || clampUntil(d.CloseAt, d.Until) != d.Until {
				t.Fatalf("out of bounds: %+v", d)
			}
			checkPrediction(t, d)
		}
		canonical := encode(t, got)
		again, err := Decode(canonical)
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("got %+v, %v, want %+v", again, err, got)
		}
		if b := encode(t, again); !bytes.Equal(b, canonical) {
			t.Fatalf("encoding is not stable: got %x, then %x", canonical, b)
		}
	})
}

// checkPrediction fails if a gate that trusts a decoded decision could do wrong.
func checkPrediction(t *testing.T, d *schemas.Decision) {
	t.Helper()
	next, year := d.Next, int64(schemas.MaxClosure)
	if next != (schemas.Span{}) && (d.CloseAt >= d.Until || d.Until > next.CloseAt || next.CloseAt >= next.Until ||
		uint64(next.Until)-uint64(next.CloseAt) > uint64(year)) {
		t.Fatalf("spans that are out of order or too long: %+v", d)
	}
	for _, x := range []float64{d.Evidence.Rate, d.Evidence.Expected, d.Evidence.Bound} {
		if !(x >= 0 && x <= math.MaxFloat64) {
			t.Fatalf("evidence that is no number from 0 on: %+v", d.Evidence)
		}
	}
	s := d.Share
	if s == nil {
		return
	}
	for what, n := range map[string]int64{ // lengths that overflow are negative
		"share": s.Until - s.From, "measured time": s.DemandUntil - s.DemandFrom, "period": s.Period,
	} {
		if n <= 0 || n > year {
			t.Fatalf("%s of %d ns: %+v", what, n, s)
		}
	}
	if s.Permits < 0 || s.Demand <= 0 || s.From > s.Until || s.DemandFrom > s.DemandUntil {
		t.Fatalf("a share that divides by nothing or gives less than nothing: %+v", s)
	}
}

// Whatever AppendDecision takes of spans and shares, Decode gives back; Decode also refuses what it refuses.
func FuzzPrediction(f *testing.F) {
	f.Add(int64(1000), int64(2000), true, int64(2000), int64(3000), true, int64(0), int64(10), int64(5), int64(7), int64(0), int64(9), int64(3))
	f.Add(int64(1000), int64(2000), false, int64(1999), int64(3000), false, int64(0), int64(10), int64(5), int64(7), int64(0), int64(9), int64(3))
	f.Add(int64(1000), int64(1000), false, int64(0), int64(0), false, int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), true, int64(math.MaxInt64), int64(math.MinInt64), true,
		int64(math.MinInt64), int64(math.MaxInt64), int64(-1), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), int64(-1))
	f.Fuzz(func(t *testing.T, closeAt, until int64, early bool, nextAt, nextUntil int64, nextEarly bool,
		from, end, period, permits, a, b, demand int64) {
		d := newDecision()
		d.CloseAt, d.Until, d.Early = closeAt, until, early
		d.Next = schemas.Span{CloseAt: nextAt, Until: nextUntil, Early: nextEarly}
		d.Share = &schemas.Share{From: from, Until: end, Period: period, Permits: permits, DemandFrom: a, DemandUntil: b, Demand: demand}
		if *d.Share == (schemas.Share{}) {
			d.Share = nil
		}
		want := *d
		written, err := AppendDecision(nil, d)
		if !reflect.DeepEqual(*d, want) {
			t.Fatalf("changed to %+v, was %+v", *d, want)
		}
		got, foreignErr := Decode(wire(t, func(m *Decision) {
			m.CloseAt, m.Until, m.Early = closeAt, until, early
			m.Next = &Span{CloseAt: nextAt, Until: nextUntil, Early: nextEarly}
			if d.Share != nil {
				m.Share = &Share{From: from, Until: end, Period: period, Permits: permits, DemandFrom: a, DemandUntil: b, Demand: demand}
			}
		}))
		if err != nil {
			if Reason(err) != "bounds" || len(written) != 0 || Reason(foreignErr) != "bounds" {
				t.Fatalf("got %v with %d bytes, and from another encoder %v, want bounds of both", err, len(written), foreignErr)
			}
			return
		}
		if foreignErr != nil {
			t.Fatalf("from another encoder: got %v", foreignErr)
		}
		checkPrediction(t, got.Decision)
		own, err := Decode(written)
		if err != nil || !reflect.DeepEqual(own, got) {
			t.Fatalf("got %+v, %v, and from another encoder %+v", own.Decision, err, got.Decision)
		}
		want.Until, want.Next.Until = clampUntil(closeAt, until), clampUntil(nextAt, nextUntil)
		if !reflect.DeepEqual(*got.Decision, want) {
			t.Fatalf("got  %+v\nwant %+v", *got.Decision, want)
		}
	})
}

func BenchmarkDecodePrediction(b *testing.B) {
	d := newDecision()
	d.Early, d.Next, d.Share = true, nextOf(d), newShare()
	data := encode(b, Record{Decision: d})
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := encode(b, Record{Decision: newDecision()})
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
