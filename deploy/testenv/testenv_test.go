package testenv

import "testing"

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
