package record

import "github.com/509da70d/floodgate/schemas"

// Drain takes everything recorded so far and calls visit with it, entry by entry; equal entries of different stripes
// come one by one, with the same hash. An entry and its strings hold only until visit returns. Drain returns the number
// of requests taken, each of which is owed one of Acked, Dropped and Unknown. Recording goes on meanwhile. One goroutine
// may call it.
func (r *Recorder) Drain(visit func(hash uint64, e *schemas.Entry)) (requests uint64) {
	for i := range r.stripes {
		n := r.take(&r.stripes[i])
		if n == 0 {
			continue
		}
		requests += n
		r.spare.Each(visit)
		r.spare.Reset()
	}
	return requests
}

// take swaps the stripe's table with the spare one, and returns how many requests it held.
func (r *Recorder) take(s *stripe) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.wait()
	defer s.release()
	n := s.table.Requests()
	if n == 0 {
		return 0
	}
	s.table, r.spare = r.spare, s.table
	r.drained += n
	if s.full.Load() {
		s.full.Store(false)
		r.full.Add(-1)
	}
	return n
}

// Wake returns a channel that receives when something has been recorded since the call, or is there already. It is for
// the goroutine that drains, when it wants to sleep; it may receive once too often.
func (r *Recorder) Wake() <-chan struct{} {
	r.asleep.Store(true)
	for i := range r.stripes {
		if r.stripes[i].holds() {
			r.rouse()
			break
		}
	}
	return r.wake
}

func (s *stripe) holds() bool {
	s.wait()
	defer s.release()
	return s.table.Requests() > 0
}

// rouse wakes the drainer. It does not wait.
func (r *Recorder) rouse() {
	if r.asleep.CompareAndSwap(true, false) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}
