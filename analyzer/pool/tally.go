package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// Unit is a level of one request in a window, and a weight of 1: levels and weights are thousandths.
const Unit = 1000

// maxClass is the class of the largest demand.
const maxClass = 4*62 + 3

// MaxTally is the length of the longest text of a tally, in bytes.
const MaxTally = 480

// Tally is what the callers of one partition asked for, in the four quarters of a window that end with Quarter.
type Tally struct {
	Quarter int64   // counted since 1970-01-01
	Total   int64   // requests of all callers
	Classes []Class // of the callers that asked for as much as the rule protects, or more; sorted by At
}

// Class is callers that asked for about as much for each unit of weight: from 2^(At/4) to 2^((At+1)/4) thousandths of a request.
type Class struct {
	At      int
	Callers int64
	Weight  int64 // of all of them, in Units
	Asked   int64 // by all of them
}

// roots are 2^(63+j/4) for j from 1 to 3, rounded up.
var roots = [3]uint64{0x9837f0518db8a970, 0xb504f333f9de6485, 0xd744fccad69d6af5}

// classOf returns the class of a caller.
func classOf(asked, weight int64) int {
	x := uint64(max(1, integer.MulDiv(asked, Unit*Unit, weight)))
	octave := bits.Len64(x) - 1
	mantissa, at := x<<(63-octave), 4*octave
	for _, r := range roots {
		if mantissa >= r {
			at++
		}
	}
	return at
}

// Add adds a caller that asked for as much as the rule protects, or more. weight is over 0. No level limits a caller that asks for no more
// than the lowest level allows: only the Total has it. Callers that ask for the whole capacity are limited whenever there is a level, so that
// their class says no more of them.
func (t *Tally) Add(terms *Terms, asked, weight int64) {
	if integer.MulDiv(asked, Unit*Unit, weight) > terms.Protect {
		t.add(Class{classOf(min(asked, terms.Capacity), weight), 1, weight, asked})
	}
}

// add adds callers of a class.
func (t *Tally) add(c Class) {
	i := len(t.Classes)
	for i > 0 && t.Classes[i-1].At > c.At {
		i--
	}
	if i == 0 || t.Classes[i-1].At != c.At {
		t.Classes = append(t.Classes, Class{})
		copy(t.Classes[i+1:], t.Classes[i:])
		t.Classes[i] = c
		return
	}
	in := &t.Classes[i-1]
	in.Callers, in.Weight, in.Asked = integer.Add(in.Callers, c.Callers), integer.Add(in.Weight, c.Weight), integer.Add(in.Asked, c.Asked)
}

// plus adds the callers of another partition.
func (t *Tally) plus(o *Tally) {
	t.Total = integer.Add(t.Total, o.Total)
	for _, c := range o.Classes {
		t.add(c)
	}
}

// Under returns how many of the requests a limit lets pass, if each caller of a class asks for the mean of its class.
func (t *Tally) Under(limit int64) int64 {
	pass := t.Total
	for _, c := range t.Classes {
		pass -= max(0, c.Asked-integer.MulDiv(limit, c.Callers, 1))
	}
	return pass
}

// AppendTo appends the tally, in MaxTally bytes at most. If it is longer, two neighbouring classes become one until it is not.
func (t *Tally) AppendTo(b []byte) []byte {
	n := len(b)
	for b = t.appendTo(b); len(b)-n > MaxTally; b = t.appendTo(b[:n]) {
		fewer := Tally{Quarter: t.Quarter, Total: t.Total}
		for i, c := range t.Classes {
			c.At = t.Classes[i&^1].At
			fewer.add(c)
		}
		t = &fewer
	}
	return b
}

// appendTo appends quarter, total, and of each class the distance from the class before it, callers, weight over theirs, asked.
func (t *Tally) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendVarint(b, t.Quarter), uint64(t.Total))
	at := 0
	for _, c := range t.Classes {
		b = binary.AppendUvarint(b, uint64(c.At-at))
		b = binary.AppendUvarint(b, uint64(c.Callers))
		b = binary.AppendVarint(b, c.Weight-integer.MulDiv(c.Callers, Unit, 1))
		b = binary.AppendUvarint(b, uint64(c.Asked))
		at = c.At
	}
	return b
}

// errTally says that a tally or a level cannot be read.
var errTally = errors.New("bad tally")

// ReadTally reads all of b, which AppendTo has appended.
func ReadTally(b []byte) (Tally, error) {
	if len(b) > MaxTally {
		return Tally{}, fmt.Errorf("%w: got %d bytes, want at most %d", errTally, len(b), MaxTally)
	}
	r := reader{b: b}
	t := Tally{Quarter: r.signed(), Total: r.number()}
	left := t.Total
	for at := 0; len(r.b) > 0 && r.err == nil; {
		distance, callers := r.number(), r.number()
		over, asked := r.signed(), r.number()
		if distance > maxClass || distance == 0 && len(t.Classes) > 0 || callers < 1 || callers > asked || asked > left {
			return Tally{}, fmt.Errorf("%w: got class %d+%d of %d callers, who asked for %d of %d", errTally, at, distance, callers, asked, left)
		}
		at += int(distance)
		c := Class{At: at, Callers: callers, Weight: integer.Add(integer.MulDiv(callers, Unit, 1), max(over, 0)) + min(over, 0), Asked: asked}
		if at > maxClass || c.Weight < callers {
			return Tally{}, fmt.Errorf("%w: got class %d of weight %d, want up to %d, and a weight over 0", errTally, at, c.Weight, maxClass)
		}
		left -= asked
		t.Classes = append(t.Classes, c)
	}
	return t, r.err
}

// reader reads numbers.
type reader struct {
	b   []byte
	err error
}

// number reads a number of at least 0.
func (r *reader) number() int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<63-1 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

// signed reads a number.
func (r *reader) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fail() { r.b, r.err = nil, fmt.Errorf("%w: got a number cut short", errTally) }
