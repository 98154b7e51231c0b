package demo

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

func TestAuditFindsASingleRequest(t *testing.T) {
	tests := map[string]struct {
		generator totals
		log       logCount
		store     int64
		want      string // of what is wrong; empty: nothing
	}{
		"exact":                    {totals{admitted: 5, blocked: 2}, logCount{5, 2}, 7, ""},
		"log misses one":           {totals{admitted: 5, blocked: 2}, logCount{4, 2}, 6, "generator saw 5 admitted"},
		"log has one too many":     {totals{admitted: 5, blocked: 2}, logCount{5, 3}, 8, "the log 5 and 3"},
		"blocked taken for not":    {totals{admitted: 5, blocked: 2}, logCount{6, 1}, 7, "the log 6 and 1"},
		"store misses one":         {totals{admitted: 5, blocked: 2}, logCount{5, 2}, 6, "the store 6"},
		"store counted one twice":  {totals{admitted: 5, blocked: 2}, logCount{5, 2}, 8, "the store 8"},
		"a request had no answer":  {totals{admitted: 5, failed: 1}, logCount{6, 0}, 6, "1 requests had no answer"},
		"nothing sent and nothing": {totals{}, logCount{}, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var a Audit
			a.compare("x", tt.generator, tt.log, tt.store)
			if a.OK() != (tt.want == "") || !strings.Contains(strings.Join(a.Wrong, "\n"), tt.want) {
				t.Errorf("got %+v, want %q found", a, tt.want)
			}
			s := Summary{Audit: a}
			if (s.Verdict() == nil) != (tt.want == "") {
				t.Errorf("verdict: got %v", s.Verdict())
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	ms := func(n ...int) (list []time.Duration) {
		for _, v := range n {
			list = append(list, time.Duration(v)*time.Millisecond)
		}
		return list
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	for name, c := range map[string]struct {
		lags []time.Duration
		want Lag
	}{
		"none": {nil, Lag{}}, "one": {ms(7), Lag{7, 7, 1}}, "out of order": {ms(9, 1, 5), Lag{5, 9, 3}}, "a hundred": {hundred, Lag{51, 100, 100}},
	} {
		if got := quantiles(c.lags); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// startLog returns a client of a broker with the demo's topics.
func startLog(t *testing.T, partitions int) *kafkaio.Client {
	t.Helper()
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := kafkaio.New(kafkaio.Config{Brokers: b.Addrs()})
	t.Cleanup(func() {
		client.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), partitions)...); err != nil {
		t.Fatal(err)
	}
	return client
}

// frame encodes entries of one producer.
func frame(t *testing.T, producer byte, seq uint64, entries ...schemas.Entry) []byte {
	t.Helper()
	f := schemas.Frame{
		Producer: schemas.ProducerID{producer}, Seq: seq, Flushed: 1e18, Partitions: 2,
		Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: entries,
	}
	for i := range entries {
		entries[i].Time = 1e18
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func put(t *testing.T, client *kafkaio.Client, partition int, values ...[]byte) {
	t.Helper()
	for _, v := range values {
		if _, err := client.Produce(t.Context(), "floodgate.requests", partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: v}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadLogCountsEachFrameOnce, however often its producer had to send it, and the same numbers of another producer or
// partition apart. Canaries and other kinds are no requests of the generator.
func TestReadLogCountsEachFrameOnce(t *testing.T) {
	client := startLog(t, 2)
	entry := func(id string, n uint32, blocked bool) schemas.Entry {
		return schemas.Entry{Kind: "key", ID: id, Count: n, Blocked: blocked}
	}
	first := frame(t, 1, 1, entry("a", 3, false), entry("a", 2, true), schemas.Entry{Kind: "ip", ID: "192.0.2.1", Count: 50})
	put(t, client, 0, first, frame(t, 1, 2, entry("b", 1, false)), first, first)
	put(t, client, 1, frame(t, 1, 1, entry("a", 10, false)), frame(t, 2, 1, entry("a", 100, false)))
	got, err := readLog(t.Context(), client, 2)
	want := map[string]logCount{"a": {113, 2}, "b": {1, 0}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	if got, err = readLog(t.Context(), client, 1); err != nil || !maps.Equal(got, map[string]logCount{"a": {3, 2}, "b": {1, 0}}) {
		t.Errorf("of the first partition: got %v and %v", got, err)
	}
}

// TestReadLogSaysWhatItCannotRead, and where: an audit that passed over it would call exact what it has not seen.
func TestReadLogSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	client := startLog(t, 2)
	good := frame(t, 1, 1, schemas.Entry{Kind: "key", ID: "a", Count: 1})
	bad := slices.Clone(good)
	bad[len(bad)-1] ^= 1
	put(t, client, 1, good, bad)
	if got, err := readLog(t.Context(), client, 2); err == nil || !strings.Contains(err.Error(), "partition 1, offset 1") {
		t.Errorf("got %v and %v, want the place of what is broken", got, err)
	}
	if _, err := readLog(t.Context(), client, 3); err == nil {
		t.Error("a partition that is not there: got no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readLog(ctx, client, 2); err == nil {
		t.Error("no time left: got no error")
	}
}

// TestReadStoresOfNothing: stores that are not there are an error, not an empty count that agrees with an empty log.
func TestReadStoresOfNothing(t *testing.T) {
	c := small(nil)
	set, err := c.Rules()
	if err != nil {
		t.Fatal(err)
	}
	d := &installation{config: c, dir: t.TempDir(), rules: set}
	if stored, _, err := d.readStores(); err == nil || !strings.Contains(err.Error(), "partition 0") {
		t.Errorf("got %v and %v, want an error that names the partition", stored, err)
	}
}

// TestAuditOfAllCallers: sums are over all callers, and each difference is named.
func TestAuditOfAllCallers(t *testing.T) {
	var a Audit
	a.compare("x", totals{admitted: 5, blocked: 2}, logCount{5, 2}, 7)
	a.compare("y", totals{admitted: 1}, logCount{1, 0}, 1)
	if a.Generator != 8 || a.Log != 8 || a.Store != 8 || !a.OK() || a.verdict() != "exact" {
		t.Errorf("got %+v, want 8 of each, and exact", a)
	}
	a.compare("z", totals{admitted: 2}, logCount{1, 0}, 1)
	a.compare("z2", totals{admitted: 1}, logCount{2, 0}, 2)
	if a.Generator != 11 || a.Log != 11 || a.Store != 11 || a.OK() || len(a.Wrong) != 2 || a.verdict() != "WRONG" {
		t.Errorf("got %+v, want sums that agree by chance, and nevertheless two differences", a)
	}
}

// TestHotPathIsMeasured with many callers and with fewer than a batch, and takes more than no time.
func TestHotPathIsMeasured(t *testing.T) {
	for _, quiet := range []int{1, 300} {
		d := &installation{servers: []*server{{set: gate.New(gate.Options{})}}, load: newLoad(Config{Quiet: quiet, QuietRate: 1}, nil)}
		if ns := d.hotPath(); ns <= 0 {
			t.Errorf("%d callers: got %v ns, want more", quiet, ns)
		}
	}
}
