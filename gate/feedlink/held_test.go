package feedlink

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// TestWhatIsBlockedEarlyBehindAFeed: a closure comes early, is held then, and is counted at last; all have the same times. The server
// says of each request what it would say with a link to Kafka.
func TestWhatIsBlockedEarlyBehindAFeed(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.serve(gate.Options{}, Config{})
		w.owner.beat()
		pass(2 * time.Second)
		began := time.Now()
		for _, kind := range []struct{ early, held bool }{{true, false}, {true, true}, {false, false}, {true, true}} {
			w.owner.seq++
			w.owner.write(pb.AppendDecision(nil, &schemas.Decision{
				Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "k"}, Mode: schemas.ModeEnforce, Epoch: w.owner.epoch, Seq: w.owner.seq,
				CloseAt: began.UnixNano(), Until: began.Add(9 * time.Second).UnixNano(), Early: kind.early, Held: kind.held,
			}))
			w.owner.beat()
			pass(time.Second)
			if !w.request("k") {
				t.Errorf("%+v: got open, want closed", kind)
			}
			pass(time.Second)
		}
		var got []string
		for _, r := range w.kafka.Records(requests, 0) {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				t.Fatal(err)
			}
			for _, e := range f.Entries {
				got = append(got, fmt.Sprintf("%d blocked %v, early %v", e.Count, e.Blocked, e.Early))
			}
		}
		if want := []string{"1 blocked true, early true", "1 blocked true, early false", "1 blocked true, early false", "1 blocked true, early false"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
