package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// beMain makes the test binary the program itself, so that tests run real processes without building another one.
const beMain = "FLOODGATE_TEST_BE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
		return
	}
	testenv.LazyGC()
	testenv.Parallel(4) // they mostly wait, for sessions to run out and for processes that start
	os.Exit(m.Run())
}

// start runs floodgate in a process of its own, which is killed when the test ends.
func start(t testing.TB, args ...string) *processtest.Program {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith is start with a standard input.
func startWith(t testing.TB, stdin *os.File, args ...string) *processtest.Program {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), beMain+"=1", processtest.NoAPI)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	return processtest.Start(t, cmd)
}

// begin runs a subcommand in this process until it ends or the test does.
func begin(t *testing.T, args ...string) *processtest.Session {
	t.Helper()
	return processtest.Begin(t, args, func(ctx context.Context, out io.Writer) error { return realMain(ctx, args, inside(out, nil)) })
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
