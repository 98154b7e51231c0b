package pb

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// stateRecords is one record of each kind, and the extremes of them.
func stateRecords() map[string]*StateRecord {
	id := []byte("sixteen bytes id")
	return map[string]*StateRecord{
		"begin": {Record: &StateRecord_Begin{Begin: &StateBegin{
			Epoch: 7, Cycle: 3, Offset: 100, Parts: 2, Part: 1, RulesId: math.MaxUint64, RulesFrom: 9, LogTime: math.MinInt64,
			TailOffset: 99, TailCrc: math.MaxUint32, Placed: 12, PlacedEpoch: math.MaxUint64, Rules: []byte("version: 1\n"), Format: 2, Since: "v0.2.0",
			Dedupe: []*DedupeRow{
				{Producer: id, Last: 5, Seen: &DedupeRow_Frames{Frames: &SeenFrames{Seq: math.MaxUint64, Below: math.MaxUint64}}},
				{Producer: id, Last: -5, Seen: &DedupeRow_Lines{Lines: &SeenLines{Offset: -1}}},
			},
		}}},
		"the first begin":   {Record: &StateRecord_Begin{Begin: &StateBegin{Parts: 1}}},
		"row":               {Record: &StateRecord_Row{Row: &StateRow{Epoch: 7, Cycle: 3, Next: 101, Key: []byte("wr\x00key:a"), Value: []byte{1}, Placed: math.MaxInt64}}},
		"a row that went":   {Record: &StateRecord_Row{Row: &StateRow{Next: math.MaxInt64, Key: []byte{0}}}},
		"end":               {Record: &StateRecord_End{End: &StateEnd{Epoch: 7, Cycle: 3, Rows: 2, From: 12, TailOffset: 99, TailCrc: math.MaxUint32}}},
		"an end of nothing": {Record: &StateRecord_End{End: &StateEnd{}}},
	}
}

func TestStateRecordsRoundTrip(t *testing.T) {
	for name, r := range stateRecords() {
		t.Run(name, func(t *testing.T) {
			b, err := AppendState([]byte("before"), r)
			if err != nil || string(b[:6]) != "before" {
				t.Fatalf("got %q and %v", b, err)
			}
			got, err := DecodeState(b[6:])
			if err != nil || !proto.Equal(got, r) {
				t.Errorf("got %v and %v, want %v", got, err, r)
			}
		})
	}
}

func TestStateRecordsThatAreRefused(t *testing.T) {
	begin := func(b *StateBegin) *StateRecord { return &StateRecord{Record: &StateRecord_Begin{Begin: b}} }
	sender := func(d *DedupeRow) *StateRecord { return begin(&StateBegin{Parts: 1, Dedupe: []*DedupeRow{d}}) }
	tests := map[string]struct {
		record *StateRecord
		want   error
	}{
		"nothing":                    {&StateRecord{}, ErrUnknown},
		"a begin without parts":      {begin(&StateBegin{}), ErrBounds},
		"a part beyond the last":     {begin(&StateBegin{Part: 1, Parts: 1}), ErrBounds},
		"four billion parts":         {begin(&StateBegin{Parts: math.MaxUint32}), ErrBounds},
		"a begin before the log":     {begin(&StateBegin{Parts: 1, Offset: -1}), ErrBounds},
		"a release with a long name": {begin(&StateBegin{Parts: 1, Since: strings.Repeat("v", maxSince+1)}), ErrBounds},
		"rules that fit no message":  {begin(&StateBegin{Parts: 1, Rules: make([]byte, MaxStateRules+1)}), ErrBounds},
		"rules before the log":       {begin(&StateBegin{Parts: 1, RulesFrom: -1}), ErrBounds},
		"a tail before the log":      {begin(&StateBegin{Parts: 1, TailOffset: math.MinInt64}), ErrBounds},
		"a sender without id":        {sender(&DedupeRow{Seen: &DedupeRow_Lines{Lines: &SeenLines{}}}), ErrBounds},
		"a sender with half an id":   {sender(&DedupeRow{Producer: make([]byte, 8), Seen: &DedupeRow_Lines{Lines: &SeenLines{}}}), ErrBounds},
		"a sender that sent nothing": {sender(&DedupeRow{Producer: make([]byte, 16)}), ErrMalformed},
		"a row without key":          {&StateRecord{Record: &StateRecord_Row{Row: &StateRow{}}}, ErrBounds},
		"a row before the log":       {&StateRecord{Record: &StateRecord_Row{Row: &StateRow{Key: []byte{1}, Next: -1}}}, ErrBounds},
		"an end of fewer than none":  {&StateRecord{Record: &StateRecord_End{End: &StateEnd{Rows: -1}}}, ErrBounds},
		"an end from nowhere":        {&StateRecord{Record: &StateRecord_End{End: &StateEnd{From: -1}}}, ErrBounds},
		"a last tail before the log": {&StateRecord{Record: &StateRecord_End{End: &StateEnd{TailOffset: -1}}}, ErrBounds},
		"a begin before its place":   {begin(&StateBegin{Parts: 1, Placed: -1}), ErrBounds},
		"a row before its place":     {&StateRecord{Record: &StateRecord_Row{Row: &StateRow{Key: []byte{1}, Placed: -1}}}, ErrBounds},
		"a row that fits no message": {&StateRecord{Record: &StateRecord_Row{Row: &StateRow{Key: []byte{1}, Value: make([]byte, MaxState)}}}, ErrBounds},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if b, err := AppendState(nil, test.record); !errors.Is(err, test.want) || b != nil {
				t.Errorf("append: got %d bytes and %v, want %v", len(b), err, test.want)
			}
			b, err := proto.Marshal(test.record)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := DecodeState(b); !errors.Is(err, test.want) || got != nil {
				t.Errorf("decode: got %v and %v, want %v", got, err, test.want)
			}
		})
	}
	if _, err := DecodeState([]byte(strings.Repeat("\xff", 100))); !errors.Is(err, ErrMalformed) {
		t.Errorf("noise: got %v, want %v", err, ErrMalformed)
	}
}

// Whatever decodes encodes to something that decodes to the same, and nothing else has a reason but a known one.
func FuzzDecodeState(f *testing.F) {
	for _, r := range stateRecords() {
		b, err := AppendState(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeState(b)
		if err != nil {
			if Reason(err) == "other" || got != nil {
				t.Fatalf("got %v and %v", got, err)
			}
			return
		}
		bytes, err := AppendState(nil, got)
		if err != nil {
			t.Fatalf("append what was decoded: %v", err)
		}
		again, err := DecodeState(bytes)
		if err != nil || !proto.Equal(again, got) {
			t.Fatalf("got %v, %v, want %v", again, err, got)
		}
	})
}
