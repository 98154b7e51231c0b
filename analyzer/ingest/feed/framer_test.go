package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestNoFrameCutsALine: with entries of every size, up to the largest there are, all entries of a line for one partition
// are in one frame, and no frame is over its bounds.
func TestNoFrameCutsALine(t *testing.T) {
	b, rnd := newBroker(), rand.New(rand.NewPCG(7, 8))
	c := config(t, b)
	var templates []ingest.CallerTemplate
	for i := range ingest.MaxCallers {
		templates = append(templates, ingest.CallerTemplate{Kind: fmt.Sprintf("kind%028d", i), Template: "{k}"})
	}
	format, err := ingest.NewFormat("json", ingest.Mapping{Callers: templates, Resource: "p", Status: "s"})
	if err != nil {
		t.Fatal(err)
	}
	c.Format = format
	var log bytes.Buffer
	for i := range 4000 {
		id, path := strings.Repeat("k", 1+rnd.IntN(250))+fmt.Sprint(i%1000), strings.Repeat("p", rnd.IntN(1200))
		fmt.Fprintf(&log, `{"time":1,"k":%q,"p":"/%s%d","s":200}`+"\n", id, path, i)
	}
	s := run(t, c, func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		return errors.Join(s.Text(ctx, log.Bytes(), 0, int64(log.Len())), s.Close())
	})
	where, entries := make(map[string]int), 0
	for partition, frames := range b.requests() {
		for n, value := range frames {
			var f schemas.Frame
			if err := f.Decode(value); err != nil {
				t.Fatal(err)
			}
			entries += len(f.Entries)
			for _, e := range f.Entries {
				line := fmt.Sprint(partition, "/", e.Offset)
				if at, known := where[line]; known && at != n {
					t.Fatalf("the line at %d is in frames %d and %d of partition %d", e.Offset, at, n, partition)
				}
				where[line] = n
			}
		}
	}
	if want := 4000 * 2 * ingest.MaxCallers; entries > want || entries < want*9/10 || s.Entries != uint64(entries) {
		t.Errorf("got %d entries in frames, %d counted, want about %d", entries, s.Entries, want)
	}
}

// TestEntriesSayWhatTheLineSays, of arrivals and responses.
func TestEntriesSayWhatTheLineSays(t *testing.T) {
	for _, responses := range []bool{true, false} {
		b := newBroker()
		c := config(t, b)
		format, err := ingest.NewFormat("combined", ingest.Mapping{NoResponses: !responses})
		if err != nil {
			t.Fatal(err)
		}
		c.Format = format
		log := `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17 "-" "-"` + "\n" +
			`192.0.2.1 - - [17/May/2015:10:05:04 +0000] "GET /b HTTP/1.1" 429 0 "-" "-"` + "\n"
		run(t, c, func(ctx context.Context, f *Feed) error {
			s := f.Source(schemas.ProducerID{4, 2}, "file:x", 1000)
			return errors.Join(s.Text(ctx, []byte(log), 1000, 1000+int64(len(log))), s.Close())
		})
		var got []string
		for _, frames := range b.requests() {
			for _, value := range frames {
				var f schemas.Frame
				if err := f.Decode(value); err != nil || f.Producer != (schemas.ProducerID{4, 2}) || f.Seq != 0 {
					t.Fatal(f, err)
				}
				for _, e := range f.Entries {
					got = append(got, fmt.Sprintf("%d@%d %s %s n=%d %d %d blocked=%v response=%v", e.Offset, e.Time/1e9, e.Caller(), e.Resource, e.Count, e.Status, e.Cost, e.Blocked, e.Response))
				}
			}
		}
		want := []string{
			"1000@1431857103 ip:192.0.2.1 GET /a n=1 0 0 blocked=false response=false",
			"1000@1431857103 ip:192.0.2.1 GET /a n=1 200 17 blocked=false response=true",
			"1078@1431857104 ip:192.0.2.1 GET /b n=1 0 0 blocked=true response=false",
			"1078@1431857104 ip:192.0.2.1 GET /b n=1 429 0 blocked=true response=true",
		}
		if !responses {
			want = []string{want[0], want[2]}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("responses %v: got\n%s\nwant\n%s", responses, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestManyRejectsFitTheirRequests: a log that nobody can read is sent in requests that Kafka takes.
func TestManyRejectsFitTheirRequests(t *testing.T) {
	b := newBroker()
	line := strings.Repeat("\x01", 2000) + "\n"
	s := run(t, config(t, b), func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		text := []byte(strings.Repeat(line, 500))
		return errors.Join(s.Text(ctx, text, 0, int64(len(text))), s.Close())
	})
	if got := len(b.rejects(t)); got != 500 || b.largest > maxRequest || s.Rejected["bad json"] != 0 && s.Rejected["empty"] != 500 {
		t.Errorf("got %d rejects, a request of %d bytes, %v", got, b.largest, s.Rejected)
	}
}

// TestSourcesBesideEachOther: many sources share framers and senders, and none waits for another to end.
func TestSourcesBesideEachOther(t *testing.T) {
	b, truth := newBroker(), make(map[string]int)
	s := run(t, config(t, b), func(ctx context.Context, f *Feed) error {
		errs := make(chan error)
		for n := range 20 {
			log, counts := text(rand.New(rand.NewPCG(uint64(n), 1)), 500)
			for caller, count := range counts {
				truth[caller] += count
			}
			go func() {
				s := f.Source(schemas.ProducerID{byte(n)}, fmt.Sprint("file:", n), 0)
				for at := 0; at < len(log); {
					end := at + bytes.LastIndexByte(log[at:min(len(log), at+4000)], '\n') + 1
					if err := s.Text(ctx, log[at:end], int64(at), int64(end)); err != nil {
						errs <- err
						return
					}
					at = end
				}
				errs <- s.Close()
			}()
		}
		var all error
		for range 20 {
			all = errors.Join(all, <-errs)
		}
		return all
	})
	equal(t, b.count(t), truth)
	if s.Lines != 20*500 || len(s.Sources) != 0 {
		t.Errorf("got %+v", s)
	}
}

// TestAHeadIsNotCounted: the columns of a log that is not read from its beginning.
func TestAHeadIsNotCounted(t *testing.T) {
	b := newBroker()
	c := config(t, b)
	format, err := ingest.NewFormat("csv", ingest.Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	c.Format = format
	s := run(t, c, func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 60)
		s.Head([]byte("time,ip\n1,192.0.2.1\n"))
		return errors.Join(s.Text(ctx, []byte("2,192.0.2.2\ntime,ip\n"), 60, 80), s.Close())
	})
	if got := b.count(t); len(got) != 1 || got["ip:192.0.2.2"] != 1 || s.Lines != 2 || s.Dropped != 1 || len(s.Rejected) != 0 {
		t.Errorf("got %v, %+v", got, s)
	}
}

// TestAFeedThatIsStoppedGivesUp: what was not queued is not acknowledged, and nothing hangs.
func TestAFeedThatIsStoppedGivesUp(t *testing.T) {
	b := newBroker()
	b.fail = func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Returns(kafkaio.ErrNoTopic) }
	c := config(t, b)
	c.MaxBytes, c.Drain = 1, 1
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	log, _ := text(rand.New(rand.NewPCG(9, 9)), 20_000)
	err = f.Run(ctx, func(ctx context.Context) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		fed := make(chan error)
		go func() { fed <- s.Text(ctx, log, 0, int64(len(log))) }()
		stop()
		if err := <-fed; err == nil {
			t.Error("got no error from a feed that is stopped")
		}
		err := s.Close()
		if s.Acked() != 0 {
			t.Errorf("got position %d", s.Acked())
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFlushed) { // nil if it was stopped before it began
		t.Errorf("got %v, want %v", err, ErrNotFlushed)
	}
}

// logged runs a feed, and returns the lines of its log that show a line.
func logged(t *testing.T, format *ingest.Format, read func(ctx context.Context, f *Feed) error) []string {
	t.Helper()
	var out bytes.Buffer
	c := config(t, newBroker())
	c.Logger = slog.New(printable.TextHandler(&out, slog.LevelInfo))
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
		topic := f.Source(topicSource("g", "t", 0), "kafka:t/0", 7)
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
