package decisions_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

const second = int64(1e9)

// newShare is a share that holds when the vectors take place.
func newShare() *schemas.Share {
	return &schemas.Share{
		From: vectorTime - second, Until: vectorTime + 3*second, Period: second, Permits: 1000,
		DemandFrom: vectorTime - 3*second, DemandUntil: vectorTime - second, Demand: 4321,
	}
}

// fields joins fields to a message.
func fields(list ...[]byte) string { return string(bytes.Join(list, nil)) }

// readPredictions are decisions with early closures and shares that must be read.
func readPredictions(t *testing.T) map[string][]byte {
	t.Helper()
	next := schemas.Span{CloseAt: vectorTime + 2*hour, Until: vectorTime + 3*hour}
	least := func(more ...[]byte) []byte {
		return member(1, append([][]byte{text(3, "key"), text(4, "k"), varint(5, 1), fixed(6, 1000), fixed(7, 2000)}, more...)...)
	}
	year := uint64(schemas.MaxClosure)
	values := map[string][]byte{}
	for name, value := range map[string][]byte{
		"early_next_too_long":      least(text(13, fields(fixed(1, 2000), fixed(2, math.MaxInt64)))),
		"early_next_beyond_time":   least(text(13, fields(fixed(1, math.MaxInt64-1), fixed(2, math.MaxInt64)))),
		"early_next_empty":         least(text(13, "")),
		"early_next_all_zero":      least(text(13, fields(fixed(1, 0), fixed(2, 0), varint(3, 0)))),
		"early_next_merges":        least(text(13, fields(fixed(1, 3000))), text(13, fields(fixed(2, 4000)))),
		"early_next_is_a_number":   least(varint(13, 1), varint(14, 1), fixed(12, 1)),
		"early_next_of_more":       least(text(13, fields(fixed(1, 3000), fixed(2, 4000), text(4, "later")))),
		"early_large_bool":         least(varint(12, math.MaxUint64)),
		"held_large_bool":          least(varint(12, 1), varint(15, math.MaxUint64)),
		"held_is_no_number":        least(fixed(15, 1), text(11, fields(fixed(11, 1), fixed(12, 1), fixed(13, 1), fixed(14, 1)))),
		"early_opening":            least(fixed(7, 0), varint(12, 1)),
		"early_bad_overshoot":      least(text(11, fields(fixed(9, math.Float64bits(math.Inf(1))), fixed(10, math.Float64bits(-1))))),
		"share_least":              least(text(14, fields(fixed(2, 1), varint(3, 1), fixed(6, 1), varint(7, 1)))),
		"share_longest":            least(text(14, fields(fixed(2, year), varint(3, year), fixed(6, year), varint(7, math.MaxInt64), varint(4, math.MaxInt64)))),
		"share_at_the_end_of_time": least(text(14, fields(fixed(1, math.MaxInt64-1), fixed(2, math.MaxInt64), varint(3, 1), fixed(5, 1<<63), fixed(6, 1<<63+1), varint(7, 1)))),
		"share_merges":             least(text(14, fields(fixed(2, 9), varint(3, 1))), text(14, fields(varint(3, 2), fixed(6, 1), varint(7, 1)))),
	} {
		values["decision_"+name] = value
	}
	for name, change := range map[string]func(d *schemas.Decision){
		"early_first":         func(d *schemas.Decision) { d.Early = true },
		"early_next":          func(d *schemas.Decision) { d.Next = next; d.Next.Early = true },
		"early_both":          func(d *schemas.Decision) { d.Early, d.Next = true, next; d.Next.Early = true },
		"early_next_counted":  func(d *schemas.Decision) { d.Early, d.Next = true, next },
		"early_next_touching": func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until, Until: d.Until + 1, Early: true} },
		"early_overshoot":     func(d *schemas.Decision) { d.Evidence.Expected, d.Evidence.Bound = 0.0081, 0.065 },
		"held": func(d *schemas.Decision) {
			d.Early, d.Held = true, true
			d.Evidence.Held, d.Evidence.InFlight, d.Evidence.Margin, d.Evidence.Learned = 21_400, 14, 8_900, 128
		},
		"held_without_evidence": func(d *schemas.Decision) { d.Early, d.Held = true, true },
		"share":                 func(d *schemas.Decision) { d.Share = newShare() },
		"share_and_spans":       func(d *schemas.Decision) { d.Share, d.Next = newShare(), next },
		"share_no_permits":      func(d *schemas.Decision) { d.Share = newShare(); d.Share.Permits = 0 },
		"share_of_an_opening":   func(d *schemas.Decision) { d.Until, d.Share = 0, newShare() },
		"share_shadow":          func(d *schemas.Decision) { d.Mode, d.Share = schemas.ModeShadow, newShare() },
	} {
		values["decision_"+name] = mustEncode(t, decision(change))
	}
	return values
}

// rejectPredictions are decisions with early closures and shares that must be refused.
func rejectPredictions(t *testing.T) map[string][]byte {
	t.Helper()
	values := map[string][]byte{}
	closes := func(closeAt, until int64, more ...[]byte) []byte {
		return member(1, append([][]byte{text(3, "key"), text(4, "k"), varint(5, 1), fixed(6, uint64(closeAt)), fixed(7, uint64(until))}, more...)...)
	}
	year := int64(schemas.MaxClosure)
	span := func(closeAt, until int64) []byte {
		return text(13, fields(fixed(1, uint64(closeAt)), fixed(2, uint64(until))))
	}
	for name, value := range map[string][]byte{
		"overlaps":             closes(1000, 2000, span(1999, 3000)),
		"inside":               closes(1000, 2000, span(1200, 1300)),
		"before":               closes(1000, 2000, span(100, 200)),
		"reversed":             closes(1000, 2000, span(4000, 3000)),
		"of_no_length":         closes(1000, 2000, span(3000, 3000)),
		"only_early":           closes(1000, 2000, text(13, fields(varint(3, 1)))),
		"only_early_at_0":      closes(-1000, 0, text(13, fields(varint(3, 1)))),
		"of_an_opening":        closes(1000, 1000, span(3000, 4000)),
		"of_a_late_opening":    closes(5000, 0, span(3000, 4000)),
		"in_what_is_clamped":   closes(1000, 10*year, span(2*year, 2*year+1)),
		"from_the_end_of_time": closes(1000, 2000, span(math.MaxInt64, math.MinInt64)),
		"merges_to_overlap":    closes(1000, 2000, span(2000, 3000), text(13, fields(fixed(1, 1500)))),
	} {
		values["bounds_next_"+name] = value
	}
	for name, change := range map[string]func(s *[8]int64){
		"period_0":           func(s *[8]int64) { s[3] = 0 },
		"period_negative":    func(s *[8]int64) { s[3] = -1 },
		"period_long":        func(s *[8]int64) { s[3] = year + 1 },
		"permits_negative":   func(s *[8]int64) { s[4] = -1 },
		"demand_0":           func(s *[8]int64) { s[7] = 0 },
		"demand_negative":    func(s *[8]int64) { s[7] = math.MinInt64 },
		"measured_never":     func(s *[8]int64) { s[6] = s[5] },
		"measured_backwards": func(s *[8]int64) { s[5], s[6] = s[6], s[5] },
		"measured_for_long":  func(s *[8]int64) { s[6] = s[5] + year + 1 },
		"of_no_length":       func(s *[8]int64) { s[2] = s[1] },
		"reversed":           func(s *[8]int64) { s[1], s[2] = s[2], s[1] },
		"too_long":           func(s *[8]int64) { s[2] = s[1] + year + 1 },
		"all_of_time":        func(s *[8]int64) { s[1], s[2] = math.MinInt64, math.MaxInt64 },
		"measured_for_ever":  func(s *[8]int64) { s[5], s[6] = math.MinInt64, math.MaxInt64 },
	} {
		s := [8]int64{0, 1000, 2000, 100, 10, 0, 900, 50}
		change(&s)
		values["bounds_share_"+name] = closes(1000, 2000, text(14, fields(
			fixed(1, uint64(s[1])), fixed(2, uint64(s[2])), varint(3, uint64(s[3])), varint(4, uint64(s[4])),
			fixed(5, uint64(s[5])), fixed(6, uint64(s[6])), varint(7, uint64(s[7])))))
	}
	values["bounds_held_not_early"] = closes(1000, 2000, varint(15, 1))
	values["bounds_share_empty"] = closes(1000, 2000, text(14, ""))
	values["bounds_share_other_wire_types"] = closes(1000, 2000, text(14, fields(varint(1, 1000), varint(2, 2000), fixed(3, 100), varint(6, 9), fixed(7, 9))))
	values["malformed_next"] = closes(1000, 2000, text(13, "\x09\x00"))
	values["malformed_share"] = closes(1000, 2000, text(14, "\x18\xff"))
	return values
}
