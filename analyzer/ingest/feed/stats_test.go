package feed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// TestTheNumbersAddUp: lines are entries, rejects or dropped, whatever they are.
func TestTheNumbersAddUp(t *testing.T) {
	b := newBroker()
	c := config(t, b)
	format, err := ingest.ParseMapping("test", []byte(`
version: 1
format: json
callers: {key: "{k}"}
drop: [{fields: {k: "health*"}}]
`), "", schemas.IDs{})
	if err != nil {
		t.Fatal(err)
	}
	c.Format = format
	log := `{"time":1,"k":"a"}
{"time":1,"k":"health-check"}

{"time":"soon","k":"a"}
nonsense
{"time":2,"k":"a"}
`
	s := run(t, c, func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		return errors.Join(s.Text(ctx, []byte(log), 0, int64(len(log))), s.Close())
	})
	rejected := uint64(0)
	for _, n := range s.Rejected {
		rejected += n
	}
	if s.Lines != 6 || s.Dropped != 1 || rejected != 3 || s.Entries != 4 || s.Frames != 1 || s.Bytes == 0 || s.Retries != 0 {
		t.Errorf("got %+v", s)
	}
	if got := fmt.Sprint(s.Rejected); got != "map[bad json:1 bad time:1 empty:1]" {
		t.Errorf("got %s", got)
	}
	if got := b.count(t); got["key:a"] != 2 || len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// TestFramesAreStamped with the time at which they are sent, which bounds that of their entries.
func TestFramesAreStamped(t *testing.T) {
	b := newBroker()
	c := config(t, b)
	now := time.Unix(1_700_000_000, 5)
	c.Now = func() time.Time { return now }
	run(t, c, func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		return errors.Join(s.Text(ctx, []byte(`{"time":1,"k":{"id":"a"}}`), 0, 26), s.Close())
	})
	for _, frames := range b.requests() {
		var f schemas.Frame
		if err := f.Decode(frames[0]); err != nil || f.Flushed != now.UnixNano() || f.Entries[0].Time != 1e9 {
			t.Errorf("got %+v, %v", f, err)
		}
	}
}

// TestSourcesOfOneNameAreOneLine: a log and those that were renamed are read at once, and a metric has one value for each name.
func TestSourcesOfOneNameAreOneLine(t *testing.T) {
	b := newBroker()
	var sources []SourceStats
	run(t, config(t, b), func(_ context.Context, f *Feed) error {
		old, now := f.Source(schemas.ProducerID{1}, "file:x", 100), f.Source(schemas.ProducerID{2}, "file:x", 7)
		old.End(103)
		now.End(9)
		sources = f.Stats().Sources
		return errors.Join(old.Close(), now.Close())
	})
	if got := fmt.Sprintf("%+v", sources); got != "[{Name:file:x Acked:7 Lag:5}]" {
		t.Errorf("got %s, want the position of the newest, and the lag of both", got)
	}
}
