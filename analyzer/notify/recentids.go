package notify

// maxRecent is how many ids a worker remembers.
const maxRecent = 20_000

// recentIDs remembers the ids of the newest events, because an analyzer that takes a partition over may write some again. Ids of
// this version have 32 bytes.
type recentIDs struct {
	known map[string]struct{}
	ring  []string
	next  int // in ring, once it is full
}

func newRecentIDs() *recentIDs { return &recentIDs{known: make(map[string]struct{})} }

// add reports whether an id is new.
func (r *recentIDs) add(id string) bool {
	if _, known := r.known[id]; known {
		return false
	}
	r.known[id] = struct{}{}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, id)
		return true
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % maxRecent
	return true
}
