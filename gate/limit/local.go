package limit

import "time"

// Local has a limiter for each kind of caller, for gate.Options.Local: they decide while decisions are stale. Callers of a
// kind that is not in it are not limited. It must not be changed while it is in use. Any goroutine may call its method.
type Local map[string]*Keyed

// Allow reports whether a request of a caller is admitted at a time, and counts it if so. The hash identifies the caller.
func (l Local) Allow(kind string, hash uint64, now time.Time) bool {
	k := l[kind]
	return k == nil || k.AllowHash(now, hash)
}
