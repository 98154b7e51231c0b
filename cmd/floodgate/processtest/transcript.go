package processtest

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Transcript is what a program prints on both streams. Any goroutine may use it.
type Transcript struct {
	T    testing.TB
	name string

	mu     sync.Mutex
	output []string      // guarded by mu: by line
	part   string        // guarded by mu: of a line that has not ended
	more   chan struct{} // guarded by mu: closed when output grows
}

func newTranscript(t testing.TB, args []string) *Transcript {
	t.Helper()
	return &Transcript{T: t, name: strings.Join(args, " "), more: make(chan struct{})}
}

// Write implements io.Writer; it never fails.
func (p *Transcript) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(p.part+string(b), "\n")
	p.output = append(p.output, lines[:len(lines)-1]...)
	p.part = lines[len(lines)-1]
	close(p.more)
	p.more = make(chan struct{})
	return len(b), nil
}

// WaitFor returns the last submatch of the first line that matches, from the program's start. It fails the test if none comes in time.
func (p *Transcript) WaitFor(pattern string, d time.Duration) string {
	p.T.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(d)
	for i := 0; ; {
		p.mu.Lock()
		lines, more := p.output[i:], p.more
		i = len(p.output)
		p.mu.Unlock()
		for _, line := range lines {
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		}
		select {
		case <-more:
		case <-deadline:
			p.T.Fatalf("%s did not print %q within %v:\n%s", p.name, pattern, d, p.Text())
		}
	}
}

// Text returns what was printed so far.
func (p *Transcript) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(append(slices.Clip(p.output), p.part), "\n")
}

// Lines returns the whole lines that were printed so far.
func (p *Transcript) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.output)
}
