package fold

// pageRows is how many values a slab allocates at a time.
const pageRows = 1024

// slab holds values in pages, so that they never move, and their numbers stay good. A number that was given back is given out again
// first. The zero value is empty. One goroutine may use a slab.
type slab[T any] struct {
	pages [][]T
	free  []uint32 // numbers that were given back
	made  uint32   // numbers ever given out, free ones included
}

// at returns the value of a number, which is in use or free.
func (s *slab[T]) at(i uint32) *T { return &s.pages[i/pageRows][i%pageRows] }

// take returns a number that is not in use. Its value is zero, or what it was when it was given back.
func (s *slab[T]) take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	i := s.made
	s.made++
	if i%pageRows == 0 {
		s.pages = append(s.pages, make([]T, pageRows))
	}
	return i
}

// give takes a number back, which was in use.
func (s *slab[T]) give(i uint32) { s.free = append(s.free, i) }
