package rows

// Removed is the rows that were dropped while the store still holds them: by key, their Sum. A row that comes back before the next
// checkpoint takes its sum from here, so that each key is changed once in a transaction.
type Removed map[string]uint64

// Add notes that a row was dropped whose Sum in the store is stored; 0 if the store never held it.
func (r Removed) Add(key []byte, stored uint64) {
	if stored != 0 {
		r[string(key)] = stored
	}
}

// Take returns the sum under which the store still holds key, or 0.
func (r Removed) Take(key []byte) uint64 {
	if len(r) == 0 {
		return 0
	}
	stored := r[string(key)]
	delete(r, string(key))
	return stored
}
