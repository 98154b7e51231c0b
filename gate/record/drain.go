package record

import "github.com/509da70d/floodgate/schemas"

// Drain takes all entries recorded so far out of the Recorder, and calls visit with each. Equal entries of different stripes
// come one by one, with the same hash. An entry and its strings are valid until visit returns. Drain returns the number of
// requests taken. For each of them the link must later call one of Acked, Dropped and Unknown. Recording goes on meanwhile.
// Only one goroutine may call Drain.
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
	s.takeWaiting()
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

// Wake returns a channel that receives a value when the Recorder has entries, or as soon as it gets one. The goroutine that
// drains waits on it. The channel may receive a value once too often.
func (r *Recorder) Wake() <-chan struct{} {
	r.asleep.Store(true)
	for i := range r.stripes {
		if r.stripes[i].hasRequests() {
			r.wakeDrainer()
			break
		}
	}
	return r.wake
}

func (s *stripe) hasRequests() bool {
	s.takeWaiting()
	defer s.release()
	return s.table.Requests() > 0
}

// wakeDrainer wakes the goroutine that drains, if it sleeps. It does not wait.
func (r *Recorder) wakeDrainer() {
	if r.asleep.CompareAndSwap(true, false) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}
