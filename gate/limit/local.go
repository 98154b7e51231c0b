package limit

import "time"

// Local is limiters by kind of caller, for gate.Options.Local: they decide while decisions are stale. Kinds that it does
// not have are not limited. It must not be changed once it is in use; then any goroutine may call it.
type Local map[string]*Keyed

// Allow reports whether a request of a caller is admitted at a time, and counts it if so. The hash stands for the caller.
func (l Local) Allow(kind string, hash uint64, now time.Time) bool {
	k := l[kind]
	return k == nil || k.AllowHash(now, hash)
}
