package schemas

import (
	"strings"
	"testing"
)

// The first vectors of the reference implementation (key 00..0f, input 00, 00 01, …), as in the SipHash paper's
// vectors.h; "" gives 0x726fdb47dd0e0e31 and 15 bytes give the paper's Appendix A value.
func TestSipHashReferenceVectors(t *testing.T) {
	var key PartitionKey
	var input []byte
	for i := range key {
		key[i] = byte(i)
	}
	want := map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5}
	for n := range 16 {
		s := newSip(key)
		s.writeString(string(input))
		if w, ok := want[n]; ok && s.sum() != w {
			t.Errorf("SipHash of %d bytes: got %#x, want %#x", n, s.sum(), w)
		}
		input = append(input, byte(n))
	}
}

func TestHashDoesNotDependOnHowTheInputIsSplit(t *testing.T) {
	whole := strings.Repeat("0123456789abcdef", 3)
	key := DefaultPartitionKey()
	unsplit := newSip(key)
	unsplit.writeString(whole)
	want := unsplit.sum()
	for i := range len(whole) {
		s := newSip(key)
		s.writeString(whole[:i])
		s.writeString(whole[i:])
		if got := s.sum(); got != want {
			t.Fatalf("split at %d: got %#x, want %#x", i, got, want)
		}
	}
}

func TestHashKeepsKindAndIDApart(t *testing.T) {
	key := DefaultPartitionKey()
	if key.Hash("ab", "c") == key.Hash("a", "bc") {
		t.Error("callers ab:c and a:bc hash alike")
	}
}

func TestFingerprintTellsKeysApart(t *testing.T) {
	if DefaultPartitionKey().Fingerprint() == (PartitionKey{}).Fingerprint() {
		t.Error("two keys share a fingerprint")
	}
}

func TestPartitionsAreEvenlyLoaded(t *testing.T) {
	const n, callers = 8, 40_000
	var load [n]int
	key := DefaultPartitionKey()
	for i := range callers {
		load[Partition(key.Hash("ip", "10.0."+string(rune('a'+i%26))+strings.Repeat("x", i%7)+string(rune(i))), n)]++
	}
	for p, got := range load {
		if float64(got) > 1.3*callers/n {
			t.Errorf("partition %d holds %d of %d callers, want at most 1.3 × the mean", p, got, callers)
		}
	}
}

func TestHashDoesNotAllocate(t *testing.T) {
	key := DefaultPartitionKey()
	if n := testing.AllocsPerRun(100, func() { key.Hash("ip", "203.0.113.9") }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkHash(b *testing.B) {
	key := DefaultPartitionKey()
	for b.Loop() {
		key.Hash("ip", "2001:db8:aaaa:bbbb::1")
	}
}
