package kafkaiotest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestErrorsOfCalls are those of a kafkaio.Client, with what is known of a produce.
func TestErrorsOfCalls(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name    string
		call    func(k *Kafka) error
		want    error
		outcome kafkaio.Outcome
	}{
		{"fetch, no topic", func(k *Kafka) error {
			_, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "none"})
			return err
		}, kafkaio.ErrNoTopic, kafkaio.Unknown},
		{"fetch, no partition", func(k *Kafka) error {
			_, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Partition: 2})
			return err
		}, kafkaio.ErrNoTopic, kafkaio.Unknown},
		{"fetch, a partition below 0", func(k *Kafka) error {
			_, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Partition: -1})
			return err
		}, kafkaio.ErrNoTopic, kafkaio.Unknown},
		{"fetch, an offset below 0", func(k *Kafka) error {
			_, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Offset: -1})
			return err
		}, kafkaio.ErrOffsetOutOfRange, kafkaio.Unsent},
		{"fetch, beyond the end", func(k *Kafka) error {
			_, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Offset: 9})
			return err
		}, kafkaio.ErrOffsetOutOfRange, kafkaio.Unknown},
		{"produce, no topic", func(k *Kafka) error {
			_, err := k.Produce(t.Context(), "none", 0, kafkaio.Message{})
			return err
		}, kafkaio.ErrNoTopic, kafkaio.Refused},
		{"produce, nothing", func(k *Kafka) error { _, err := k.Produce(t.Context(), "t", 0); return err }, kafkaio.ErrNoMessages, kafkaio.Unsent},
		{"produce, too large", func(k *Kafka) error {
			_, err := k.Produce(t.Context(), "t", 0, kafkaio.Message{Value: make([]byte, defaultMaxMessage/2)}, kafkaio.Message{Value: make([]byte, defaultMaxMessage/2+2)})
			return err
		}, kafkaio.ErrTooLarge, kafkaio.Refused},
		{"produce, canceled", func(k *Kafka) error { _, err := k.Produce(canceled, "t", 0, kafkaio.Message{}); return err }, context.Canceled, kafkaio.Unsent},
		{"range, no topic", func(k *Kafka) error { _, _, err := k.Range(t.Context(), "none", 0); return err }, kafkaio.ErrNoTopic, kafkaio.Unknown},
		{"partitions, no topic", func(k *Kafka) error { _, err := k.Partitions(t.Context(), "none"); return err }, kafkaio.ErrNoTopic, kafkaio.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := filled(2)
			err := tc.call(k)
			r, ok := errors.AsType[*kafkaio.RequestError](err)
			if !errors.Is(err, tc.want) || !ok || r.Outcome != tc.outcome || kafkaio.Temporary(err) {
				t.Errorf("got %v, want %v, %v, and not temporary", err, tc.want, tc.outcome)
			}
			if got := fetch(t, k, 0); got != "0 1 next 2 of 0-2" {
				t.Errorf("afterwards: got %q, want what was there before", got)
			}
		})
	}
}

// TestAFetchIsBounded by bytes and by records, and returns at least one record.
func TestAFetchIsBounded(t *testing.T) {
	for _, tc := range []struct{ maxBytes, maxRecords, want int }{
		{0, 0, 10}, {1, 0, 1}, {100, 0, 1}, {199, 0, 1}, {200, 0, 2}, {999, 0, 9}, {0, 3, 3}, {250, 3, 2}, {10_000, 100, 10},
	} {
		k := New()
		k.Create(1, "t")
		k.SetMaxRecords(tc.maxRecords)
		for range 10 {
			k.Append("t", 0, kafkaio.Message{Key: make([]byte, 40), Value: make([]byte, 60)})
		}
		b, err := k.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", MaxBytes: tc.maxBytes})
		if err != nil || len(b.Records) != tc.want || b.Next != int64(tc.want) || b.HighWater != 10 {
			t.Errorf("%d bytes, %d records: got %d records, next %d of %d, %v; want %d", tc.maxBytes, tc.maxRecords, len(b.Records), b.Next, b.HighWater, err, tc.want)
		}
	}
}

// TestACallThatWaitsSeesTheClusterAsItIsThen, and not as it was when the call began.
func TestACallThatWaitsSeesTheClusterAsItIsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := filled(1)
		k.SetFault(func(Call) Fault { return Slow(time.Second) })
		time.AfterFunc(time.Second/2, func() { k.Recreate("t") })
		if start, end, err := k.Range(t.Context(), "t", 0); start != 0 || end != 0 || err != nil {
			t.Errorf("got %d to %d and %v, want the range of the new topic", start, end, err)
		}
		time.AfterFunc(time.Second/2, func() { k.Delete("t") })
		if _, err := k.Produce(t.Context(), "t", 0, kafkaio.Message{}); !errors.Is(err, kafkaio.ErrNoTopic) || kafkaio.OutcomeOf(err) != kafkaio.Refused {
			t.Errorf("got %v, want that the topic is missing", err)
		}
	})
}
