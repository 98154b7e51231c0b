package rows

import (
	"fmt"
	"testing"
)

func TestSum(t *testing.T) {
	seen := make(map[uint64]string)
	for _, row := range [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"b", "a"}} {
		sum := Sum([]byte(row[0]), []byte(row[1]))
		if other, ok := seen[sum]; ok || sum == 0 {
			t.Errorf("sum of %q is %#x, as that of %q", row, sum, other)
		}
		seen[sum] = fmt.Sprint(row)
	}
	if got, want := Sum([]byte("key"), []byte("value")), uint64(0x7b572dc2312ae10d); got != want {
		t.Errorf("got %#x, want %#x as it is on disks out there", got, want)
	}
	key, value := []byte("ip:203.0.113.9"), []byte("some window of a few numbers")
	if n := testing.AllocsPerRun(100, func() { Sum(key, value) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
