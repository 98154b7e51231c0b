package gate

import "time"

// RepeatBegins says that all decisions in force are to be applied again, from now until RepeatEnds: a link that has lost its place, and
// cannot learn what has changed meanwhile, calls it. No caller is opened by it. If it is called again before RepeatEnds, the repeat starts
// anew.
func (s *Set) RepeatBegins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer.repeat++
}

// RepeatEnds says that all decisions in force have been applied since RepeatBegins. Closures of decisions that were not among them end:
// nobody told the link that their callers are open again. Shares end by themselves, after seconds. It takes as long as to apply the
// decisions that are in force. Readers do not wait.
func (s *Set) RepeatEnds(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.writer
	w.repeated = w.repeat
	if w.table == nil {
		return
	}
	s.rebuild(now.UnixNano())
	s.publish()
}
