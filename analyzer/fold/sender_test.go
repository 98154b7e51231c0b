package fold

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// TestSendersRoundTrip: what a snapshot says of a sender makes the same row of the dedupe table.
func TestSendersRoundTrip(t *testing.T) {
	for name, s := range map[string]struct {
		id   senderID
		seen sender
		want Sender
	}{
		"a first frame":     {senderID{}, sender{highestSeq: 1, bitmap: 1, last: 5}, Sender{Seq: 1, Last: 5}},
		"all frames":        {senderID{}, sender{highestSeq: 1 << 63, bitmap: ^uint64(0), last: -5}, Sender{Seq: 1 << 63, Below: 1<<63 - 1, Last: -5}},
		"a gap of 62":       {senderID{}, sender{highestSeq: 64, bitmap: 1<<63 | 1}, Sender{Seq: 64, Below: 1 << 62}},
		"the last line":     {senderID{source: true}, sender{highestSeq: 1<<63 - 1, bitmap: 1}, Sender{Source: true, Offset: 1<<63 - 1}},
		"line 0":            {senderID{source: true}, sender{bitmap: 1}, Sender{Source: true}},
		"no line":           {senderID{source: true}, sender{}, Sender{Source: true, Offset: -1}},
		"a source long ago": {senderID{source: true}, sender{highestSeq: 7, bitmap: 1, last: -9}, Sender{Source: true, Offset: 7, Last: -9}},
	} {
		t.Run(name, func(t *testing.T) {
			s.id.id, s.want.ID = schemas.ProducerID{7}, schemas.ProducerID{7}
			x := s.seen.export(s.id)
			if x != s.want {
				t.Errorf("exported: got %+v, want %+v", x, s.want)
			}
			f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 3, window: 1m}"), Options{})
			f.RestoreSender(&x)
			got := *f.dedupe.rows[s.id]
			if got.highestSeq != s.seen.highestSeq || got.bitmap != s.seen.bitmap || got.last != s.seen.last {
				t.Errorf("restored: got %+v, want %+v", got, s.seen)
			}
			if dirty := f.TakeDirty(); len(dirty) != 1 {
				t.Errorf("got %d rows to commit, want 1", len(dirty))
			}
		})
	}
}

func TestASenderExpires(t *testing.T) {
	s := sender{highestSeq: 9, bitmap: 1, last: foldtest.Now}
	key, value := senderID{}.key(), s.value()
	for after, want := range map[int64]bool{0: false, int64(dedupeGrace): false, int64(dedupeGrace) + 1: true} {
		if got, err := SenderExpired(key, value, foldtest.Now+after); err != nil || got != want {
			t.Errorf("after %d ns: got %v, %v, want %v", after, got, err, want)
		}
	}
	if _, err := SenderExpired(key, value[:2], foldtest.Now); err == nil {
		t.Error("half a row: got no error, want one")
	}
}
