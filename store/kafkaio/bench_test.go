package kafkaio

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// benchBroker is the broker of FLOODGATE_KAFKA, or an embedded one.
func benchBroker(b *testing.B) *Client {
	b.Helper()
	addrs := strings.Split(os.Getenv("FLOODGATE_KAFKA"), ",")
	if addrs[0] == "" {
		broker, err := embedded.Start(embedded.Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { broker.Close() })
		addrs = broker.Addrs()
	}
	c := New(Config{Brokers: addrs})
	b.Cleanup(c.Close)
	return c
}

func benchTopic(b *testing.B, c *Client) string {
	b.Helper()
	topic := "bench-" + time.Now().Format("150405.000000000")
	if _, err := c.EnsureTopics(b.Context(), TopicSpec{Name: topic, Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	return topic
}

// BenchmarkProduce sends one message of the size of a frame at a time, and waits for it.
func BenchmarkProduce(b *testing.B) {
	c := benchBroker(b)
	topic := benchTopic(b, c)
	for name, size := range map[string]int{"1KiB": 1 << 10, "16KiB": 16 << 10, "256KiB": 256 << 10} {
		b.Run(name, func(b *testing.B) {
			m := Message{Time: time.Now().UnixNano(), Value: bytes.Repeat([]byte("x"), size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Produce(b.Context(), topic, 0, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFetch reads a partition of 16 KiB messages from its start, over and over.
func BenchmarkFetch(b *testing.B) {
	c := benchBroker(b)
	topic := benchTopic(b, c)
	const messages, size = 2000, 16 << 10
	m := Message{Time: time.Now().UnixNano(), Value: bytes.Repeat([]byte("x"), size)}
	for range messages / 40 {
		if _, err := c.Produce(b.Context(), topic, 0, slices.Repeat([]Message{m}, 40)...); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	next, n := int64(0), 0
	for b.Loop() {
		if n > 0 {
			n--
			continue
		}
		if next == messages {
			next = 0
		}
		got, err := c.Fetch(b.Context(), FetchRequest{Topic: topic, Offset: next, MaxWait: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		next, n = got.Next, len(got.Records)-1
	}
}

// BenchmarkLatency is from before Produce until Fetch has returned the record, at about 200 a second.
func BenchmarkLatency(b *testing.B) {
	c := benchBroker(b)
	topic := benchTopic(b, c)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	received := make(chan time.Time, 1)
	wg.Go(func() {
		for next := int64(0); ; {
			got, err := c.Fetch(ctx, FetchRequest{Topic: topic, Offset: next, MaxWait: 500 * time.Millisecond})
			if err != nil {
				return
			}
			for range got.Records {
				received <- time.Now()
			}
			next = got.Next
		}
	})
	var took []time.Duration
	for b.Loop() {
		_ = Sleep(ctx, 5*time.Millisecond)
		sent := time.Now()
		if _, err := c.Produce(ctx, topic, 0, Message{Time: sent.UnixNano(), Value: []byte("x")}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-received).Sub(sent))
	}
	cancel()
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkUnpack is the decoder alone: a batch of 40 messages.
func BenchmarkUnpack(b *testing.B) {
	for name, pack := range map[string]func([]byte) []byte{"none": nil, "zstd": packZstd, "lz4": packLZ4, "snappy": packXerial, "gzip": packGzip} {
		b.Run(name, func(b *testing.B) {
			m := Message{Value: []byte(strings.Repeat("some text that packs ", 780))}
			raw := appendBatch(nil, slices.Repeat([]Message{m}, 40))
			if pack != nil {
				raw = packed(map[string]int{"zstd": codecZstd, "lz4": codecLZ4, "snappy": codecSnappy, "gzip": codecGzip}[name], pack, 40, raw[batchHeader:])
			}
			u := newUnpacker(defaultMaxDecompressed)
			defer u.close()
			b.SetBytes(int64(40 * len(m.Value)))
			b.ReportAllocs()
			for b.Loop() {
				got := Batch{HighWater: -1}
				if _, err := u.unpack(&got, raw); err != nil || len(got.Records) != 40 {
					b.Fatal(len(got.Records), err)
				}
			}
		})
	}
}

// BenchmarkUnpackLines is the decoder alone: a batch of 5,000 log lines, which fits, and one of 200,000, which comes in pieces.
func BenchmarkUnpackLines(b *testing.B) {
	for _, lines := range []int{5_000, 200_000} {
		for name, c := range codecs {
			raw := logLines(c.id, c.pack, lines)
			b.Run(fmt.Sprintf("%s/%d", name, lines), func(b *testing.B) {
				u := newUnpacker(defaultMaxDecompressed)
				defer u.close()
				b.ReportAllocs()
				for b.Loop() {
					if n := unpackAll(b, u, raw, 0); n != lines {
						b.Fatal(n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/line")
			})
		}
	}
}

// BenchmarkGoOnInTheMiddle starts at the last line of a batch of 200,000, as after a restart: what that costs is one
// unpacking of the batch.
func BenchmarkGoOnInTheMiddle(b *testing.B) {
	const lines = 200_000
	for name, c := range codecs {
		raw := logLines(c.id, c.pack, lines)
		b.Run(name, func(b *testing.B) {
			u := newUnpacker(defaultMaxDecompressed)
			defer u.close()
			for b.Loop() {
				if n := unpackAll(b, u, raw, lines-1); n != 1 {
					b.Fatal(n)
				}
			}
		})
	}
}

// unpackAll unpacks one batch, in as many pieces as it takes, and returns how many records there are from an offset on.
func unpackAll(b *testing.B, u *unpacker, raw []byte, from int64) (n int) {
	b.Helper()
	got := Batch{Next: from, HighWater: -1}
	if _, err := u.unpack(&got, raw); err != nil || len(got.Skipped) > 0 {
		b.Fatal(err, got.Skipped)
	}
	n = len(got.Records)
	for o := got.open; o != nil && o.left > 0; n += len(got.Records) {
		got = Batch{Next: got.Next, HighWater: -1}
		o.fill(&got, u.piece())
	}
	return n
}
