package schemas

import "errors"

// ErrFrameFull says that a FrameEncoder has no room left: send the frame and start another.
var ErrFrameFull = errors.New("frame is full")

// What is wrong with an entry; ErrFrameEntry wraps it.
var (
	errEntryString   = errors.New("no such string")
	errEntryFlags    = errors.New("unknown flags or reserved bytes")
	errEntryEarly    = errors.New("early but not blocked, want early only together with blocked")
	errEntryResource = errors.New("resource too long")
	errEntryCount    = errors.New("got count 0, want 1 or more")
	errEntryCost     = errors.New("bad cost")
	errEntryOffset   = errors.New("bad source offset")
	errEntryArrived  = errors.New("bad arrival ticks")
	errEntryDeclared = errors.New("bad declared cost")
)

// Reason returns the metric label for an error of this package: a short word, from a fixed list. It is "other" for
// foreign errors and "" for nil.
func Reason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrFrameShort):
		return "short"
	case errors.Is(err, ErrFrameMagic):
		return "magic"
	case errors.Is(err, ErrFrameVersion):
		return "version"
	case errors.Is(err, ErrFrameCRC):
		return "crc"
	case errors.Is(err, ErrFrameBounds):
		return "bounds"
	case errors.Is(err, ErrFrameEntry):
		return "entry"
	case errors.Is(err, ErrFrameFull):
		return "full"
	case errors.Is(err, ErrCallerKind):
		return "caller_kind"
	case errors.Is(err, ErrCallerID):
		return "caller_id"
	}
	return "other"
}
