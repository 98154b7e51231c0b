package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

const testPartitions = 3

// broker is a Kafka in memory that also checks the requests of a feed.
type broker struct {
	*kafkaiotest.Kafka

	members int                                      // feeds at a time, of which each may have one request under way; 0 is 1
	fail    func(kafkaiotest.Call) kafkaiotest.Fault // what goes wrong with a produce; nil is nothing
	largest int                                      // bytes of a request; like wrong, of the fault's goroutine
	wrong   []string
}

func newBroker() *broker {
	b := &broker{Kafka: kafkaiotest.New()}
	b.Create(testPartitions, "requests")
	b.Create(1, "rejects")
	b.SetFault(b.look)
	return b
}

// look checks a call, and then lets it fail.
func (b *broker) look(c kafkaiotest.Call) kafkaiotest.Fault {
	if c.Op != kafkaiotest.OpProduce {
		return kafkaiotest.Fault{}
	}
	size := 0
	for _, m := range c.Messages {
		size += len(m.Value)
		if m.Time <= 0 {
			b.wrong = append(b.wrong, fmt.Sprintf("%s/%d: no time", c.Topic, c.Partition))
		}
	}
	b.largest = max(b.largest, size)
	if most := max(1, b.members); c.InFlight > most {
		b.wrong = append(b.wrong, fmt.Sprintf("%s/%d: more than %d requests under way", c.Topic, c.Partition, most))
	}
	if b.fail == nil {
		return kafkaiotest.Fault{}
	}
	return b.fail(c)
}

// values returns what is in a partition.
func (b *broker) values(topic string, partition int) (values [][]byte) {
	for _, r := range b.Records(topic, partition) {
		values = append(values, r.Value)
	}
	return values
}

// requests returns the frames of the partitions that have some.
func (b *broker) requests() map[int][][]byte {
	frames := make(map[int][][]byte)
	for p := range testPartitions {
		if values := b.values("requests", p); len(values) > 0 {
			frames[p] = values
		}
	}
	return frames
}

// count folds the frames of requests as the analyzer does: per caller, each line once. It checks what frames promise.
func (b *broker) count(t testing.TB) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	key := schemas.DefaultPartitionKey()
	for partition, frames := range b.requests() {
		last := make(map[schemas.ProducerID]int64)
		for _, value := range frames {
			var f schemas.Frame
			if err := f.Decode(value); err != nil {
				t.Fatal(err)
			}
			if !f.Source || f.Partitions != testPartitions || f.Fingerprint != key.Fingerprint() {
				t.Fatalf("got a frame of %v, %d partitions", f.Source, f.Partitions)
			}
			line := int64(-1)
			for _, e := range f.Entries {
				if schemas.Partition(key.Hash(e.Kind, e.ID), testPartitions) != partition {
					t.Errorf("%s in partition %d", e.Caller(), partition)
				}
				if e.Offset != line {
					if seen, ok := last[f.Producer]; ok && e.Offset <= seen {
						continue
					}
					line, last[f.Producer] = e.Offset, e.Offset
				}
				if !e.Response {
					counts[e.Caller().String()]++
				}
			}
		}
	}
	for _, w := range b.wrong {
		t.Error(w)
	}
	return counts
}

// rejects returns what is in the topic of rejects.
func (b *broker) rejects(t testing.TB) (all []reject.Reject) {
	t.Helper()
	for _, value := range b.values("rejects", 0) {
		r, err := reject.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// config returns a feed's configuration for lines of JSON with a key and a tenant.
func config(t testing.TB, b *broker) Config {
	t.Helper()
	format, err := ingest.NewFormat("json", ingest.Mapping{
		Callers: []ingest.CallerTemplate{{Kind: "key", Template: "{k.id}"}, {Kind: "pair", Template: "{k.id}|{p}"}}, Resource: "p", Status: "s",
	})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Producer: b, Requests: "requests", Rejects: "rejects", Partitions: testPartitions, Key: schemas.DefaultPartitionKey(), Format: format,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
}

// run runs a feed while read feeds it.
func run(t testing.TB, c Config, read func(ctx context.Context, f *Feed) error) Stats {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context(), func(ctx context.Context) error { return read(ctx, f) }); err != nil {
		t.Fatal(err)
	}
	return f.Stats()
}

// text returns n lines about few callers, and the truth about them.
func text(rnd *rand.Rand, n int) ([]byte, map[string]int) {
	var b bytes.Buffer
	truth := make(map[string]int)
	for i := range n {
		id := fmt.Sprintf("id\"%d", rnd.IntN(40)) // an escape, so that the id is not a view of the line
		fmt.Fprintf(&b, `{"time":%d,"k":{"id":%q},"p":"/%d","s":200}`+"\n", 1+i, id, i%7)
		truth["key:"+id]++
		truth[fmt.Sprintf("pair:%s|/%d", id, i%7)]++
	}
	return b.Bytes(), truth
}

func equal(t testing.TB, got, want map[string]int) {
	t.Helper()
	wrong := 0
	for c, n := range want {
		if got[c] != n {
			wrong++
			if wrong < 5 {
				t.Errorf("%s: got %d, want %d", c, got[c], n)
			}
		}
	}
	if len(got) != len(want) || wrong > 0 {
		t.Errorf("got %d callers, want %d; %d wrong", len(got), len(want), wrong)
	}
}

// TestEveryLineCountsOnce: batches of any size, many of which fill more than a frame.
func TestEveryLineCountsOnce(t *testing.T) {
	b, rnd := newBroker(), rand.New(rand.NewPCG(1, 2))
	log, truth := text(rnd, 60_000)
	s := run(t, config(t, b), func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		for at := 0; at < len(log); {
			end := min(len(log), at+1+rnd.IntN(1<<20))
			end = at + bytes.LastIndexByte(log[at:end], '\n') + 1
			if end == at {
				end = at + bytes.IndexByte(log[at:], '\n') + 1
			}
			if err := s.Text(ctx, log[at:end], int64(at), int64(end)); err != nil {
				return err
			}
			at = end
		}
		err := s.Close()
		if s.Acked() != int64(len(log)) {
			t.Errorf("got position %d, want %d", s.Acked(), len(log))
		}
		return err
	})
	equal(t, b.count(t), truth)
	if s.Lines != 60_000 || s.Entries != 240_000 || s.Queued != 0 || b.largest > maxRequest || s.Frames < 20 {
		t.Errorf("got %+v, a request of %d bytes", s, b.largest)
	}
}

// TestAnyFaultsCountEachLineOnce: requests fail, are appended and not acknowledged, and a second life starts again from
// what the first one knows to be in Kafka. Time is virtual.
func TestAnyFaultsCountEachLineOnce(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			b, rnd := newBroker(), rand.New(rand.NewPCG(seed, 3))
			faults := rand.New(rand.NewPCG(seed, 4))
			b.fail = func(kafkaiotest.Call) kafkaiotest.Fault {
				fault := kafkaiotest.Slow(time.Duration(faults.IntN(100)) * time.Millisecond)
				if failed, appended := faults.IntN(3) == 0, faults.IntN(2) == 0; failed {
					fault.Err, fault.Acted = errors.New("broker away"), appended
				}
				return fault
			}
			log, truth := text(rnd, 3000)
			at := int64(0)
			for life := 0; at < int64(len(log)); life++ {
				ctx, kill := context.WithCancel(t.Context())
				if life < 5 {
					time.AfterFunc(time.Duration(rnd.IntN(2000))*time.Millisecond, kill)
				}
				c := config(t, b)
				c.MaxBytes, c.Drain = 1, time.Second
				f, err := New(c)
				if err != nil {
					t.Fatal(err)
				}
				_ = f.Run(ctx, func(ctx context.Context) error { // killed ones fail
					s := f.Source(schemas.ProducerID{9}, "file:x", at)
					read := at
					for read < int64(len(log)) && ctx.Err() == nil {
						end := min(len(log), int(read)+1+rnd.IntN(20_000))
						end = int(read) + bytes.LastIndexByte(log[read:end], '\n') + 1
						if end == int(read) || s.Text(ctx, log[read:end], read, int64(end)) != nil {
							continue
						}
						read = int64(end)
					}
					err := s.Close()
					at = s.Acked()
					return err
				})
				kill()
			}
			equal(t, b.count(t), truth)
		})
	}
}

func TestRejectsSayWhatAndWhere(t *testing.T) {
	b := newBroker()
	log := `{"time":1,"k":{"id":"a"}}` + "\n\x1b[31mred\n\n" + `{"time":1}` + "\n" + strings.Repeat("x", 70_000) + "\n"
	s := run(t, config(t, b), func(ctx context.Context, f *Feed) error {
		s := f.Source(schemas.ProducerID{1}, "file:/var/log/x", 100)
		return errors.Join(s.Text(ctx, []byte(log), 100, 100+int64(len(log))), s.Close())
	})
	var got []string
	for _, r := range b.rejects(t) {
		got = append(got, fmt.Sprintf("%s@%d %s %d %.12s", r.Source, r.Offset, r.Reason, r.Bytes, r.Line))
	}
	want := []string{
		`file:/var/log/x@126 bad json 8 \x1b[31mred`, "file:/var/log/x@135 empty 0 ", `file:/var/log/x@136 missing field 10 {"time":1}`,
		"file:/var/log/x@147 line too long 70000 xxxxxxxxxxxx",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if s.Lines != 5 || fmt.Sprint(s.Rejected) != "map[bad json:1 empty:1 line too long:1 missing field:1]" {
		t.Errorf("got %+v", s)
	}
}

// TestRecordsOfAForeignTopic: several lines in a record, none, too many, and stretches that could not be read.
func TestRecordsOfAForeignTopic(t *testing.T) {
	b := newBroker()
	line := `{"time":1,"k":{"id":"a"}}`
	s := run(t, config(t, b), func(ctx context.Context, f *Feed) error {
		s := f.Source(topicSource("g", "t", 0), "kafka:t/0", 7)
		s.shift = lineBits
		err := s.records(ctx, kafkaio.Batch{Next: 20, Records: []kafkaio.Record{
			{Offset: 7, Value: []byte(line)}, {Offset: 8, Value: []byte(line + "\n" + line + "\n")}, {Offset: 9}, {Offset: 10, Value: []byte("\n")},
			{Offset: 12, Value: []byte(strings.Repeat("\n", maxLines) + "x")},
		}, Skipped: []kafkaio.Skip{
			{From: 11, To: 11, Reason: kafkaio.SkipGap}, {From: 13, To: 15, Reason: kafkaio.SkipTooLarge, Err: kafkaio.ErrDecompressedTooLarge},
		}})
		return errors.Join(err, s.Close())
	})
	if got := b.count(t); got["key:a"] != 3 {
		t.Errorf("got %v", got)
	}
	reasons := make(map[string]int)
	for _, r := range b.rejects(t) {
		reasons[fmt.Sprint(r.Reason, "@", r.Offset)]++
	}
	for want, n := range map[string]int{"empty@9": 1, "empty@10": 1, "empty@12": maxLines, "too many lines@12": 1, "records too_large@13": 1} {
		if reasons[want] != n {
			t.Errorf("%s: got %d rejects, want %d", want, reasons[want], n)
		}
	}
	if len(s.Skipped) != 1 || s.Skipped["too_large"] != 3 {
		t.Errorf("got %v skipped, want 3 records, too large", s.Skipped)
	}
}

// TestKafkaAwayHoldsReadersBack: what waits is bounded, whatever is read, and goes on where it was.
func TestKafkaAwayHoldsReadersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		back := time.Now().Add(time.Hour)
		b.fail = func(kafkaiotest.Call) kafkaiotest.Fault {
			if time.Now().Before(back) {
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		}
		c := config(t, b)
		c.MaxBytes = 1 << 20
		log, truth := text(rand.New(rand.NewPCG(5, 6)), 20_000)
		bound := int64(0)
		s := run(t, c, func(ctx context.Context, f *Feed) error {
			s := f.Source(schemas.ProducerID{1}, "file:x", 0)
			for at := 0; at < len(log); {
				end := at + bytes.LastIndexByte(log[at:min(len(log), at+50_000)], '\n') + 1
				if err := s.Text(ctx, log[at:end], int64(at), int64(end)); err != nil {
					return err
				}
				bound = max(bound, f.Stats().Queued)
				at = end
			}
			return s.Close()
		})
		equal(t, b.count(t), truth)
		if bound > c.MaxBytes || bound < c.MaxBytes/4 || s.Retries == 0 {
			t.Errorf("got %d bytes waiting at most, want up to %d; %d retries", bound, c.MaxBytes, s.Retries)
		}
	})
}

func TestAPermanentErrorEndsTheFeed(t *testing.T) {
	b := newBroker()
	b.fail = func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Returns(kafkaio.ErrTooLarge) }
	f, err := New(config(t, b))
	if err != nil {
		t.Fatal(err)
	}
	err = f.Run(t.Context(), func(ctx context.Context) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 0)
		if err := s.Text(ctx, []byte(`{"time":1,"k":{"id":"a"}}`), 0, 25); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, kafkaio.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestSourcesKnowWhereTheyAre(t *testing.T) {
	b := newBroker()
	hold := make(chan struct{})
	b.fail = func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Fault{Until: hold} }
	c := config(t, b)
	c.Drain = 20 * time.Millisecond
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context(), func(ctx context.Context) error {
		s := f.Source(schemas.ProducerID{1}, "file:x", 10)
		line := []byte(`{"time":1,"k":{"id":"a"}}`)
		if err := s.Text(ctx, line, 10, 35); err != nil {
			return err
		}
		s.End(100)
		if got := f.Stats().Sources; len(got) != 1 || got[0] != (SourceStats{Name: "file:x", Acked: 10, Lag: 90}) {
			t.Errorf("got %+v", got)
		}
		if err := s.Close(); !errors.Is(err, ErrNotFlushed) || s.Acked() != 10 {
			t.Errorf("got %v at %d", err, s.Acked())
		}
		close(hold)
		if err := s.Close(); err != nil || s.Acked() != 35 {
			t.Errorf("got %v at %d", err, s.Acked())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if got := f.Stats().Sources; len(got) != 0 {
		t.Errorf("got %+v of what is closed", got)
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	good := config(t, newBroker())
	for name, spoil := range map[string]func(*Config){
		"producer": func(c *Config) { c.Producer = nil }, "format": func(c *Config) { c.Format = nil }, "clock": func(c *Config) { c.Now = nil },
		"requests": func(c *Config) { c.Requests = "" }, "rejects": func(c *Config) { c.Rejects = "" }, "partitions": func(c *Config) { c.Partitions = 0 },
		"logger": func(c *Config) { c.Logger = nil },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestWhoWaitsKnowsWhenAllIsInKafka: several goroutines wait for positions of a source. Each goes on when everything before its position is
// acknowledged, in whatever order partitions answer; and with an error when its patience ends, or when that cannot happen any more.
func TestWhoWaitsKnowsWhenAllIsInKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		slow := map[int]time.Duration{0: 3 * time.Second, 1: 2 * time.Second, 2: time.Second}
		b.fail = func(c kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Slow(slow[c.Partition]) }
		c := config(t, b)
		log, truth := text(rand.New(rand.NewPCG(1, 2)), 1000) // of all partitions
		end := int64(len(log))
		run(t, c, func(ctx context.Context, f *Feed) error {
			s := f.Source(schemas.ProducerID{1}, "file:x", 0)
			began := time.Now()
			if err := s.Text(ctx, log, 0, end); err != nil {
				return err
			}
			hasty, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
			defer cancel()
			var waiting errgroup.Group
			waiting.Go(func() error {
				if err := s.Wait(hasty, end); !errors.Is(err, ErrNotFlushed) || time.Since(began) != 2500*time.Millisecond {
					t.Errorf("hasty: got %v after %v", err, time.Since(began))
				}
				return nil
			})
			for range 3 {
				waiting.Go(func() error {
					if err := s.Wait(ctx, end); err != nil || time.Since(began) != 3*time.Second {
						t.Errorf("got %v after %v, want the slowest partition's 3 s", err, time.Since(began))
					}
					return s.Wait(ctx, 0)
				})
			}
			if err := waiting.Wait(); err != nil {
				return err
			}
			gone, stop := context.WithCancel(ctx)
			stop()
			waiting.Go(func() error { return s.Wait(ctx, end+1) })
			synctest.Wait()
			if err := s.Text(gone, log, end, 2*end); err == nil {
				t.Error("got no error from a text that was never queued")
			}
			if err := waiting.Wait(); !errors.Is(err, ErrNotFlushed) {
				t.Errorf("behind what was never queued: got %v", err)
			}
			if err := s.Close(); !errors.Is(err, ErrNotFlushed) {
				t.Errorf("close: got %v", err)
			}
			return nil
		})
		equal(t, b.count(t), truth)
	})
}
