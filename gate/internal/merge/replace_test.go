package merge

import (
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

func TestReplaceDropsTheSmallAndKeepsTheFlood(t *testing.T) {
	tb := New(16)
	for i := range cap(tb.entries) {
		add(t, tb, request(fmt.Sprint("once", i), 0))
	}
	put := func(e *schemas.Entry) uint64 {
		if tb.Add(hashOf(e), e) {
			return 0
		}
		return tb.Replace(hashOf(e), e)
	}
	var dropped uint64
	for i := range 1000 {
		dropped += put(request("flood", 0))
		dropped += put(request(fmt.Sprint("also once", i), 0))
	}
	check(t, tb)
	if got, want := tb.Requests()+dropped, uint64(cap(tb.entries)+2000); got != want {
		t.Errorf("got %d requests held and dropped, want %d", got, want)
	}
	for _, e := range all(tb) {
		if e.ID == "flood" {
			if e.Count < 990 {
				t.Errorf("got %d requests of the flood, want nearly 1000", e.Count)
			}
			return
		}
	}
	t.Error("the flood was dropped")
}

func TestReplaceNeverDropsMoreThanItKeeps(t *testing.T) {
	tb := New(16)
	for i := range cap(tb.entries) {
		e := request(fmt.Sprint(i), 0)
		e.Count = 5
		add(t, tb, e)
	}
	e := request("small", 0)
	if got := tb.Replace(hashOf(e), e); got != 1 {
		t.Errorf("got %d dropped, want the newcomer's single request", got)
	}
	e.Count = 6
	if got := tb.Replace(hashOf(e), e); got != 5 {
		t.Errorf("got %d dropped, want the 5 of a smaller entry", got)
	}
	check(t, tb)
}
