package analyzer

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// BenchmarkStartWithControlRecords is what records by hand add to the start of an owner, until it decides: with none, with 100,000 about
// its callers that it has not applied yet, and with the same in its store.
//
//	go test ./analyzer -run - -bench StartWithControlRecords -benchtime 3x
func BenchmarkStartWithControlRecords(b *testing.B) {
	for _, records := range []int{0, 100_000} {
		for _, from := range []string{"log", "store"} {
			b.Run(fmt.Sprintf("records=%d/from=%s", records, from), func(b *testing.B) {
				log := &testLog{kafkaiotest.New()}
				log.Create(1, "requests", "decisions", "state", "rejects", "control")
				decideOften(b, log, records)
				conf := OwnerConfig{
					Requests: "requests", Decisions: "decisions", State: "state", Control: "control", Rules: mustRules(b, threeAMinute),
					Name: "bench", Dir: b.TempDir() + "/0", Snapshot: time.Hour,
				}
				conf.Store.NoSync = true
				if from == "store" {
					startAndEnd(b, log, conf)
				}
				b.ResetTimer()
				for b.Loop() {
					if from == "log" {
						conf.Dir = b.TempDir() + "/0"
					}
					startAndEnd(b, log, conf)
				}
			})
		}
	}
}

// decideOften writes closes of so many callers.
func decideOften(b *testing.B, log *testLog, records int) {
	b.Helper()
	now := time.Now().UnixNano()
	messages := make([]kafkaio.Message, 0, records)
	for i := range records {
		c := schemas.Control{
			Time: now, Author: "operator", Reason: "ticket 4711", Action: schemas.ControlClose,
			Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint("caller-", i)}, Until: now + int64(time.Hour),
		}
		binary.BigEndian.PutUint64(c.ID[:], uint64(i+1))
		value, err := pb.AppendControl(nil, &c)
		if err != nil {
			b.Fatal(err)
		}
		messages = append(messages, kafkaio.Message{Time: now, Value: value})
	}
	if records > 0 {
		log.Append("control", 0, messages...)
	}
}

// startAndEnd runs an owner until it decides.
func startAndEnd(b *testing.B, log *testLog, conf OwnerConfig) {
	b.Helper()
	o := NewOwner(log, conf)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(b.Context())
	go func() { done <- o.Run(ctx) }()
	for !o.Stats().State.Decides() {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}
