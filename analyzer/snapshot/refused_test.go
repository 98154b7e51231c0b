package snapshot

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func (l stateLog) refuse(epoch uint64, since int64, offsets ...int64) {
	l.t.Helper()
	l.add(refusedRecord(epoch, since, offsets))
}

// read returns the list that the whole topic holds.
func (l stateLog) refused() *Refused {
	l.t.Helper()
	start, end, err := l.reader().Range(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	list, err := l.reader().Refused(l.t.Context(), start, end)
	if err != nil {
		l.t.Fatal(err)
	}
	return list
}

// TestTheListOfRefusals is what owners wrote while they had the partition, and complete from where the newest word says.
func TestTheListOfRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		write func(l stateLog)
		since int64
		want  []int64
	}{
		"nothing":        {func(stateLog) {}, UnknownSince, nil},
		"one owner":      {func(l stateLog) { l.refuse(6, 0, 3, 9); l.refuse(6, 0, 12) }, 0, []int64{3, 9, 12}},
		"sent twice":     {func(l stateLog) { l.refuse(6, 0, 3); l.refuse(6, 0, 3) }, 0, []int64{3}},
		"taken over":     {func(l stateLog) { l.refuse(6, 0, 3); l.refuse(7, UnknownSince); l.refuse(6, 0, 5) }, 0, []int64{3}},
		"and goes on":    {func(l stateLog) { l.refuse(6, 0, 3); l.refuse(7, UnknownSince); l.refuse(7, 2, 8) }, 2, []int64{3, 8}},
		"a zombie's row": {func(l stateLog) { l.row(9, 1, 5, "a"); l.refuse(8, 0, 3) }, UnknownSince, nil},
		"a begin":        {func(l stateLog) { l.begin(9, 1, 5, 0, 1); l.refuse(8, 0, 3); l.refuse(9, 1, 4) }, 1, []int64{4}},
		"noise":          {func(l stateLog) { l.refuse(6, 0, 3); l.raw([]byte("\xff noise")); l.refuse(6, 0, 4) }, 0, []int64{3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newStateLog(t)
			c.write(l)
			list := l.refused()
			if got := list.List.Within(0, math.MaxInt64); !slices.Equal(got, c.want) || list.Since != c.since {
				t.Errorf("got %v since %d, want %v since %d", got, list.Since, c.want, c.since)
			}
		})
	}
}

// TestASnapshotHoldsTheListToo: its rows say which messages were refused before it began, and since when that is complete.
func TestASnapshotHoldsTheListToo(t *testing.T) {
	f := fold.New(foldtest.Rules(t, "{name: r, callers: key, limit: 3, window: 1m}"), fold.Options{})
	f.Refusals().JudgedSince(2, 4)
	f.Refusals().Add(5, 6)
	f.Refusals().Add(8, 6)
	l := newStateLog(t)
	for _, row := range f.TakeDirty() {
		l.add(&pb.StateRecord{Record: &pb.StateRecord_Row{Row: &pb.StateRow{Epoch: 6, Cycle: 1, Next: 10, Key: row.Key, Value: row.Value}}})
	}
	list := l.refused()
	if got := list.List.Within(0, math.MaxInt64); !slices.Equal(got, []int64{5, 8}) || list.Since != 2 || list.Doubt() != 4 {
		t.Errorf("got %v since %d, in doubt before %d, want 5 and 8 since 2, in doubt before 4", got, list.Since, list.Doubt())
	}
}

// TestAListThatCannotBeReadIsNotHalfBelieved: an owner that took the rest for complete would count what was refused.
func TestAListThatCannotBeReadIsNotHalfBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLog(t)
		l.refuse(6, 0, 3)
		l.refuse(6, 0, 4)
		l.Corrupt("state", 0, kafkaiotest.Corruption{From: 1, To: 1})
		l.refuse(6, 0, 5)
		list := l.refused()
		if got := list.List.Within(0, math.MaxInt64); len(got) != 0 || list.Since != UnknownSince {
			t.Errorf("got %v since %d, want none, and nothing said", got, list.Since)
		}
	})
}

// TestMoreRefusalsThanARecordHolds are written in several records, of which the last one's offset is returned.
func TestMoreRefusalsThanARecordHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLog(t)
		w := NewWriter(l.Kafka, WriterConfig{Topic: "state"})
		w.SetEpoch(6, 0)
		if base, err := w.WriteRefused(t.Context(), UnknownSince, nil); err != nil || base != 0 {
			t.Errorf("no refusals: got %d and %v, want one record, at 0", base, err)
		}
		var offsets []int64
		for i := range int64(2*pb.MaxStateRefused + 1) {
			offsets = append(offsets, 2*i)
		}
		base, err := w.WriteRefused(t.Context(), 1, offsets)
		if err != nil || base != 3 {
			t.Errorf("got %d and %v, want the last of three records, at 3", base, err)
		}
		list := l.refused()
		if got := list.List.Within(0, math.MaxInt64); !slices.Equal(got, offsets) || list.Since != 1 || list.Epoch != 6 {
			t.Errorf("got %d since %d of epoch %d, want %d since 1 of epoch 6", len(got), list.Since, list.Epoch, len(offsets))
		}
	})
}
