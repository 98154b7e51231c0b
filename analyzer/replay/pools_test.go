package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// pooledLog is a log of seconds. In each, four quiet callers make 200 requests each; from second 20 to 40 a noisy one makes 3,000.
func pooledLog(seconds int) string {
	var b strings.Builder
	for s := range seconds {
		for n := range 3000 {
			at := float64(s) + float64(n)/3000
			if n%15 == 0 {
				for quiet := range 4 {
					b.WriteString(jsonLine(at, fmt.Sprintf("192.0.2.%d", quiet), ""))
				}
			}
			if s >= 20 && s < 40 {
				b.WriteString(jsonLine(at, "198.51.100.1", ""))
			}
		}
	}
	return b.String()
}

// TestReplaySaysWhatAPoolWouldHaveDone, also in mode shadow, and beside a static limit.
func TestReplaySaysWhatAPoolWouldHaveDone(t *testing.T) {
	log := pooledLog(50)
	for mode, blocks := range map[string]bool{"enforce": true, "shadow": false} {
		got := runAs(t, Config{Format: jsonFormat(t), Rules: rule(t, "capacity: 1000, window: 1s, mode: "+mode), Inputs: text(log)}).summary
		if len(got.Pools) != 1 {
			t.Fatalf("%s: got %+v, want one pool", mode, got.Pools)
		}
		p := got.Pools[0]
		if p.Capacity != 1000 || p.Contended != 20 || p.Limited != 1 || p.Asked < 3.79 || p.Asked > 3.81 || p.Used < 0.98 || p.Used > 1.12 || p.Most > 3.8 {
			t.Errorf("%s: got %+v, want one caller limited for 20 s, 3.8 asked for, and about 1 admitted", mode, p)
		}
		if p.Refused < 19*2800*9/10 || (got.Blocked == p.Refused) != blocks || (got.ShadowBlocked == p.Refused) == blocks {
			t.Errorf("%s: got %+v and %+v, want what the pool refused to be what was blocked", mode, p, got)
		}
		if p.Static != 200 || p.StaticRefused != 0 {
			t.Errorf("%s: got %+v, want 200 for each as the best static limit", mode, p)
		}
	}
}

// TestAPoolThatNobodyFillsLimitsNobody in a replay.
func TestAPoolThatNobodyFillsLimitsNobody(t *testing.T) {
	got := runAs(t, Config{Format: jsonFormat(t), Rules: rule(t, "capacity: 1000, window: 1s"), Inputs: text(pooledLog(10))}).summary
	if want := (Pool{Rule: got.Pools[0].Rule, Capacity: 1000}); len(got.Pools) != 1 || got.Pools[0] != want || got.Closes != 0 {
		t.Errorf("got %+v and %d closes, want %+v and none", got.Pools, got.Closes, want)
	}
}

// TestAStaticLimitRefusesInQuietHours: a caller that asks for much while there is room for it.
func TestAStaticLimitRefusesInQuietHours(t *testing.T) {
	x := NewPooled(rule(t, "capacity: 100, window: 1s").Rules[0])
	ask := func(second int64, id string, n int) {
		for range n {
			x.Ask(&schemas.Entry{Time: second * int64(time.Second), Kind: "ip", ID: id, Count: 1}, false, false)
		}
	}
	ask(0, "heavy", 90) // there is room
	for n := range 10 { // ten callers contend: 10 each
		ask(1, fmt.Sprint(n), 20)
	}
	if got := x.Result(); got.Static != 10 || got.StaticRefused != 80 || got.Contended != 1 {
		t.Errorf("got %+v, want a limit of 10, which refuses 80 requests for nothing", got)
	}
}

// TestCallersOfAPoolAreApart: what each caller asked for is right, though the id of an entry is borrowed from a line that changes.
func TestCallersOfAPoolAreApart(t *testing.T) {
	x, id := NewPooled(rule(t, "callers: key, capacity: 1000, window: 10s").Rules[0]), []byte("a")
	for range 3 {
		for _, id[0] = range []byte("abc") {
			x.Ask(&schemas.Entry{Time: 1, Kind: "key", ID: unsafe.String(&id[0], 1), Count: 1}, false, false)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		if n := x.asked[id]; len(x.asked) != 3 || n == nil || *n != 3 {
			t.Errorf("got %d callers, and %v of %s, want 3 of each of 3", len(x.asked), n, id)
		}
	}
}
