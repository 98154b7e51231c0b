package snapshot

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

func TestSendersInASnapshotRoundTrip(t *testing.T) {
	for _, s := range []fold.Sender{
		{ID: schemas.ProducerID{1}, Seq: 1, Last: 5},
		{ID: schemas.ProducerID{2}, Seq: 1 << 63, Below: 1<<63 - 1, Last: -5},
		{ID: schemas.ProducerID{3}, Seq: 64, Below: 1 << 62},
		{ID: schemas.ProducerID{4}, Source: true, Offset: 1<<63 - 1},
		{ID: schemas.ProducerID{5}, Source: true},
		{ID: schemas.ProducerID{6}, Source: true, Offset: -1},
	} {
		if got := decodeSender(encodeSender(&s)); got != s {
			t.Errorf("got %+v, want %+v", got, s)
		}
	}
}
