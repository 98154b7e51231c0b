package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// beMain makes the test binary the program itself, so that tests run real processes without building another one.
const beMain = "FLOODGATE_TEST_BE_MAIN"

// parallel is how many parallel tests run at once, unless -parallel says so: they mostly wait, for sessions to run out and
// for processes that start.
const parallel = 4

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
		return
	}
	debug.SetGCPercent(400) // by default two thirds of the processor time are garbage collection: many brokers, each with a small heap
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))) // there is such a flag
	}
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
