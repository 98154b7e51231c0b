package kafkaiotest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// model is a partition as a naive reader sees it: what each offset holds.
type model struct {
	start   int64
	offsets []string // from start on: a value, or the reason why there is none
}

func (m *model) end() int64 { return m.start + int64(len(m.offsets)) }

// step does one random thing to a partition and to its model.
func (m *model) step(rnd *rand.Rand, k *Kafka, n int) string {
	switch rnd.IntN(9) {
	case 0:
		to := m.start + rnd.Int64N(int64(len(m.offsets))+1)
		k.Trim("t", 0, to)
		m.offsets, m.start = m.offsets[to-m.start:], to
		return fmt.Sprint("trim to ", to)
	case 1:
		to := m.end() - rnd.Int64N(min(int64(len(m.offsets)), 3)+1)
		k.Cut("t", 0, to)
		m.offsets = m.offsets[:to-m.start]
		return fmt.Sprint("cut to ", to)
	case 2:
		reasons := []kafkaio.SkipReason{kafkaio.SkipCodec, kafkaio.SkipControl, kafkaio.SkipMalformed}
		size, reason := 1+rnd.Int64N(3), reasons[rnd.IntN(len(reasons))]
		k.Skip("t", 0, size, reason)
		for range size {
			m.offsets = append(m.offsets, string(reason))
		}
		return fmt.Sprint("skip ", size)
	case 3:
		return m.edit(rnd, k)
	case 4:
		if rnd.IntN(10) == 0 {
			k.Recreate("t")
			*m = model{}
			return "recreate"
		}
	}
	size := 1 + rnd.IntN(4)
	for i := range size {
		value := fmt.Sprint(n, ".", i)
		if base := k.Append("t", 0, kafkaio.Message{Value: []byte(value)}); base != m.end() {
			return fmt.Sprintf("append: got offset %d, want %d", base, m.end())
		}
		m.offsets = append(m.offsets, value)
	}
	return fmt.Sprint("append ", size)
}

// edit removes one record of a partition. An edit also forgets what was skipped: it becomes a gap.
func (m *model) edit(rnd *rand.Rand, k *Kafka) string {
	gone := int64(-1)
	k.Edit("t", 0, func(records []kafkaio.Record) []kafkaio.Record {
		if len(records) > 0 {
			i := rnd.IntN(len(records))
			gone = records[i].Offset
			records = slices.Delete(slices.Clone(records), i, i+1)
		}
		return records
	})
	for i, value := range m.offsets {
		if !strings.Contains(value, ".") || m.start+int64(i) == gone {
			m.offsets[i] = string(kafkaio.SkipGap)
		}
	}
	first := slices.IndexFunc(m.offsets, func(s string) bool { return strings.Contains(s, ".") })
	if first < 0 {
		*m = model{}
		return "edit to nothing"
	}
	m.start, m.offsets = m.start+int64(first), m.offsets[first:]
	for !strings.Contains(m.offsets[len(m.offsets)-1], ".") {
		m.offsets = m.offsets[:len(m.offsets)-1]
	}
	return fmt.Sprint("remove ", gone)
}

// readAll reads a partition from an offset to its end, and returns what each offset holds.
func readAll(t *testing.T, k *Kafka, from int64) []string {
	t.Helper()
	var all []string
	_, end := k.Ends("t", 0)
	for next := from; next < end; {
		b, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Offset: next, MaxBytes: 20})
		if err != nil {
			t.Fatalf("fetch from %d: %v", next, err)
		}
		held := make(map[int64]string)
		for _, r := range b.Records {
			held[r.Offset] = string(r.Value)
		}
		for _, s := range b.Skipped {
			for o := s.From; o <= s.To; o++ {
				held[o] = string(s.Reason)
			}
		}
		if b.Next <= next || int64(len(held)) != b.Next-next {
			t.Fatalf("fetch from %d: got %d offsets up to %d, want each of them once", next, len(held), b.Next)
		}
		for ; next < b.Next; next++ {
			all = append(all, held[next])
		}
	}
	return all
}

// TestAPartitionHoldsWhatItsModelHolds, after any sequence of events, from whatever offset it is read.
func TestAPartitionHoldsWhatItsModelHolds(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		k, m := New(), &model{}
		k.Create(1, "t")
		k.SetMaxRecords(rnd.IntN(4)) // 0 is no bound
		var story []string
		for n := range 60 {
			story = append(story, m.step(rnd, k, n))
			if start, end := k.Ends("t", 0); start != m.start || end != m.end() {
				t.Fatalf("seed %d: got %d to %d, want %d to %d after %q", seed, start, end, m.start, m.end(), story)
			}
			from := m.start + rnd.Int64N(int64(len(m.offsets))+1)
			if got, want := readAll(t, k, from), m.offsets[from-m.start:]; !slices.Equal(got, want) {
				t.Fatalf("seed %d: from %d: got %q, want %q after %q", seed, from, got, want, story)
			}
		}
		if got := readAll(t, k.Clone(), m.start); !slices.Equal(got, m.offsets) {
			t.Errorf("seed %d: the clone: got %q, want %q", seed, got, m.offsets)
		}
	}
}
