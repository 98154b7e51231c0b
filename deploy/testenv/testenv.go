// Package testenv says which tests the environment asks for, so that plain go test gives the same result on each machine.
//
//	FLOODGATE_LONG=1      also those that take long
//	FLOODGATE_PROGRAMS=1  also those that run programs of others, such as nginx: one that is missing fails its tests
//
// The script .ci/run sets both.
package testenv

import (
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
)

// IsLong reports whether tests may take long.
func IsLong() bool { return os.Getenv("FLOODGATE_LONG") != "" }

// Long skips a test that takes long, unless the environment asks for it.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong() {
		t.Skip("takes long: FLOODGATE_LONG=1 runs it, as in CI")
	}
}

// Fewer makes rapid.Check try so many examples until the test ends, unless the environment or -rapid.checks asks for others. It is not
// for parallel tests.
func Fewer(t testing.TB, checks int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if IsLong() || f.Value.String() != f.DefValue {
		return
	}
	set := func(value string) {
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(checks))
	t.Cleanup(func() { set(f.DefValue) })
}

// Parallel lets so many parallel tests run at a time, or as many as there are cores if these are more, unless -parallel asks for another
// number: for tests that wait more than they compute. TestMain calls it.
func Parallel(tests int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(tests, runtime.GOMAXPROCS(0)))) // there is such a flag
	}
}

// LazyGC lets the garbage collector run a quarter as often, unless benchmarks run: for tests that open hundreds of stores or brokers, each
// with a small heap. TestMain calls it.
func LazyGC() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
}

// Program returns the path of a program of others. It skips the test unless the environment asks for it.
func Program(t testing.TB, name string) string {
	t.Helper()
	if os.Getenv("FLOODGATE_PROGRAMS") == "" {
		t.Skipf("runs %s: FLOODGATE_PROGRAMS=1 runs it, as in CI", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// portsOfBlock is how many ports a process takes at a time.
const portsOfBlock = 100

// block is the ports of which FreeAddress returns the next one. The process listens at the first port of each block that it took, so that no
// other process takes it too: that one could try a port in the moment in which a test asks whether its server listens there yet.
var block struct { //nolint:gochecknoglobals // the tests of a process share it
	sync.Mutex
	next, end int
	taken     []net.Listener
}

// FreeAddress returns an address of loopback on which nothing listens, for programs that take no port 0, and for what is to be refused.
// It returns each only once, because a program may listen at it later than another test looks, and no two processes return the same. Its
// port is below those that the system hands out: no connection takes it meanwhile, and a dial to it cannot connect to itself.
func FreeAddress(t testing.TB) string {
	t.Helper()
	block.Lock()
	defer block.Unlock()
	if block.next == block.end {
		block.next = takeBlock(t)
		block.end = block.next + portsOfBlock - 1
	}
	block.next++
	return address(block.next - 1)
}

// FreePorts returns the first of 99 ports, one after the other, that are as those of FreeAddress.
func FreePorts(t testing.TB) int {
	t.Helper()
	block.Lock()
	defer block.Unlock()
	return takeBlock(t)
}

// takeBlock takes a block and returns its second port. The caller holds the lock of block.
func takeBlock(t testing.TB) int {
	t.Helper()
	for range 1000 {
		first := 20_000 + portsOfBlock*rand.IntN(120) //nolint:gosec // it is no secret
		l, err := net.Listen("tcp", address(first))
		if err != nil {
			continue
		}
		if free(first+1, first+portsOfBlock) {
			block.taken = append(block.taken, l)
			return first + 1
		}
		_ = l.Close() // it was only tried
	}
	t.Fatal("found no free ports")
	return 0
}

// free reports whether nothing listens at the ports from begin up to, but not including, end.
func free(begin, end int) bool {
	for port := begin; port < end; port++ {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			return false
		}
		_ = l.Close() // it was only tried
	}
	return true
}

// address is that of a port of loopback.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
