package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// known returns what a reader knows after records that are written as "place EPOCH FROM FIRST NEXT", "begin EPOCH OFFSET CONTROL" or
// "row EPOCH".
func known(t *testing.T, records ...string) string {
	t.Helper()
	var p Places
	for _, text := range records {
		var kind string
		var epoch uint64
		var a, b, c int64
		_, _ = fmt.Sscan(text, &kind, &epoch, &a, &b, &c)
		rec := &pb.StateRecord{}
		switch kind {
		case "place":
			rec.Record = &pb.StateRecord_Control{Control: &pb.StateControl{Epoch: epoch, From: a, First: b, Next: c}}
		case "begin":
			rec.Record = &pb.StateRecord_Begin{Begin: &pb.StateBegin{Epoch: epoch, Offset: a, Control: b}}
		case "row":
			rec.Record = &pb.StateRecord_Row{Row: &pb.StateRow{Epoch: epoch}}
		default:
			t.Fatalf("got record %q", text)
		}
		p.take(rec)
	}
	var list []string
	for _, place := range p.List {
		list = append(list, fmt.Sprintf("%d:%d-%d", place.From, place.First, place.Next))
	}
	return strings.Join(list, " ")
}

func TestPlacesOfReplacedOwnersDoNotCount(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string
		want    string
	}{
		{"in order", []string{"place 1 100 0 2", "place 1 120 3 4"}, "100:0-2 120:3-4"},
		{"a copy", []string{"place 1 100 0 2", "place 1 120 3 4", "place 1 100 0 2"}, "100:0-2 120:3-4"},
		{"noted again by the next owner", []string{"place 1 100 0 2", "place 2 0 0 0", "place 2 100 0 2"}, "100:0-2"},
		{"after the mark of the next owner", []string{"place 1 100 0 2", "place 2 0 0 0", "place 1 130 2 3"}, "100:0-2"},
		{"before that mark", []string{"place 1 100 0 2", "place 1 130 2 3", "place 2 0 0 0"}, "100:0-2 130:2-3"},
		{"after any record of the next owner", []string{"row 2", "place 1 130 2 3"}, ""},
		{"applied elsewhere by the next owner", []string{"place 1 100 5 6", "place 2 0 0 0", "place 2 120 5 6"}, "120:5-6"},
		{"not applied by the next owner", []string{"place 1 100 5 6", "begin 2 130 5"}, ""},
		{"applied before the next cycle", []string{"place 1 100 5 6", "begin 1 130 6"}, "100:5-6"},
		{"a topic that was made anew", []string{"place 1 100 5 6", "place 1 140 0 3"}, "140:0-3"},
	} {
		if got := known(t, c.records...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestACycleSaysWhereTheLastRecordsWereApplied(t *testing.T) {
	place := schemas.ControlPlace{From: 90, First: 3, Next: 5}
	piece := Piece{Begin: &pb.StateBegin{Offset: 100, Control: 7, Place: PlaceRecord(place)}, Control: 7, Places: []schemas.ControlPlace{place}}
	var p Places
	for _, rec := range piece.records(4, 1) {
		value, err := pb.AppendState(nil, rec)
		if err != nil {
			t.Fatal(err)
		}
		if rec, err = pb.DecodeState(value); err != nil {
			t.Fatal(err)
		}
		p.take(rec)
	}
	if len(p.List) != 1 || p.List[0] != place || p.Epoch != 4 {
		t.Errorf("got %+v, want the place that the cycle says, once", p)
	}
}

// Of rows at one offset of requests, those as of an earlier control record come first; a copy that comes late does not count.
func TestRowsFollowEachOtherByControlToo(t *testing.T) {
	last := asOf{100, 5}
	for i, c := range []struct {
		next, control int64
		want          bool
	}{{100, 5, true}, {100, 6, true}, {100, 5, false}, {101, 5, true}, {100, 9, false}, {101, 5, true}} {
		if got := last.reach(&pb.StateRow{Next: c.next, Control: c.control}); got != c.want {
			t.Errorf("row %d: got %v, want %v", i, got, c.want)
		}
	}
}

func TestPlacesThatCannotBeReadAreNone(t *testing.T) {
	log := kafkaiotest.New()
	log.Create(1, "state")
	w := NewWriter(log, WriterConfig{Topic: "state"})
	w.SetEpoch(3, 0)
	end, err := w.Mark(t.Context())
	if err != nil || end != 1 {
		t.Fatalf("mark: got %d, %v, want it at offset 0", end, err)
	}
	log.Append("state", 0, kafkaio.Message{Value: []byte("garbage")})
	r := NewReader(log, "state", 0, kafkaio.Temporary, nil)
	if p, err := r.Places(t.Context(), 0, 2); err != nil || len(p.List) != 0 || p.Epoch != 3 {
		t.Errorf("got %+v, %v, want the mark's epoch and no place", p, err)
	}
	if p, err := r.Places(t.Context(), 0, 9); err != nil || p.Epoch != 0 {
		t.Errorf("of a log that is shorter: got %+v, %v, want nothing", p, err)
	}
}
