package rows

// Removed holds the rows that were dropped, but that the store still holds: the Sum of each, by its key. If such a row comes back before
// the next checkpoint, it takes its sum from here, so that a transaction changes each key only once.
type Removed map[string]uint64

// Add notes that a row was dropped whose Sum in the store is stored; 0 if the store never held it.
func (r Removed) Add(key []byte, stored uint64) {
	if stored != 0 {
		r[string(key)] = stored
	}
}

// Take removes key, and returns the sum under which the store still holds it; 0 if the store does not.
func (r Removed) Take(key []byte) uint64 {
	if len(r) == 0 {
		return 0
	}
	stored := r[string(key)]
	delete(r, string(key))
	return stored
}
