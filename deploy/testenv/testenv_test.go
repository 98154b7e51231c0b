package testenv

import (
	"net"
	"runtime"
	"strconv"
	"testing"
)

// TestFreeAddressesDiffer: two tests in parallel once got one address, and one test asked the other's server until that stopped.
func TestFreeAddressesDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 500 {
		address := FreeAddress(t)
		if seen[address] {
			t.Fatalf("got %s twice", address)
		}
		seen[address] = true
	}
}

// TestNoOtherProcessTakesTheBlock: one once tried a port while a test waited there for its server, and the test went on without it.
func TestNoOtherProcessTakesTheBlock(t *testing.T) {
	_, port, err := net.SplitHostPort(FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC() // which closes a listener that nobody keeps
	if l, err := listen(n / portsOfBlock * portsOfBlock); err == nil {
		_ = l.Close()
		t.Errorf("another process can take the block of port %d, want it to be in use", n)
	}
}
