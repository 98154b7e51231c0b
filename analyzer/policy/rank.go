package policy

import (
	"cmp"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// RankClass is a class of rows, by how much they matter.
type RankClass uint8

// Classes of rows.
const (
	RankExpired     RankClass = iota // nothing depends on it
	RankOpen                         // its count matters
	RankRemembering                  // its window is empty, but it makes its caller's next close last longer
	RankClosed
)

// Rank says how much a row matters. Rows are compared by class first. Of two open rows, the one further from its limit matters less, in
// steps of an eighth; if these are equal, the one with the shorter window. Of two closed rows, the one that opens first matters less.
type Rank struct {
	Class  RankClass
	Share  float64 // of its limit, of an open row
	eighth int
	length int64
	until  int64
}

// Compare returns a negative number if a row of rank a matters less than one of rank b.
func (a Rank) Compare(b Rank) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.until, b.until), cmp.Compare(a.eighth, b.eighth),
		cmp.Compare(a.length, b.length), cmp.Compare(a.Share, b.Share))
}

// RankOf returns how much a row matters at log time now.
func RankOf(r *rules.Rule, s window.State, c Closure, limit int64, unlimited bool, now int64) Rank {
	switch {
	case max(r.Window.Expiry(s), c.Expiry(r)) <= now:
		return Rank{Class: RankExpired}
	case c.ClosedAt(now):
		return Rank{Class: RankClosed, until: c.Until}
	}
	total := r.Window.View(s, limit, now).Total
	if total == 0 && c.Nth > 0 {
		return Rank{Class: RankRemembering}
	}
	share := float64(total) / float64(r.Window.Capacity(limit))
	if unlimited {
		share = 0
	}
	return Rank{Class: RankOpen, eighth: int(min(share, 1) * 8), length: r.Window.Length(now), Share: share}
}
