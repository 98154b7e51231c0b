package pb

import (
	"reflect"
	"testing"
)

// Whatever decodes is within bounds, and encodes to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, r := range records() {
		f.Add(encode(f, r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Decode(b)
		if err != nil {
			if Reason(err) == "other" || got != (Record{}) {
				t.Fatalf("got %+v and %v", got, err)
			}
			return
		}
		if d := got.Decision; d != nil {
			if d.Caller.Validate() != nil || d.Mode.String() == "unknown" || clampUntil(d.CloseAt, d.Until) != d.Until {
				t.Fatalf("out of bounds: %+v", d)
			}
		}
		again, err := Decode(encode(t, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("got %+v, %v, want %+v", again, err, got)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := encode(b, Record{Decision: newDecision()})
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
