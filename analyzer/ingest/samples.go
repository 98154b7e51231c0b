package ingest

// MaxSamples is how many lines of each reason Samples keep, and MaxSample how much of each, in bytes.
const (
	MaxSamples = 3
	MaxSample  = 300
)

// Samples are the first lines that could not be read, of each reason at most MaxSamples, cut to MaxSample bytes. They are to be shown
// to people. Clients choose what they say: print them with package printable, or with a logger of it. The zero value is empty. One
// goroutine uses it at a time.
type Samples struct{ lines [Reasons][]string }

// Add keeps the line if its reason has room, and returns which of MaxSamples it is, from 1. It returns 0 for a line that is not kept:
// also for one that is empty or was not rejected.
func (s *Samples) Add(r Reason, line []byte) int {
	if !r.Rejected() || r == Empty || s.Full(r) {
		return 0
	}
	s.lines[r] = append(s.lines[r], string(line[:min(len(line), MaxSample)]))
	return len(s.lines[r])
}

// Full reports whether Add keeps no more lines of this reason.
func (s *Samples) Full(r Reason) bool { return len(s.lines[r]) >= MaxSamples }

// AddTo adds the samples to those of earlier lines, by the name of their reason, and returns the result: at most MaxSamples of each
// reason, or nil if there are none.
func (s *Samples) AddTo(earlier map[string][]string) map[string][]string {
	for r, lines := range s.lines {
		if len(lines) == 0 {
			continue
		}
		if earlier == nil {
			earlier = make(map[string][]string)
		}
		name := Reason(r).String()
		all := append(earlier[name], lines...)
		earlier[name] = all[:min(len(all), MaxSamples)]
	}
	return earlier
}
