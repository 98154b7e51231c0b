package processtest

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// NoAPI is an environment that lets several analyzers run on one machine: the default is one port. A test that wants an API gives the flag.
const NoAPI = "FLOODGATE_API_LISTEN="

// Program is a running process.
type Program struct {
	*Transcript
	Cmd    *exec.Cmd
	Exited chan struct{} // closed when it has ended
}

// Start starts a command, which is killed when the test ends. An environment that is nil becomes that of the test.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	p := &Program{Transcript: newTranscript(t, cmd.Args[1:]), Cmd: cmd, Exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.Transcript, p.Transcript
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = cmd.Wait() // the exit code is asked for where it matters
		close(p.Exited)
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		ended.Wait()
	})
	return p
}

// Kill is kill -9.
func (p *Program) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Exited
}

// Stop asks the program to end and returns its exit code.
func (p *Program) Stop(signal os.Signal) int {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(signal); err != nil {
		p.T.Fatal(err)
	}
	return p.Wait(30 * time.Second)
}

// Wait returns the exit code once the program has ended.
func (p *Program) Wait(maxWait time.Duration) int {
	p.T.Helper()
	select {
	case <-p.Exited:
	case <-time.After(maxWait):
		p.T.Fatalf("%s did not end within %v:\n%s", p.name, maxWait, p.Text())
	}
	return p.Cmd.ProcessState.ExitCode()
}
