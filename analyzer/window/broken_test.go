package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// broken is a copy of an algorithm with a defect. A nil function is no defect.
type broken struct {
	Algorithm
	add     func(a Algorithm, s State, limit, t, weight int64) (State, Count)
	view    func(a Algorithm, s State, limit, t int64) Count
	expiry  func(at int64) int64
	forgets func(lost int64) int64
	coarse  func(c Coarse) Coarse
	parts   func(parts []Part) []Part
}

func (b *broken) Add(s State, limit, t, weight int64) (State, Count) {
	if b.add != nil {
		return b.add(b.Algorithm, s, limit, t, weight)
	}
	return b.Algorithm.Add(s, limit, t, weight)
}

func (b *broken) View(s State, limit, t int64) Count {
	if b.view != nil {
		return b.view(b.Algorithm, s, limit, t)
	}
	return b.Algorithm.View(s, limit, t)
}

func (b *broken) Expiry(s State) int64 {
	at := b.Algorithm.Expiry(s)
	if b.expiry != nil && len(s) > 0 {
		at = b.expiry(at)
	}
	return at
}

func (b *broken) Forgets(s State, limit, lost int64) int64 {
	if b.forgets != nil {
		return b.forgets(lost)
	}
	return b.Algorithm.Forgets(s, limit, lost)
}

func (b *broken) Coarse() Coarse {
	if b.coarse != nil {
		return b.coarse(b.Algorithm.Coarse())
	}
	return b.Algorithm.Coarse()
}

func (b *broken) Parts(s State, limit, t int64, maxParts int) (parts []Part, more int) {
	if parts, more = b.Algorithm.Parts(s, limit, t, maxParts); b.parts != nil {
		parts = b.parts(parts)
	}
	return parts, more
}

// twice is a Coarse that counts each entry twice.
type twice struct{ Coarse }

func (c twice) Add(s State, limit, t, weight int64) (State, Count) {
	return c.Coarse.Add(s, limit, t, add(weight, weight))
}

// defects returns copies of an algorithm that are wrong in one way each, and one that is not.
func defects(a Algorithm) map[string]*broken {
	var newest int64 // of the entries of a state
	moved := func(c Count, t, by int64) Count {
		if c.Full(t) {
			c.Until = max(t, add(c.Until, by))
		}
		return c
	}
	list := map[string]*broken{
		"counts twice": {add: func(a Algorithm, s State, limit, t, weight int64) (State, Count) {
			return a.Add(s, limit, t, add(weight, weight))
		}},
		"is full one unit too early": {
			add:  func(a Algorithm, s State, limit, t, weight int64) (State, Count) { return a.Add(s, limit-1, t, weight) },
			view: func(a Algorithm, s State, limit, t int64) Count { return a.View(s, limit-1, t) },
		},
		"is full one unit too late": {
			add:  func(a Algorithm, s State, limit, t, weight int64) (State, Count) { return a.Add(s, limit+1, t, weight) },
			view: func(a Algorithm, s State, limit, t int64) Count { return a.View(s, limit+1, t) },
		},
		"counts older entries at the time of the newest": {add: func(a Algorithm, s State, limit, t, weight int64) (State, Count) {
			if len(s) == 0 || t > newest {
				newest = t
			}
			s, c := a.Add(s, limit, newest, weight)
			if !c.Full(newest) {
				c.Until = t
			}
			return s, c
		}},
		"opens too early": {
			add: func(a Algorithm, s State, limit, t, weight int64) (State, Count) {
				s, c := a.Add(s, limit, t, weight)
				return s, moved(c, t, -1)
			},
			view: func(a Algorithm, s State, limit, t int64) Count { return moved(a.View(s, limit, t), t, -1) },
		},
		"opens too late": {
			add: func(a Algorithm, s State, limit, t, weight int64) (State, Count) {
				s, c := a.Add(s, limit, t, weight)
				return s, moved(c, t, 1)
			},
			view: func(a Algorithm, s State, limit, t int64) Count { return moved(a.View(s, limit, t), t, 1) },
		},
		"counts late entries": {add: func(a Algorithm, s State, limit, t, weight int64) (State, Count) {
			next, c := a.Add(s, limit, t, weight)
			if c.Place == Late {
				return a.Add(nil, limit, t, weight)
			}
			return next, c
		}},
		"counts entries without weight": {add: func(a Algorithm, s State, limit, t, weight int64) (State, Count) {
			return a.Add(s, limit, t, max(weight, 1))
		}},
		"its view counts": {view: func(a Algorithm, s State, limit, t int64) Count {
			_, c := a.Add(s, limit, t, 1)
			return c
		}},
		"expires too early":         {expiry: func(at int64) int64 { return sub(at, 1) }},
		"forgets too early":         {forgets: func(lost int64) int64 { return lost }},
		"its coarse state is more":  {coarse: func(c Coarse) Coarse { return twice{c} }},
		"its parts lack the newest": {parts: func(parts []Part) []Part { return parts[:max(0, len(parts)-1)] }},
		"its parts are all at once": {parts: func(parts []Part) []Part { return append(parts, parts...) }},
		none:                        {},
	}
	for _, b := range list {
		b.Algorithm = a
	}
	return list
}

// none is no defect.
const none = "is whole"

// TestABrokenAlgorithmIsNoticed: a copy of any algorithm with a defect fails a property, and one without a defect passes. So an algorithm
// that is added to Kinds is tested.
func TestABrokenAlgorithmIsNoticed(t *testing.T) {
	for _, k := range Kinds() {
		for defect := range defects(nil) {
			t.Run(k.Name+" "+defect, func(t *testing.T) {
				copied := k
				copied.New = func(length time.Duration, slots int, burst int64) Algorithm {
					return defects(k.New(length, slots, burst))[defect]
				}
				if failed := fails([]Kind{copied}); (failed == "") != (defect == none) {
					t.Errorf("got the failed property %q", failed)
				}
			})
		}
	}
}

// fails returns a property that an example of the kinds does not have; "" if none was found.
func fails(kinds []Kind) string {
	for seed := range 300 {
		for name, property := range properties() {
			failed := false
			rapid.Custom(func(t *rapid.T) bool {
				defer func() { failed = recover() != nil }()
				property(t, kinds)
				return false
			}).Example(seed)
			if failed {
				return name
			}
		}
	}
	return ""
}
