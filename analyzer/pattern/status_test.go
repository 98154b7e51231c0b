package pattern

import "testing"

func TestStatusRange(t *testing.T) {
	ranges := []StatusRange{{401, 401}, {500, 599}}
	for status, want := range map[uint16]bool{0: false, 400: false, 401: true, 402: false, 499: false, 500: true, 599: true, 600: false, 65535: false} {
		if got := AnyStatus(ranges, status); got != want {
			t.Errorf("%d in %v: got %t, want %t", status, ranges, got, want)
		}
	}
	if AnyStatus(nil, 200) {
		t.Error("no range at all contains 200")
	}
}
