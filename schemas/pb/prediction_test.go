package pb

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// nextOf returns a closure a minute after that of d.
func nextOf(d *schemas.Decision) schemas.Span {
	return schemas.Span{CloseAt: d.Until + int64(time.Minute), Until: d.Until + 2*int64(time.Minute), Early: true}
}

func newShare() *schemas.Share {
	return &schemas.Share{
		From: 1_700_000_001_000_000_000, Until: 1_700_000_004_000_000_000, Period: int64(time.Second), Permits: 1000,
		DemandFrom: 1_699_999_999_000_000_000, DemandUntil: 1_700_000_000_500_000_000, Demand: 3017,
	}
}

// What no owner writes is refused whole, by both ends, and counted as "bounds": half of it would close at the wrong time.
func TestPredictionsThatAreRefused(t *testing.T) {
	const year = int64(schemas.MaxClosure)
	share := func(change func(s *schemas.Share)) func(d *schemas.Decision) {
		return func(d *schemas.Decision) { d.Share = newShare(); change(d.Share) }
	}
	next := func(closeAt, until int64) func(d *schemas.Decision) {
		return func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until + closeAt, Until: d.Until + until} }
	}
	for name, test := range map[string]struct {
		change func(d *schemas.Decision)
		want   string // in the error
	}{
		"a next one that overlaps":         {next(-1, 10), "where the first ends"},
		"a next one inside the first":      {next(-10, -5), "where the first ends"},
		"a next one before the first":      {func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: 1, Until: 2} }, "where the first ends"},
		"a next one backwards":             {next(10, 5), "to end after it begins"},
		"a next one without length":        {next(10, 10), "to end after it begins"},
		"a next one that is only early":    {func(d *schemas.Decision) { d.Next.Early = true }, "where the first ends"},
		"a next one of nothing, early":     {func(d *schemas.Decision) { d.CloseAt, d.Until, d.Next.Early = -5, 0, true }, "to end after it begins"},
		"a next one after an opening":      {func(d *schemas.Decision) { d.Next, d.Until = nextOf(d), d.CloseAt }, "in a decision that opens"},
		"a next one after an opening at 0": {func(d *schemas.Decision) { d.Next, d.Until = nextOf(d), 0 }, "in a decision that opens"},
		"a next one in what is cut off the first": {func(d *schemas.Decision) {
			d.Until, d.Next = d.CloseAt+3*year, schemas.Span{CloseAt: d.CloseAt + 2*year, Until: d.CloseAt + 2*year + 1}
		}, "where the first ends"},
		"held, but not early":        {func(d *schemas.Decision) { d.Held = true }, "not early"},
		"a share without period":     {share(func(s *schemas.Share) { s.Period = 0 }), "periods of 0 ns"},
		"a negative period":          {share(func(s *schemas.Share) { s.Period = math.MinInt64 }), "periods of"},
		"a period of years":          {share(func(s *schemas.Share) { s.Period = year + 1 }), "periods of"},
		"negative permits":           {share(func(s *schemas.Share) { s.Permits = -1 }), "-1 permits"},
		"a share by no demand":       {share(func(s *schemas.Share) { s.Demand = 0 }), "a demand of 0"},
		"a share by negative demand": {share(func(s *schemas.Share) { s.Demand = math.MinInt64 }), "a demand of"},
		"demand of no time":          {share(func(s *schemas.Share) { s.DemandUntil = s.DemandFrom }), "by the demand from"},
		"demand of time backwards":   {share(func(s *schemas.Share) { s.DemandUntil = s.DemandFrom - 1 }), "by the demand from"},
		"demand of all of time":      {share(func(s *schemas.Share) { s.DemandFrom, s.DemandUntil = math.MinInt64, math.MaxInt64 }), "by the demand from"},
		"a share of no time":         {share(func(s *schemas.Share) { s.Until = s.From }), "a share from"},
		"a share backwards":          {share(func(s *schemas.Share) { s.From, s.Until = s.Until, s.From }), "a share from"},
		"a share for over a year":    {share(func(s *schemas.Share) { s.Until = s.From + year + 1 }), "a share from"},
		"a share of all of time":     {share(func(s *schemas.Share) { s.From, s.Until = math.MinInt64, math.MaxInt64 }), "a share from"},
		"a share of zeros":           {func(d *schemas.Decision) { d.Share = new(schemas.Share) }, "periods of 0 ns"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecision()
			test.change(d)
			got, err := AppendDecision([]byte("before"), d)
			if !errors.Is(err, ErrBounds) || string(got) != "before" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("append: got %q, %v, want %v with %q and the buffer as it was", got, err, ErrBounds, test.want)
			}
			r, err := Decode(wire(t, func(m *Decision) {
				m.CloseAt, m.Until, m.Held, m.Share = d.CloseAt, d.Until, d.Held, shareMessage(d.Share)
				if d.Next != (schemas.Span{}) {
					m.Next = &Span{CloseAt: d.Next.CloseAt, Until: d.Next.Until, Early: d.Next.Early}
				}
			}))
			if !errors.Is(err, ErrBounds) || Reason(err) != "bounds" || r != (Record{}) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("decode: got %+v, %v, want %v with %q", r, err, ErrBounds, test.want)
			}
		})
	}
}

// The next closure is cut as the first is, by whoever wrote it and by whoever reads it.
func TestLongNextClosuresAreCut(t *testing.T) {
	const year = int64(schemas.MaxClosure)
	for name, test := range map[string]struct{ closeAt, until, want int64 }{
		"just long enough":   {3000, 3000 + year, 3000 + year},
		"just too long":      {3000, 3001 + year, 3000 + year},
		"for ever":           {3000, math.MaxInt64, 3000 + year},
		"at the end of time": {math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64},
	} {
		d := newDecision()
		d.CloseAt, d.Until, d.Next = 1000, 2000, schemas.Span{CloseAt: test.closeAt, Until: test.until}
		own, foreign := encode(t, Record{Decision: d}), wire(t, func(m *Decision) {
			m.CloseAt, m.Until, m.Next = 1000, 2000, &Span{CloseAt: test.closeAt, Until: test.until}
		})
		for by, b := range map[string][]byte{"our encoder": own, "another": foreign} {
			got, err := Decode(b)
			if err != nil || got.Decision.Next != (schemas.Span{CloseAt: test.closeAt, Until: test.want}) {
				t.Errorf("%s, from %s: got %+v, %v, want until %d", name, by, got.Decision, err, test.want)
				continue
			}
			if again := encode(t, got); string(again) != string(own) {
				t.Errorf("%s: our encoder wrote %x, want it cut: %x", name, own, again)
			}
		}
	}
}

// One decision has one encoding: a next closure that says nothing is none.
func TestANextClosureOfNothingIsNone(t *testing.T) {
	got, err := Decode(wire(t, func(m *Decision) { m.Next = &Span{} }))
	if err != nil || got.Decision.Next != (schemas.Span{}) {
		t.Fatalf("got %+v, %v", got.Decision, err)
	}
	if again, plain := encode(t, got), encode(t, Record{Decision: newDecision()}); string(again) != string(plain) {
		t.Errorf("got %x, want %x", again, plain)
	}
}

// A gate that keeps a decision may change nothing in another reader's.
func TestDecodedSharesAreApart(t *testing.T) {
	d := newDecision()
	d.Share = newShare()
	b := encode(t, Record{Decision: d})
	first, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	first.Decision.Share.Permits = -1
	clear(b)
	if *second.Decision.Share != *newShare() || *d.Share != *newShare() {
		t.Errorf("got %+v and %+v, want %+v", second.Decision.Share, d.Share, newShare())
	}
}
