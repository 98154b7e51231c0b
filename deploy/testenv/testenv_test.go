package testenv

import (
	"net"
	"runtime"
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

// TestNoOtherProcessTakesTheBlock: the tests of two processes got neighbouring ports. One tried a port while the other asked there whether its
// server was ready, and took the answer for that of the server.
func TestNoOtherProcessTakesTheBlock(t *testing.T) {
	first := FreePorts(t)
	runtime.GC() // which closes a listener that nobody keeps
	if free(first-1, first) {
		t.Errorf("another process can take the block of port %d, want it to be in use", first)
	}
	if !free(first, first+portsOfBlock-1) {
		t.Errorf("got ports from %d on that are in use, want them free", first)
	}
}

// TestPortsInUseAreNotFree: the first and the last of a block, and none beside it.
func TestPortsInUseAreNotFree(t *testing.T) {
	first := FreePorts(t)
	for _, port := range []int{first, first + portsOfBlock - 2} {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			t.Fatal(err)
		}
		if free(first, first+portsOfBlock-1) {
			t.Errorf("port %d is in use: got the block free", port)
		}
		if !free(first+1, first+portsOfBlock-2) {
			t.Errorf("port %d is in use: got those between the ends in use too", port)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
