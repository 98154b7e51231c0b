package filelog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/kafka"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestKafkaDumpLogReadsTheSegments: Apache Kafka's own tool finds each record, and nothing wrong.
func TestKafkaDumpLogReadsTheSegments(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	for i := range 20 {
		base, err := l.Produce(t.Context(), topicName, 0,
			kafkaio.Message{Time: 1.7e18, Key: fmt.Appendf(nil, "key %02d", i), Value: fmt.Appendf(nil, "value %02d", i)},
			kafkaio.Message{Time: 1.7e18 + 5e6, Value: []byte("no key")})
		if err != nil || base != int64(2*i) {
			t.Fatalf("got offset %d, %v, want %d", base, err, 2*i)
		}
	}
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	segments := files(t, dir)
	got := kafka.Tool(t, "kafka.tools.DumpLogSegments", "--files", strings.Join(segments, ","), "--print-data-log", "--deep-iteration")
	for _, path := range segments {
		if !strings.Contains(got, "Dumping "+path) {
			t.Errorf("got nothing of %s", path)
		}
	}
	for i := range 20 {
		for _, want := range []string{
			fmt.Sprintf("| offset: %d CreateTime: 1700000000000 keySize: 6 valueSize: 8 sequence: -1 headerKeys: [] key: key %02d payload: value %02d", 2*i, i, i),
			fmt.Sprintf("| offset: %d CreateTime: 1700000000005 keySize: -1 valueSize: 6 sequence: -1 headerKeys: [] payload: no key", 2*i+1),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("got no %q", want)
			}
		}
	}
	if n := strings.Count(got, "isvalid: true"); n != 20 || strings.Contains(got, "isvalid: false") || strings.Contains(got, "Found ") {
		t.Errorf("got %d valid batches, want 20 and no other:\n%.3000s", n, got)
	}
}
