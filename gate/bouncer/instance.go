package bouncer

import (
	"crypto/sha256"
	"slices"
	"time"
)

// identity identifies an instance of a bouncer: the SHA-256 of its key, its address, its User-Agent, its scopes and its origins.
type identity [sha256.Size]byte

// instance is what is known of it.
type instance struct {
	has  uint64 // number of the newest change that the instance has. If lost is true, it may have later ones too
	lost bool   // it may not have got its last answer
	seen time.Time

	// An instance that was given everything although it did not start may hold addresses with other ends. It gets everything again at
	// repeatAt: a minute after unknownSince, and whenever twice as long has passed. A zero repeatAt means never.
	unknownSince, repeatAt time.Time
}

// answer says which entries the answer to a bouncer may contain, and how to judge them.
type answer struct {
	slots   []int32
	startup bool   // the bouncer holds nothing
	all     bool   // everything that is closed, not only changes
	since   uint64 // else: only changes after this one
	upTo    uint64 // changes after this one come with the next answer
}

// deleted reports whether an entry belongs into the list "deleted": it is open since a change that the bouncer does not know, and the
// bouncer may hold it. An address that is closed is never deleted: some bouncers apply "deleted" after "new".
func (a *answer) deleted(e *entry) bool {
	return !e.closed && e.version > a.since && e.version <= a.upTo && (a.all || e.firstClosedAt <= a.since)
}

// added reports whether an entry belongs into the list "new". One that is closed while the answer is written is not in it, because the
// answer may have listed it in "deleted" before. The next answer lists it.
func (a *answer) added(e *entry, now int64) bool {
	return e.closed && e.version > a.since && e.closedAt <= a.upTo && e.until-now >= int64(shortestDuration)
}

// begin says what an instance must be given. From now on it counts as an instance, so that no address that is opened while its answer is
// written is forgotten.
func (v *view) begin(id identity, startup bool, now time.Time) (a answer) {
	v.advance(now)
	v.mu.Lock()
	defer v.mu.Unlock()
	i := v.instances[id]
	a.startup, a.upTo = startup, v.changed
	a.all = startup || i == nil || i.lost || i.has < v.floor || now.Sub(i.seen) > instanceIdle || i.repeats(now)
	switch {
	case i == nil:
		v.makeRoom(now)
		v.instances[id] = &instance{has: a.upTo, lost: true, seen: now, unknownSince: now}
	case !a.all:
		a.since = i.has
	case !i.repeats(now):
		i.unknownSince = now
	}
	if !startup {
		a.slots = v.table.since(opened, a.since, nil)
	}
	a.slots = v.table.since(closed, a.since, slices.Grow(a.slots, v.growth(a.all)))
	return a
}

// repeats reports whether it is time to give an instance everything again.
func (i *instance) repeats(now time.Time) bool {
	return !i.repeatAt.IsZero() && !now.Before(i.repeatAt)
}

// given notes that an instance has got an answer.
func (i *instance) given(a *answer, now time.Time) {
	switch {
	case a.startup:
		i.repeatAt = time.Time{}
	case a.all:
		i.repeatAt = now.Add(max(firstRepeat, now.Sub(i.unknownSince)))
	}
}

// growth is how many closed addresses an answer has at most, if it has all.
func (v *view) growth(all bool) int {
	if all {
		return v.table.closed
	}
	return 0
}

// end notes that an instance has been given an answer, or that it perhaps was not.
func (v *view) end(id identity, a answer, given bool, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := v.instances[id]
	if i == nil { // others have taken its room
		return
	}
	i.seen = now
	if i.lost = !given; given || a.startup {
		i.has = a.upTo
	}
	if given {
		i.given(&a, now)
	}
	v.forget(now)
}

// makeRoom removes the instance that was seen least recently if there are too many.
func (v *view) makeRoom(now time.Time) {
	if len(v.instances) < maxInstances {
		return
	}
	var oldest identity
	at := now.Add(1)
	for id, i := range v.instances {
		if i.seen.Before(at) {
			oldest, at = id, i.seen
		}
	}
	delete(v.instances, oldest)
}

// forget removes instances that are away, and opened addresses of which all others know, or of which there are too many.
func (v *view) forget(now time.Time) {
	known := v.changed
	for id, i := range v.instances {
		if now.Sub(i.seen) > instanceIdle {
			delete(v.instances, id)
		} else {
			known = min(known, i.has)
		}
	}
	for range pieces {
		slot := v.table.lists[opened].oldest
		if slot == none {
			return
		}
		e := v.table.at(slot)
		if e.version > known && len(v.table.slots)-v.table.closed <= v.maxGone {
			return
		}
		v.floor = max(v.floor, e.version)
		if e.nextCheck == never {
			v.table.remove(slot)
		} else { // it will be closed again later
			v.table.unlink(slot)
			e.firstClosedAt, e.until, e.firstEnd, e.lastEnd = 0, 0, 0, 0
		}
	}
}
