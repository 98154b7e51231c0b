package filelog

import (
	"os"
	"runtime"
	"strconv"
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

// BenchmarkOpen opens a log of 5 topics of 16 partitions after kill -9, one with 64 MiB or more, of which the last 16 MiB were never synced:
//
//	FLOODGATE_LOG_BYTES=10000000000 go test -run '^$' -bench Open -benchtime 1x ./store/filelog     10 GB of disk
func BenchmarkOpen(b *testing.B) {
	bytes := int64(64 << 20)
	if text := os.Getenv("FLOODGATE_LOG_BYTES"); text != "" {
		var err error
		if bytes, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	var specs []kafkaio.TopicSpec
	for _, name := range []string{"requests", "decisions", "control", "events", "heartbeats"} {
		specs = append(specs, kafkaio.TopicSpec{Name: name, Partitions: 16})
	}
	if _, err := l.EnsureTopics(b.Context(), specs...); err != nil {
		b.Fatal(err)
	}
	produce := func(topic string, partition int, bytes int64) {
		value := make([]byte, 16<<10)
		for ; bytes > 0; bytes -= int64(len(value)) {
			if _, err := l.Produce(b.Context(), topic, partition, kafkaio.Message{Value: value}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, spec := range specs {
		for p := range spec.Partitions {
			produce(spec.Name, p, 100<<10)
		}
	}
	for left := bytes - 16<<20; left > 0; left -= 512 << 20 {
		produce("requests", 0, min(left, 512<<20))
		if err := l.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	produce("requests", 0, 16<<20)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		l, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/(1<<20), "MiB/op")
}

// BenchmarkTail appends a batch of 1 KiB and reads it, as the owner of a partition does.
func BenchmarkTail(b *testing.B) {
	l := benchLog(b)
	value := make([]byte, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		offset, err := l.Produce(b.Context(), topicName, 0, kafkaio.Message{Value: value})
		if err != nil {
			b.Fatal(err)
		}
		batch, err := l.Fetch(b.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: offset})
		if err != nil || len(batch.Records) != 1 {
			b.Fatal(len(batch.Records), err)
		}
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
