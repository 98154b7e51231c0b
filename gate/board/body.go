package board

import (
	"encoding/binary"
	"math"

	"github.com/509da70d/floodgate/schemas"
)

// body is what a decision does not share with others, in few bytes without pointers. Numbers are varints, in zigzag if they have a sign:
//
//	1 byte      how many granules of the arena the body takes
//	1 byte      the form of the caller's id, and which of the optional parts below there are
//	terms, id   the id has its length before it, if it is plain
//	span        the first closure; its end as the distance to the end of the decision, if they differ
//	seq
//	span        optional: the next closure, seen from the end of the first
//	share       optional: 7 numbers
//	evidence    optional: a number whose bits say which numbers are not 0, and these
type body []byte

// Bits of the second byte of a body. The form has the lowest two.
const (
	formBits = 1<<2 - 1

	earlyBit     = 1 << 2
	nextBit      = 1 << 3 // there is a next closure
	nextEarlyBit = 1 << 4
	shareBit     = 1 << 5
	longerBit    = 1 << 6 // the decision does not end with its first closure
	evidenceBit  = 1 << 7
)

const bodyFlags = 1 // the place of that byte

// appendBody appends the body of a decision. Its terms say which decisions share what the body leaves out. until is the decision's end.
func appendBody(b body, c *caller, terms uint32, d *schemas.Decision, until int64) body {
	flags := byte(c.form)
	set := func(bit byte, on bool) {
		if on {
			flags |= bit
		}
	}
	known := d.Evidence
	known.Window = 0 // it is one of the terms
	set(earlyBit, d.Early)
	set(nextBit, d.Next.CloseAt != 0 || d.Next.Until != 0)
	set(nextEarlyBit, d.Next.Early)
	set(shareBit, d.Share != nil)
	set(longerBit, d.Until != until)
	set(evidenceBit, known != schemas.Evidence{})
	b = binary.AppendUvarint(append(b, 0, flags), uint64(terms))
	if c.form == plain {
		b = binary.AppendUvarint(b, uint64(len(c.key)))
	}
	b = append(b, c.key...)
	if d.Until != until {
		b = binary.AppendVarint(b, until-d.Until)
	}
	b = binary.AppendVarint(b, d.Until-d.CloseAt)
	b = binary.AppendUvarint(b, d.Seq)
	if flags&nextBit != 0 {
		b = binary.AppendVarint(binary.AppendVarint(b, d.Next.CloseAt-d.Until), d.Next.Until-d.Next.CloseAt)
	}
	if s := d.Share; s != nil {
		for _, v := range [...]int64{s.From - d.CloseAt, s.Until - s.From, s.Period, s.Permits, s.DemandFrom - s.From, s.DemandUntil - s.DemandFrom, s.Demand} {
			b = binary.AppendVarint(b, v)
		}
	}
	if flags&evidenceBit != 0 {
		b = appendEvidence(b, &known, d.CloseAt)
	}
	return b
}

// Numbers of evidence, as bits of its first number. Those above the first 7 take a byte more.
const (
	countBit = 1 << iota
	limitBit
	windowStartBit
	rateBit
	offsetBit
	timeBit
	lagBit
	overshootBit // Expected and Bound
	inFlightBit  // what is known of requests in flight
)

// appendEvidence appends evidence but for its window. Times are seen from closeAt.
func appendEvidence(b body, e *schemas.Evidence, closeAt int64) body {
	known := knownOf(e)
	b = binary.AppendUvarint(b, known)
	number := func(bit uint64, v, from int64) {
		if known&bit != 0 {
			b = binary.AppendVarint(b, v-from)
		}
	}
	number(countBit, e.Count, 0)
	number(limitBit, e.Limit, 0)
	number(windowStartBit, e.WindowStart, closeAt)
	if known&rateBit != 0 {
		b = appendRate(b, e.Rate)
	}
	number(offsetBit, e.AsOfOffset, 0)
	number(timeBit, e.AsOfTime, closeAt)
	number(lagBit, e.Lag, 0)
	if known&overshootBit != 0 {
		b = appendFloat(appendFloat(b, e.Expected), e.Bound)
	}
	for _, v := range [...]int64{e.Held, e.InFlight, e.Margin, e.Learned} {
		number(inFlightBit, v, 0)
	}
	return b
}

// knownOf returns which numbers of evidence are not 0.
func knownOf(e *schemas.Evidence) (known uint64) {
	for _, n := range [...]struct {
		bit uint64
		set bool
	}{
		{countBit, e.Count != 0}, {limitBit, e.Limit != 0}, {windowStartBit, e.WindowStart != 0}, {rateBit, e.Rate != 0},
		{offsetBit, e.AsOfOffset != 0}, {timeBit, e.AsOfTime != 0}, {lagBit, e.Lag != 0}, {overshootBit, e.Expected != 0 || e.Bound != 0},
		{inFlightBit, e.Held != 0 || e.InFlight != 0 || e.Margin != 0 || e.Learned != 0},
	} {
		if n.set {
			known |= n.bit
		}
	}
	return known
}

// appendRate appends a rate: 1 + its thousandths if it is so many, as those of analyzers are, or 0 and its bits.
func appendRate(b body, rate float64) body {
	if n := math.Round(rate * 1000); 0 <= n && n < 1<<53 && n/1000 == rate {
		return binary.AppendUvarint(b, uint64(n)+1)
	}
	return appendFloat(append(b, 0), rate)
}

func appendFloat(b body, v float64) body {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// head is what begins a body.
type head struct {
	terms  uint32
	caller // without its kind. The key lies in the body
	bytes  int
}

func (b body) head() head {
	r := bodyReader{b, bodyFlags + 1}
	h := head{terms: uint32(r.uvarint())}
	h.form = form(b[bodyFlags] & formBits)
	h.key = r.key(h.form)
	h.bytes = r.at
	return h
}

// read sets what of a decision is behind the head. until is the decision's end.
func (b body) read(d *schemas.Decision, h *head, until int64) {
	flags, r := b[bodyFlags], bodyReader{b, h.bytes}
	d.Until = until
	if flags&longerBit != 0 {
		d.Until -= r.varint()
	}
	d.CloseAt = d.Until - r.varint()
	d.Seq, d.Early = r.uvarint(), flags&earlyBit != 0
	if flags&nextBit != 0 {
		d.Next.CloseAt = d.Until + r.varint()
		d.Next.Until = d.Next.CloseAt + r.varint()
	}
	d.Next.Early = flags&nextEarlyBit != 0
	if flags&shareBit != 0 {
		s := &schemas.Share{From: d.CloseAt + r.varint()}
		s.Until, s.Period, s.Permits = s.From+r.varint(), r.varint(), r.varint()
		s.DemandFrom = s.From + r.varint()
		s.DemandUntil, s.Demand = s.DemandFrom+r.varint(), r.varint()
		d.Share = s
	}
	if flags&evidenceBit != 0 {
		r.evidence(&d.Evidence, d.CloseAt)
	}
}

// bodyReader reads the numbers of a body, which appendBody has written.
type bodyReader struct {
	b  body
	at int
}

func (r *bodyReader) uvarint() uint64 {
	if v := r.b[r.at]; v < 0x80 {
		r.at++
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b[r.at:])
	r.at += n
	return v
}

func (r *bodyReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *bodyReader) float() float64 {
	r.at += 8
	return math.Float64frombits(binary.LittleEndian.Uint64(r.b[r.at-8:]))
}

func (r *bodyReader) key(f form) []byte {
	n := 16
	switch f {
	case plain:
		n = int(r.uvarint())
	case ipv4:
		n = 4
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *bodyReader) evidence(e *schemas.Evidence, closeAt int64) {
	known := r.uvarint()
	number := func(bit uint64, from int64) int64 {
		if known&bit == 0 {
			return 0
		}
		return r.varint() + from
	}
	e.Count, e.Limit, e.WindowStart = number(countBit, 0), number(limitBit, 0), number(windowStartBit, closeAt)
	if known&rateBit != 0 {
		if n := r.uvarint(); n > 0 {
			e.Rate = float64(n-1) / 1000
		} else {
			e.Rate = r.float()
		}
	}
	e.AsOfOffset, e.AsOfTime, e.Lag = number(offsetBit, 0), number(timeBit, closeAt), number(lagBit, 0)
	if known&overshootBit != 0 {
		e.Expected, e.Bound = r.float(), r.float()
	}
	e.Held, e.InFlight, e.Margin, e.Learned = number(inFlightBit, 0), number(inFlightBit, 0), number(inFlightBit, 0), number(inFlightBit, 0)
}
