package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// logged runs a feed, and returns the lines of its log that show a line.
func logged(t *testing.T, format *ingest.Format, read func(ctx context.Context, f *Feed) error) []string {
	t.Helper()
	var out bytes.Buffer
	c := config(t, newBroker())
	c.Logger = printable.Logger(&out)
	if format != nil {
		c.Format = format
	}
	run(t, c, read)
	var lines []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, `level=WARN msg="cannot read a line"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestTheFirstRejectedLinesAreShown: three of each reason, of all files and topics together, and however many a client writes. What a
// client has written stays inside its quotes.
func TestTheFirstRejectedLinesAreShown(t *testing.T) {
	hostile := "\x1b[2J\" level=ERROR msg=\"all is lost\" line=\"" + strings.Repeat("A", 1000) + "\n"
	got := logged(t, nil, func(ctx context.Context, f *Feed) error {
		file := f.Source(schemas.ProducerID{1}, "file:/var/log/x", 0)
		text := []byte(hostile + "\n" + hostile + `{"time":1}` + "\n" + `{"time":1,"k":{"id":"a"}}` + "\n")
		err := file.Text(ctx, text, 0, int64(len(text)))
		topic := f.Source(TopicSource("g", "t", 0), "kafka:t/0", 7)
		topic.shift = lineBits
		value := []byte(strings.Repeat(hostile, 100))
		return errors.Join(err, file.Close(), topic.records(ctx, kafkaio.Batch{Next: 9, Records: []kafkaio.Record{
			{Offset: 7, Value: value}, {Offset: 8, Value: []byte(strings.Repeat("\n", maxLines) + "too many")},
		}}), topic.Close())
	})
	cut := `line="\x1b[2J\" level=ERROR msg=\"all is lost\" line=\"` + strings.Repeat("A", ingest.MaxSample-len("\x1b[2J\" level=ERROR msg=\"all is lost\" line=\"")) + `" shown=`
	want := []string{
		`reason="bad json" source=file:/var/log/x offset=0 bytes=1042 ` + cut + `"1 of at most 3 of this reason"`,
		`reason="bad json" source=file:/var/log/x offset=1044 bytes=1042 ` + cut + `"2 of at most 3 of this reason"`,
		`reason="missing field" source=file:/var/log/x offset=2087 bytes=10 line="{\"time\":1}" shown="1 of at most 3 of this reason"`,
		`reason="bad json" source=kafka:t/0 offset=7 bytes=1042 ` + cut + `"3 of at most 3 of this reason"`,
		`reason="too many lines" source=kafka:t/0 offset=8 bytes=8 line="too many" shown="1 of at most 3 of this reason"`,
	}
	if len(got) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(got), len(want), strings.Join(got, ""))
	}
	for i, line := range got {
		if !strings.HasSuffix(line, want[i]+"\n") {
			t.Errorf("got\n%swant\n%s", line, want[i])
		}
	}
}

// TestRejectedLinesInsideOfSyslogAreShownWhole: with what the collector wrote around them.
func TestRejectedLinesInsideOfSyslogAreShownWhole(t *testing.T) {
	format, err := ingest.NewFormat("combined", ingest.Mapping{Unwrap: []string{"syslog"}})
	if err != nil {
		t.Fatal(err)
	}
	got := logged(t, format, func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:/var/log/syslog", 0)
		text := []byte("<190>Mar  1 10:00:00 web nginx: nonsense\nno syslog\n")
		return errors.Join(s.Text(ctx, text, 0, int64(len(text))), s.Close())
	})
	if len(got) != 2 || !strings.Contains(got[0], `line="<190>Mar  1 10:00:00 web nginx: nonsense" `) || !strings.Contains(got[1], `line="no syslog" `) {
		t.Errorf("got %q", got)
	}
}

// TestShownIsForManySources: those of all partitions are read at once, and still three lines are shown.
func TestShownIsForManySources(t *testing.T) {
	var s shown
	var all sync.WaitGroup
	counts := make([]int, 8)
	for i := range counts {
		all.Go(func() {
			for j := range 1000 {
				if s.add(ingest.BadFormat, fmt.Appendf(nil, "%d.%d", i, j)) > 0 {
					counts[i]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum != ingest.MaxSamples {
		t.Errorf("got %d lines shown, want %d", sum, ingest.MaxSamples)
	}
}
