package index

// pageSize is how many values a slab allocates at a time.
const pageSize = 1024

// Slab holds values in pages, so that they never move, and their numbers stay good. A number that was given back is given out again
// first. The zero value is empty. One goroutine may use a Slab.
type Slab[T any] struct {
	pages [][]T
	free  []uint32 // numbers that were given back
	made  uint32
}

// Made returns how many numbers were ever given out, free ones included.
func (s *Slab[T]) Made() uint32 { return s.made }

// At returns the value of a number, which is in use or free.
func (s *Slab[T]) At(i uint32) *T { return &s.pages[i/pageSize][i%pageSize] }

// Take returns a number that is not in use. Its value is zero, or what it was when it was given back.
func (s *Slab[T]) Take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	i := s.made
	s.made++
	if i%pageSize == 0 {
		s.pages = append(s.pages, make([]T, pageSize))
	}
	return i
}

// Give takes a number back, which was in use.
func (s *Slab[T]) Give(i uint32) { s.free = append(s.free, i) }
