package window

import (
	"time"
)

// State is the whole state of one window: a few integers whose meaning belongs to the Algorithm that made them. A nil
// State is a new window. It may be copied, compared, hashed, and encoded as varints; it may only be used under an
// Algorithm of an equal Shape. One goroutine at a time may use a State.
type State []int64

// Count is what a window amounts to after an entry, or at a time.
type Count struct {
	// Total is the weight in the window, this entry's included. A log keeps only the newest entries that make up the
	// limit, so its Total stops growing about there. For gcra it is the fill of the bucket, rounded up.
	Total int64
	// Start is where the window begins, in Unix nanoseconds: inclusive for fixed and sliding, exclusive for log and gcra.
	Start int64
	// Until is when the window naturally reopens, in Unix nanoseconds: it is full if and only if Until is after the
	// time that was asked about. An open window gives that time itself.
	Until int64
	// Place is which window this is.
	Place Place
}

// Place says which window an entry was counted in.
type Place uint8

// Places.
const (
	Newest Place = iota // the newest window; one that moves with time is always this one
	Past                // the one before it, which is over: Total, Start and Until are of that one. Only fixed windows have it
	Late                // none: the entry was too old to be counted. The rest of the Count describes the newest window
)

// Full reports whether the window was full at t, the time that was passed to Add or View.
func (c Count) Full(t int64) bool { return c.Until > t }

// Algorithm is a kind of window with its parameters. It holds no counts: any number of goroutines may use one.
//
// A limit under 1 is taken as 1, a weight under 0 as 0.
type Algorithm interface {
	// Add counts an entry of the given weight at t and returns the new state, which may share memory with s: s must not
	// be used any more. If the Place is Late or weight is 0, the state is s, unchanged.
	Add(s State, limit, t, weight int64) (State, Count)
	// View returns the Count that an entry of weight 0 at t would give. It changes nothing.
	View(s State, limit, t int64) Count
	// Parts returns the parts that make up View's Total, for people: the newest ones, at most maxParts, the oldest of them first, and
	// how many older ones were left out. It changes nothing, and shares no memory with s.
	Parts(s State, limit, t int64, maxParts int) (parts []Part, more int)
	// Expiry returns the time from which on a nil State would behave as s does, for all entries at that time and later.
	// math.MaxInt64 is never; the expiry of nil is math.MinInt64.
	Expiry(s State) int64
	// Forgets returns the time from which on neither a count nor a natural closure depends on entries at or before lost
	// that were not added to s: a state that lacks them then behaves as one that has them.
	Forgets(s State, limit, lost int64) int64
	// Coarse returns the algorithm for callers that have no room for a whole State.
	Coarse() Coarse
	// Length returns the length in nanoseconds of the window that t falls into. It varies only on a calendar.
	Length(t int64) int64
	// Valid reports whether s can be used. A state that Add returned is always valid. A state that was read from elsewhere must be
	// checked once before it is used.
	Valid(s State) bool
	// Shape identifies algorithm and parameters, such as "sliding/60000000000/20". Limit and burst are not part of it.
	Shape() string
	// Capacity returns the weight at which a window is full, for a caller with the given limit.
	Capacity(limit int64) int64
	// Traits says what else a reader of counts must know of the algorithm.
	Traits() Traits
}

// Traits is how algorithms differ for a reader of their counts. The zero value is a window that counts all that came
// since its Start, whenever that is.
type Traits struct {
	Truncates bool // a State keeps no more weight than makes up the limit, so that a Total does not show an overshoot
	Endless   bool // a Count may depend on entries of any age, also on those before its Start
	Releases  bool // weight leaves when a request ends, so that a window may reopen at any entry
	Aligned   bool // windows start at multiples of their length since 1970-01-01

	// Slot is the time in nanoseconds between two moments at which weight may leave a window, which are multiples of it since
	// 1970-01-01. 0 is a window that weight may leave at any time; math.MaxInt64 is one of the calendar, which
	// is emptied at once.
	Slot int64
}

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
