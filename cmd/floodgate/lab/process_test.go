//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(beServer); kind != "" {
		os.Exit(runServer(kind, os.Getenv(serverPlan)))
	}
	testenv.Parallel(4) // they mostly wait, for sessions to run out and for processes that start
	code := m.Run()
	_ = os.RemoveAll(binaries()) // what is left in the temporary directory harms nobody
	os.Exit(code)
}

// The programs under test, each built once, when a test first needs it.
var (
	binaries = sync.OnceValue(func() string {
		dir, err := os.MkdirTemp("", "floodgate-lab-")
		if err != nil {
			panic(err)
		}
		return dir
	})
	floodgate = sync.OnceValues(func() (string, error) { return build("floodgate") })
	// failpoints is floodgate that crashes where it is told to.
	failpoints = sync.OnceValues(func() (string, error) { return build("failpoints", "-tags", "failpoint") })
)

// build builds floodgate, with the race detector if the tests have it.
func build(name string, flags ...string) (string, error) {
	path := filepath.Join(binaries(), name)
	args := append([]string{"build", "-o", path}, flags...)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build floodgate: %w\n%s", err, out)
	}
	return path, nil
}

// built returns the path of a program, or fails the test.
func built(t testing.TB, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs floodgate in a process of its own, which is killed when the test ends.
func start(t testing.TB, args ...string) *processtest.Program {
	t.Helper()
	return startCommand(t, exec.Command(built(t, floodgate), args...))
}

// startCommand runs another program likewise.
func startCommand(t testing.TB, cmd *exec.Cmd) *processtest.Program {
	t.Helper()
	cmd.Env = append(os.Environ(), append(cmd.Env, processtest.NoAPI)...)
	return processtest.Start(t, cmd)
}

// runCommand runs a subcommand until it ends, and returns its standard output. An error has what it says on the other stream.
func runCommand(args ...string) (string, error) {
	path, err := floodgate()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), processtest.NoAPI)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s%w", exit.Stderr, err)
	}
	return string(out), err
}

// isUsage reports whether a command says that it was called wrongly.
func isUsage(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 2
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// serveKafka starts an embedded broker that ends with the test, if not before.
func serveKafka(t testing.TB, o embedded.Options) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // it may have ended
	return b
}

// rulesFile writes a rules file that is good.
func rulesFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(processtest.Rules("5")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
