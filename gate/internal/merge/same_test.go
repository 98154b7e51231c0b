package merge

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// Comparing in line must come to what comparing strings does, for all lengths, and wherever the difference is.
func FuzzSame(f *testing.F) {
	f.Add("ip", "203.0.113.9", "/v1/search", 3)
	f.Add("", "", "", 0)
	for n := range 20 {
		f.Add("key"[:n%4], strings.Repeat("i", n), strings.Repeat("r", 3*n), n)
	}
	f.Fuzz(func(t *testing.T, kind, id, resource string, at int) {
		e := schemas.Entry{Kind: kind, ID: id, Resource: resource}
		key := []byte(kind + id + resource + "what follows in the arena")
		if !same(key, &e) {
			t.Fatalf("%+v: got another, want the same", e)
		}
		if n := len(kind) + len(id) + len(resource); n > 0 {
			key[uint(at)%uint(n)] ^= 1 << (uint(at) / 7 % 8)
			if same(key, &e) {
				t.Errorf("%+v: got the same as %q, want another", e, key[:n])
			}
		}
	})
}

func TestShapeHoldsWhatItIsMadeOf(t *testing.T) {
	e := schemas.Entry{
		Kind: strings.Repeat("k", schemas.MaxCallerKind), ID: strings.Repeat("i", schemas.MaxCallerID),
		Resource: strings.Repeat("r", schemas.MaxResource), Status: 65535, Blocked: true, Response: true,
	}
	s := shapeOf(&e, true)
	if s.kind() != len(e.Kind) || s.id() != len(e.ID) || s.resource() != len(e.Resource) || s.status() != e.Status {
		t.Errorf("got %x, want what it was made of", s)
	}
	if all := flagBlocked | flagResponse | flagAddr; s&all != all || shapeOf(&schemas.Entry{Status: 65535}, false)&all != 0 {
		t.Errorf("got flags %x, want all three, and none of an entry without", s&all)
	}
}
