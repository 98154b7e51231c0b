package schemas

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
)

func secretOf(b byte) []byte { return bytes.Repeat([]byte{b}, MinIDSecret) }

func TestAnIDHasherHasBounds(t *testing.T) {
	for _, test := range []struct {
		name    string
		kinds   []string
		secrets [][]byte
		want    string // "" is none
	}{
		{"one secret", []string{"key"}, [][]byte{secretOf('a')}, ""},
		{"two secrets", []string{"key", "user_ip"}, [][]byte{secretOf('a'), secretOf('b')}, ""},
		{"the longest", []string{"key"}, [][]byte{bytes.Repeat([]byte("s"), MaxIDSecret)}, ""},
		{"no kinds", nil, [][]byte{secretOf('a')}, "no kinds"},
		{"no secret", []string{"key"}, nil, "got 0 secrets"},
		{"three secrets", []string{"key"}, [][]byte{secretOf('a'), secretOf('b'), secretOf('c')}, "got 3 secrets"},
		{"the same twice", []string{"key"}, [][]byte{secretOf('a'), secretOf('a')}, "one secret twice"},
		{"too short", []string{"key"}, [][]byte{secretOf('a'), secretOf('b')[1:]}, "secret 2: got 31 bytes"},
		{"too long", []string{"key"}, [][]byte{bytes.Repeat([]byte("s"), MaxIDSecret+1)}, "secret 1: got 1025 bytes"},
		{"addresses", []string{"key", "ip"}, [][]byte{secretOf('a')}, "kind ip"},
		{"canaries", []string{KindCanary}, [][]byte{secretOf('a')}, "floodgate's own"},
		{"a kind that is none", []string{"API key"}, [][]byte{secretOf('a')}, "bad caller kind"},
	} {
		_, err := NewIDHasher(test.kinds, test.secrets...)
		if test.want == "" && err == nil {
			continue
		}
		if test.want == "" || !errors.Is(err, ErrIDs) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
		for _, s := range test.secrets {
			if err != nil && strings.Contains(err.Error(), string(s)) {
				t.Errorf("%s: the error holds the secret: %v", test.name, err)
			}
		}
	}
}

func TestAnIDIsHashedUnderBothSecrets(t *testing.T) {
	a, errA := NewIDHasher([]string{"key"}, secretOf('a'))
	b, errB := NewIDHasher([]string{"key"}, secretOf('b'))
	both, errBoth := NewIDHasher([]string{"key", "user"}, secretOf('b'), secretOf('a'))
	if err := errors.Join(errA, errB, errBoth); err != nil {
		t.Fatal(err)
	}
	const id = "sk_live_1234"
	x, y := a.Kind("key").ID(id), b.Kind("key").ID(id)
	if x == y || both.Kind("key").ID(id) != y || both.Kind("key").Other(id) != x || a.Kind("key").Other(id) != "" {
		t.Errorf("got %q and %q, and %q and %q of both", x, y, both.Kind("key").ID(id), both.Kind("key").Other(id))
	}
	if both.Kind("user").ID(id) == y || both.Kind("key").ID("") != "" || both.Kind("tenant") != nil || (*IDHasher)(nil).Kind("key") != nil {
		t.Error("a kind shares the hashes of another, or is hashed that should not be")
	}
	ids := IDs{Hash: both}
	for _, test := range []struct{ kind, id, want string }{
		{"key", id, y + " " + x}, {"key", x, x}, {"tenant", id, id}, {"tenant", strings.Repeat("t", 300), ID(strings.Repeat("t", 300))},
	} {
		if got := strings.Join(ids.Overridden(test.kind, test.id), " "); got != test.want {
			t.Errorf("%s:%s: got overrides for %s, want %s", test.kind, test.id, got, test.want)
		}
	}
	if got := ids.Caller(Caller{Kind: "key", ID: id}); got.ID != y {
		t.Errorf("got %v, want it counted under the first secret", got)
	}
	if got := ids.Caller(Caller{Kind: "key", ID: y}); got.ID == y || !Hashed(got.ID) {
		t.Errorf("got %v for who sends the form of another's id", got)
	}
	if got := (IDs{}).Caller(Caller{Kind: "key", ID: y}); got.ID == y {
		t.Errorf("a server without the secret: got %v for who sends the form of another's id", got)
	}
}

func TestManyGoroutinesHashAtOnce(t *testing.T) {
	h, err := NewIDHasher([]string{"key"}, secretOf('a'))
	if err != nil {
		t.Fatal(err)
	}
	k := h.Kind("key")
	ids := []string{"a", strings.Repeat("b", 100), strings.Repeat("c", 5000), "d"}
	want := make([]string, len(ids))
	for i, id := range ids {
		want[i] = k.ID(id)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2000 {
				if got := k.ID(ids[i%len(ids)]); got != want[i%len(ids)] {
					t.Errorf("got %q, want %q", got, want[i%len(ids)])
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkKindHasher(b *testing.B) {
	h, err := NewIDHasher([]string{"key"}, secretOf('a'))
	if err != nil {
		b.Fatal(err)
	}
	k := h.Kind("key")
	b.ReportAllocs()
	for b.Loop() {
		if k.ID("caller-000000000000001") == "" {
			b.Fatal("got no id")
		}
	}
}
