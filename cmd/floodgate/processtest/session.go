package processtest

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"
)

// Session is a subcommand that runs inside the test: quicker to start than a Program, but without signals.
type Session struct {
	*Transcript
	stop  context.CancelFunc // what SIGINT and SIGTERM do
	ended chan struct{}
	err   error // once ended
}

// Begin runs a subcommand until it ends or the test does. run prints to out.
func Begin(t testing.TB, args []string, run func(ctx context.Context, out io.Writer) error) *Session {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &Session{Transcript: newTranscript(t, args), stop: stop, ended: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		defer close(s.ended)
		s.err = run(ctx, s.Transcript)
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return s
}

// End stops the session, if it hasn't ended, and returns its error and how long it took to end.
func (s *Session) End() (took time.Duration, err error) {
	s.T.Helper()
	began := time.Now()
	s.stop()
	err = s.Wait(30 * time.Second)
	return time.Since(began), err
}

// Wait returns the session's error once it has ended.
func (s *Session) Wait(maxWait time.Duration) error {
	s.T.Helper()
	select {
	case <-s.ended:
	case <-time.After(maxWait):
		s.T.Fatalf("%s did not end within %v:\n%s", s.name, maxWait, s.Text())
	}
	return s.err
}
