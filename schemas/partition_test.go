package schemas

import (
	"errors"
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
		s, tail := newSip(key).write(0, 0, string(input))
		if w, ok := want[n]; ok && s.sum(tail, n) != w {
			t.Errorf("SipHash of %d bytes: got %#x, want %#x", n, s.sum(tail, n), w)
		}
		if w, ok := want[n]; ok && plainSip(key, string(input)) != w {
			t.Errorf("plain SipHash of %d bytes: got %#x, want %#x", n, plainSip(key, string(input)), w)
		}
		input = append(input, byte(n))
	}
}

// plainSip is SipHash-2-4 as the paper puts it, one byte at a time.
func plainSip(k PartitionKey, input string) uint64 {
	s := newSip(k)
	var m uint64
	for i := range len(input) {
		m |= uint64(input[i]) << (8 * (i & 7))
		if i&7 == 7 {
			s, m = s.block(m), 0
		}
	}
	return s.sum(m, len(input))
}

// Producers in other languages hash with a library, so these values never change.
func TestHashVectors(t *testing.T) {
	for caller, want := range map[Caller]uint64{
		{"ip", "203.0.113.9"}:            0x67dc721c4ebfcd8f,
		{"ip", "2001:db8:aaaa:bbbb::1"}:  0x6936f67bab8f55ae,
		{"key", "\x00\xff"}:              0x9538939a25e950ba,
		{"resource", "/v1/search?q=100"}: 0xb9404a88c69fe7a8,
	} {
		if got := DefaultPartitionKey().Hash(caller.Kind, caller.ID); got != want {
			t.Errorf("hash of %q: got %#x, want %#x", caller, got, want)
		}
	}
	if got := DefaultPartitionKey().Fingerprint(); got != 0xd5f80be7f61667a2 {
		t.Errorf("fingerprint: got %#x, want %#x", got, uint64(0xd5f80be7f61667a2))
	}
}

func TestHashIsSipHashOfKindZeroID(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 3)
	key := DefaultPartitionKey()
	for i := range len(long) {
		for j := range len(long) {
			if got, want := key.Hash(long[:i], long[:j]), plainSip(key, long[:i]+"\x00"+long[:j]); got != want {
				t.Fatalf("kind of %d bytes and id of %d: got %#x, want %#x", i, j, got, want)
			}
		}
	}
}

func FuzzHash(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), "ip", "203.0.113.9")
	f.Fuzz(func(t *testing.T, secret []byte, kind, id string) {
		var key PartitionKey
		copy(key[:], secret)
		if got, want := key.Hash(kind, id), plainSip(key, kind+"\x00"+id); got != want {
			t.Errorf("%q %q: got %#x, want %#x", kind, id, got, want)
		}
	})
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

// The floor is the chain of dependent operations: about six cycles a round, two rounds for each started block of
// eight bytes, and four at the end. So 14 bytes need 8 rounds, and 24 bytes need 12.
func BenchmarkHash(b *testing.B) {
	for _, id := range []string{"203.0.113.9", "2001:db8:aaaa:bbbb::1"} {
		b.Run(id, func(b *testing.B) {
			key := DefaultPartitionKey()
			for b.Loop() {
				key.Hash("ip", id)
			}
		})
	}
}

func TestPartitionKeysAreParsed(t *testing.T) {
	want := PartitionKey{0: 0x01, 15: 0xff}
	for _, text := range []string{"010000000000000000000000000000ff", " 010000000000000000000000000000FF\r\n"} {
		if got, err := ParsePartitionKey(text); err != nil || got != want {
			t.Errorf("%q: got %x, %v", text, got, err)
		}
	}
	const secret = "0123456789abcdef0123456789abcde"
	for _, text := range []string{"", secret, secret + "fg", secret + "f0", secret + "g", "0x" + secret[1:], strings.Repeat("0", 32), strings.Repeat(" ", 32)} {
		got, err := ParsePartitionKey(text)
		if !errors.Is(err, ErrPartitionKey) || got != (PartitionKey{}) || strings.Contains(err.Error(), "cdef") {
			t.Errorf("%q: got %x, %v, want %v that does not show it", text, got, err, ErrPartitionKey)
		}
	}
}
