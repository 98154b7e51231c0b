package filelog

import (
	"testing"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// BenchmarkProduce appends batches of 64 KiB, and of 100 bytes, which are synced at the end.
func BenchmarkProduce(b *testing.B) {
	for name, size := range map[string]int{"64KiB": 64 << 10, "100B": 100} {
		b.Run(name, func(b *testing.B) {
			l := benchLog(b)
			value := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := l.Produce(b.Context(), topicName, 0, kafkaio.Message{Value: value}); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Sync(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkFetch reads a log of batches of 64 KiB and one of small batches, 1 MiB a fetch, from the page cache.
func BenchmarkFetch(b *testing.B) {
	for name, size := range map[string]int{"64KiB": 64 << 10, "100B": 100} {
		b.Run(name, func(b *testing.B) {
			l := benchLog(b)
			value := make([]byte, size)
			for n := 0; n < 64<<20; n += size + 76 {
				if _, err := l.Produce(b.Context(), topicName, 0, kafkaio.Message{Value: value}); err != nil {
					b.Fatal(err)
				}
			}
			offset, total := int64(0), 0
			for b.Loop() {
				batch, err := l.Fetch(b.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: offset})
				if err != nil {
					b.Fatal(err)
				}
				total += len(batch.Records)
				if offset = batch.Next; offset == batch.HighWater {
					offset = 0
				}
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(total*size)/1e6/b.Elapsed().Seconds(), "MB/s")
		})
	}
}

func benchLog(b *testing.B) *Log {
	b.Helper()
	l, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	if _, err := l.EnsureTopics(b.Context(), kafkaio.TopicSpec{Name: topicName, Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	return l
}
