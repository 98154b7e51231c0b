package window

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
	// Late is whether the entry was too old to be counted. The rest of the Count then describes the window as it is.
	Late bool
}

// Full reports whether the window was full at t, the time that was passed to Add or View.
func (c Count) Full(t int64) bool { return c.Until > t }

// Algorithm is a kind of window with its parameters. It holds no counts: any number of goroutines may use one.
//
// A limit under 1 is taken as 1, a weight under 0 as 0.
type Algorithm interface {
	// Add counts an entry of the given weight at t and returns the new state, which may share memory with s: s must not
	// be used any more. If the Count is Late or weight is 0, the state is s, unchanged.
	Add(s State, limit, t, weight int64) (State, Count)
	// View returns what an entry of weight 0 at t would, and changes nothing.
	View(s State, limit, t int64) Count
	// Expiry returns the time from which on a nil State would behave as s does, for all entries at that time and later.
	// math.MaxInt64 is never; the expiry of nil is math.MinInt64.
	Expiry(s State) int64
	// Length returns the length in nanoseconds of the window that t falls into. It varies only on a calendar.
	Length(t int64) int64
	// Valid reports whether s can be used. What Add returned always can; a state that was read from elsewhere is asked
	// once, and must not be used if it is not valid.
	Valid(s State) bool
	// Shape identifies algorithm and parameters, such as "sliding/60000000000/20". Limit and burst are not part of it.
	Shape() string
	// Name is fixed, sliding, log or gcra.
	Name() string
}

// Names of the algorithms.
const (
	NameFixed   = "fixed"
	NameSliding = "sliding"
	NameLog     = "log"
	NameGCRA    = "gcra"
)
