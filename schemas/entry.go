package schemas

// Bounds on entries.
const (
	// MaxResource is the maximum length of a resource name, in bytes. Producers cut longer ones, and decoders refuse them.
	MaxResource = 1024
	// MergeTick is the longest span of requests that a producer may merge into one Entry, in nanoseconds: the spans
	// are aligned to multiples of it.
	MergeTick = 10_000_000
)

// Tick returns the time t, in Unix nanoseconds, in ticks of MergeTick: the unit of Entry.Arrived.
func Tick(t int64) int64 { return t / MergeTick }

// Entry is one line of a request log about one caller. An arrival has a time, a caller, a resource and a count, and says
// whether it was blocked. A response (Response true) adds the status and the cost, and its Time is the end of the request.
//
// A recorder whose requests hold a part of a limit while they run says more of them. Arrived lets the analyzer find the arrivals that a
// response ends. An arrival has it only if its response will have it, too: other requests hold nothing, because no response would end that.
// Declared is what the server expects its requests to cost.
//
// Count is over 1 where a recorder merged equal entries; Time is then the last request's. Admitted and blocked requests
// are never merged into one entry. Strings of a decoded entry share memory with their frame's copy and may be kept.
type Entry struct {
	Time     int64  // Unix nanoseconds
	Kind     string // of the caller
	ID       string // of the caller
	Resource string // what was asked for; may be empty
	Cost     int64  // total cost of all Count requests, ≥ 0; only responses have one
	Arrived  int64  // sum of the arrival times of all Count requests, in ticks; 0 is unknown
	Declared int64  // sum of what all Count requests are expected to cost, ≥ 0; 0 is unknown
	Offset   int64  // position in the source; only in frames with Source set
	Count    uint32 // requests, ≥ 1
	Status   uint16 // HTTP status; 0 where unknown
	Blocked  bool   // refused because this caller's own gate was closed
	Response bool   // the end of a request, not its arrival
	Early    bool   // blocked by a closure that was predicted, and not counted yet; only with Blocked
}

// Holds reports whether the entry has what only frames of version 2 say.
func (e *Entry) Holds() bool { return e.Arrived|e.Declared != 0 }

// Caller returns the caller that the entry is about.
func (e *Entry) Caller() Caller { return Caller{Kind: e.Kind, ID: e.ID} }
