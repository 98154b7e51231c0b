package schemas

import (
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// idVector is one line of testdata/ids/vectors.json, for gates and producers in other languages. Bytes that are not UTF-8
// are in hexadecimal digits.
type idVector struct {
	Name      string `json:"name"`
	In        string `json:"in"`
	InHex     string `json:"in_hex"`
	Out       string `json:"out"`
	OutHex    string `json:"out_hex"`
	Separator string `json:"separator"`
	Prefix    int    `json:"ipv6_prefix"`
	Kind      string `json:"kind"`
	Secret    string `json:"secret"`
}

type idVectors struct {
	IDs       []idVector `json:"ids"`
	Parts     []idVector `json:"parts"`
	Addresses []idVector `json:"addresses"`
	Secrets   []idVector `json:"secrets"`
}

// readIDVectors returns the vectors with all bytes in In and Out. They were made by another program, in another language.
func readIDVectors(t testing.TB) (v idVectors) {
	t.Helper()
	data, err := os.ReadFile("../testdata/ids/vectors.json")
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]idVector{v.IDs, v.Parts, v.Addresses, v.Secrets} {
		if len(list) == 0 {
			t.Fatal("got an empty list of vectors")
		}
		for i := range list {
			for _, field := range []struct{ text, digits *string }{{&list[i].In, &list[i].InHex}, {&list[i].Out, &list[i].OutHex}} {
				b, err := hex.DecodeString(*field.digits)
				if err != nil {
					t.Fatal(err)
				}
				*field.text += string(b)
			}
		}
	}
	return v
}

func TestIDVectors(t *testing.T) {
	v := readIDVectors(t)
	for _, c := range v.IDs {
		if got := ID(c.In); got != c.Out {
			t.Errorf("%s: got %q, want %q", c.Name, got, c.Out)
		}
		if len(c.Out) > MaxCallerID {
			t.Errorf("%s: got %d bytes", c.Name, len(c.Out))
		}
	}
	for _, c := range v.Parts {
		if got := Part(c.In, c.Separator); got != c.Out {
			t.Errorf("%s: got %q, want %q", c.Name, got, c.Out)
		}
	}
	for _, c := range v.Secrets {
		h, err := NewIDHasher([]string{c.Kind}, []byte(c.Secret))
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Kind(c.Kind).ID(c.In); got != c.Out {
			t.Errorf("%s: got %q, want %q", c.Name, got, c.Out)
		}
	}
	for _, c := range v.Addresses {
		if got := (IDs{IPv6Prefix: c.Prefix}).Addr(netip.MustParseAddr(c.In)); got.String() != c.Out {
			t.Errorf("%s: got %s, want %s", c.Name, got, c.Out)
		}
	}
}

// An attacker who has read this sends the form of another's id. It is hashed again, as often as it is sent on.
func TestNobodyCanSendTheFormOfAnothersID(t *testing.T) {
	victim := strings.Repeat("v", 300)
	form := ID(victim)
	if !Hashed(form) || Hashed(victim) {
		t.Fatalf("got %q, want a form that is known", form)
	}
	seen := map[string]bool{form: true}
	for forged := form; len(seen) < 5; seen[forged] = true {
		if forged = ID(forged); seen[forged] || len(forged) > MaxCallerID {
			t.Fatalf("%q: got the id of another", forged)
		}
	}
	seen = map[string]bool{Part("a|b", "|"): true}
	for forged := Part("a|b", "|"); len(seen) < 5; seen[forged] = true {
		if forged = Part(forged, "|"); seen[forged] || strings.Contains(forged, "|") {
			t.Fatalf("%q: got the part of another", forged)
		}
	}
}

// FuzzPart: two composite ids are the same only if their parts are, whatever stands between them.
func FuzzPart(f *testing.F) {
	f.Add("a|b", "c", "a", "b|c", "|")
	f.Add("a:", "b", "a", ":b", "::")
	f.Add("xa", "b", "x", "ab", "aa")
	f.Add(Part("a|b", "|"), "c", "a|b", "c", "|")
	whole := Part("x0y", "0") + "0z"
	at := strings.IndexByte(whole, '0')
	f.Add("x0y", "z", whole[:at], whole[at+1:], "0") // a part that ends inside of the hash of another
	f.Fuzz(func(t *testing.T, a, b, c, d, separator string) {
		if separator == "" || a == "" || c == "" {
			return // there is no such caller
		}
		one, two := Part(a, separator)+separator+b, Part(c, separator)+separator+d
		if (one == two) != (a == c && b == d) {
			t.Errorf("%q and %q, %q and %q by %q: got %q and %q", a, b, c, d, separator, one, two)
		}
	})
}

// FuzzID: no two ids have one form, and every form is within bounds.
func FuzzID(f *testing.F) {
	long := strings.Repeat("é", 200)
	f.Add(long, ID(long))
	f.Add(ID(long), ID(ID(long)))
	f.Add("abc", "abd")
	keyed := "hmac:" + strings.Repeat("0a", 16)
	f.Add(keyed, ID(keyed))
	f.Add(keyed+"x", ID(keyed+"x"))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := ID(a), ID(b)
		if (x == y) != (a == b) || len(x) > MaxCallerID {
			t.Errorf("%q and %q: got %q and %q", a, b, x, y)
		}
		if len(a) <= MaxCallerID && !Hashed(a) && x != a {
			t.Errorf("%q: got %q, want it as it is", a, x)
		}
	})
}

func TestIDsThatStayAsTheyAreCostNothing(t *testing.T) {
	plain, most := "caller-000000000000001", strings.Repeat("k", MaxCallerID)
	if n := testing.AllocsPerRun(100, func() {
		if ID(plain) != plain || ID(most) != most || Part(plain, CompositeSeparator) != plain {
			t.Error("got another id")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkID(b *testing.B) {
	for name, id := range map[string]string{"22 bytes": "caller-000000000000001", "256 bytes": strings.Repeat("k", 256), "1000 bytes": strings.Repeat("k", 1000)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ID(id) == "" {
					b.Fatal("got no id")
				}
			}
		})
	}
}
