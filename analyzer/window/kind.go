package window

import "time"

// Kind is an algorithm as rules name it. To add one, write its file and add it to Kinds.
type Kind struct {
	Name  string
	Slots bool // it takes a number of slots
	Burst bool // it takes a burst

	MaxLimit  int64         // the largest limit that it takes; 0 is no bound of its own
	MinRefill time.Duration // the shortest time in which a unit may come back; 0 is any

	// New returns the algorithm for windows of a length, which must be positive. Slots and burst are as in NewSliding and
	// NewGCRA, and are ignored where the algorithm takes none.
	New func(length time.Duration, slots int, burst int64) Algorithm
}

// Names of the kinds that code refers to: the default, and that of all windows of the calendar.
const (
	Default      = "sliding"
	OnACalendar  = "fixed"
	maxLogLimit  = 10_000 // entries that a log keeps for each caller
	minGCRAUnits = time.Microsecond
)

// Kinds returns all algorithms, the default first.
func Kinds() []Kind {
	return []Kind{
		{Name: nameSliding, Slots: true, New: func(length time.Duration, slots int, _ int64) Algorithm { return NewSliding(length, slots) }},
		{Name: nameFixed, New: func(length time.Duration, _ int, _ int64) Algorithm { return NewFixed(length) }},
		{Name: nameLog, MaxLimit: maxLogLimit, New: func(length time.Duration, _ int, _ int64) Algorithm { return NewLog(length) }},
		{
			Name: nameGCRA, Burst: true, MinRefill: minGCRAUnits,
			New: func(length time.Duration, _ int, burst int64) Algorithm { return NewGCRA(length, burst) },
		},
	}
}

// KindOf returns the kind of a name; ok is false if there is none.
func KindOf(name string) (k Kind, ok bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
