package gate

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// TestWhereThereIsRoomTheLargestFits: a caller with as many closures as there may be, the longest id or the longest text of an
// address, and terms and a share of its own. The writer asks for room once for all of them.
func TestWhereThereIsRoomTheLargestFits(t *testing.T) {
	id, addr := strings.Repeat("x", schemas.MaxCallerID), strings.Repeat("f", maxAddrText)
	largest := []subject{{key: id, id: id}, {tag: addrTag, key: addr[:16], id: addr}}
	a, rooms := arena{chunks: make([]*chunk, 1)}, 0
	a.alloc(granule)
	for free := chunkSize - 2*maxClosedCaller&^(granule-1); free <= chunkSize; free += granule {
		for _, caller := range largest {
			if a.free = free; !a.room() {
				continue
			}
			rooms++
			a.putTerms(terms{rule: strings.Repeat("r", maxRule)})
			a.putShare(share{})
			a.putCaller(caller, make([]closure, maxClosures)) // panics if it does not fit
		}
	}
	if new(arena).room() {
		t.Error("got room in an arena without chunks")
	}
	if rooms == 0 {
		t.Errorf("got no room, want it where twice as much is free as a caller takes")
	}
}
