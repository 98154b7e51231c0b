package gateprom_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// What servers have must fit.
var (
	_ gateprom.Set      = (*gate.Set)(nil)
	_ gateprom.Recorder = (*record.Recorder)(nil)
	_ gateprom.Link     = (*kafkalink.Link)(nil)
)

// Snapshots that tests make up.
type (
	setOf      gate.Status
	recorderOf record.Stats
	linkOf     kafkalink.Stats
)

func (s setOf) Status() gate.Status      { return gate.Status(s) }
func (r recorderOf) Stats() record.Stats { return record.Stats(r) }
func (l linkOf) Stats() kafkalink.Stats  { return kafkalink.Stats(l) }

// all is a server about which there is everything to say.
func all() gateprom.Options {
	requests := record.Stats{
		Accepted: 100, Acked: 70, Unknown: 5, Queued: 15, Dropped: map[record.Reason]uint64{record.Full: 7, record.Backlog: 3},
	}
	return gateprom.Options{
		Set: setOf{
			Mode: gate.Shadow, Policy: gate.Local, Kinds: []gate.KindStatus{{Kind: "ip", Closed: 3, Shadow: 1}, {Kind: "key"}},
			Bytes: 4096, Cold: 1, Fresh: 2, Stale: 1, Age: 4 * time.Second, Decided: time.UnixMilli(1_790_000_000_250),
			Applied: 11, Full: 12, Invalid: 13, Expired: 14, Rebuilds: 15, Refused: 16, Shares: 30, Ignored: 31,
			Refusals:     []gate.Refusals{{Rule: "per-ip", Refused: 17, Shadow: 18}, {Rule: "bad\xff", Refused: 19}},
			StaleRefused: gate.Refusals{Refused: 20},
			Partitions: []gate.PartitionStatus{
				{Partition: 0, Freshness: gate.Stale, Age: 4 * time.Second, Epoch: 7, Watermark: 1000, Lag: 3 * time.Millisecond},
				{Partition: 1},
			},
		},
		Link: linkOf{
			Connected: true, Partitions: 4, Frames: 21, Retries: 22, Canaries: 23, Backlog: 24, Decisions: 25, Heartbeats: 26,
			Refused: map[string]uint64{"fenced": 27, "crc": 28}, Restarts: 29, Requests: requests,
			Lag: kafkalink.Lag{Samples: 9, Sum: 90 * time.Millisecond, Within: [...]uint64{0, 1, 2, 2, 2, 2, 2, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
		},
		Partitions: true,
	}
}

func TestNamesAreAsPrometheusLikesThem(t *testing.T) {
	problems, err := testutil.CollectAndLint(gateprom.New(all()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A pedantic registry refuses metrics that were not described, or are there twice.
func TestEverythingIsDescribed(t *testing.T) {
	o := all()
	for name, o := range map[string]gateprom.Options{
		"all": o, "the set": {Set: o.Set}, "the recorder": {Recorder: recorderOf{}}, "the link": {Link: o.Link},
		"an empty set": {Set: setOf{}, Partitions: true}, "an empty link": {Link: linkOf{}},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(gateprom.New(o))
		families, err := registry.Gather()
		if err != nil || len(families) == 0 {
			t.Errorf("%s: got %d families and %v, want some and no error", name, len(families), err)
		}
		for _, f := range families {
			if f.GetHelp() == "" {
				t.Errorf("%s: %s has no help", name, f.GetName())
			}
		}
	}
}

// wantMetrics fails the test if o does not show these numbers under these names.
func wantMetrics(t *testing.T, o gateprom.Options, want string) {
	t.Helper()
	names := map[string]bool{}
	for line := range strings.Lines(want) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(line, "# TYPE "), " "); strings.HasPrefix(line, "# TYPE ") {
			names[name] = true
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(gateprom.New(o))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder // not what is tested here
	for _, f := range families {
		if names[f.GetName()] {
			help.WriteString("# HELP " + f.GetName() + " " + f.GetHelp() + "\n")
		}
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(help.String()+want), list...); err != nil {
		t.Error(err)
	}
}

func TestASetIsShown(t *testing.T) {
	wantMetrics(t, all(), `
# TYPE floodgate_gate_callers_refused_total counter
floodgate_gate_callers_refused_total 16
# TYPE floodgate_gate_callers_swept_total counter
floodgate_gate_callers_swept_total 14
# TYPE floodgate_gate_closed_callers gauge
floodgate_gate_closed_callers{kind="ip",mode="enforce"} 3
floodgate_gate_closed_callers{kind="ip",mode="shadow"} 1
floodgate_gate_closed_callers{kind="key",mode="enforce"} 0
floodgate_gate_closed_callers{kind="key",mode="shadow"} 0
# TYPE floodgate_gate_decision_age_seconds gauge
floodgate_gate_decision_age_seconds 4
# TYPE floodgate_gate_decisions_applied_total counter
floodgate_gate_decisions_applied_total 11
# TYPE floodgate_gate_decisions_dropped_total counter
floodgate_gate_decisions_dropped_total{reason="full"} 12
floodgate_gate_decisions_dropped_total{reason="invalid"} 13
# TYPE floodgate_gate_requests_refused_total counter
floodgate_gate_requests_refused_total{mode="enforce",rule=""} 20
floodgate_gate_requests_refused_total{mode="enforce",rule="bad�"} 19
floodgate_gate_requests_refused_total{mode="enforce",rule="per-ip"} 17
floodgate_gate_requests_refused_total{mode="shadow",rule=""} 0
floodgate_gate_requests_refused_total{mode="shadow",rule="bad�"} 0
floodgate_gate_requests_refused_total{mode="shadow",rule="per-ip"} 18
# TYPE floodgate_gate_last_decision_timestamp_seconds gauge
floodgate_gate_last_decision_timestamp_seconds 1.79000000025e+09
# TYPE floodgate_gate_mode gauge
floodgate_gate_mode{mode="enforce"} 0
floodgate_gate_mode{mode="off"} 0
floodgate_gate_mode{mode="shadow"} 1
# TYPE floodgate_gate_partition_age_seconds gauge
floodgate_gate_partition_age_seconds{partition="0"} 4
# TYPE floodgate_gate_partition_epoch gauge
floodgate_gate_partition_epoch{partition="0"} 7
# TYPE floodgate_gate_partition_freshness gauge
floodgate_gate_partition_freshness{freshness="cold",partition="0"} 0
floodgate_gate_partition_freshness{freshness="fresh",partition="0"} 0
floodgate_gate_partition_freshness{freshness="stale",partition="0"} 1
floodgate_gate_partition_freshness{freshness="cold",partition="1"} 1
floodgate_gate_partition_freshness{freshness="fresh",partition="1"} 0
floodgate_gate_partition_freshness{freshness="stale",partition="1"} 0
# TYPE floodgate_gate_partition_owner_lag_seconds gauge
floodgate_gate_partition_owner_lag_seconds{partition="0"} 0.003
# TYPE floodgate_gate_partition_watermark gauge
floodgate_gate_partition_watermark{partition="0"} 1000
# TYPE floodgate_gate_partitions gauge
floodgate_gate_partitions{freshness="cold"} 1
floodgate_gate_partitions{freshness="fresh"} 2
floodgate_gate_partitions{freshness="stale"} 1
# TYPE floodgate_gate_policy_info gauge
floodgate_gate_policy_info{policy="local"} 1
# TYPE floodgate_gate_shares gauge
floodgate_gate_shares 30
# TYPE floodgate_gate_shares_ignored_total counter
floodgate_gate_shares_ignored_total 31
# TYPE floodgate_gate_table_bytes gauge
floodgate_gate_table_bytes 4096
# TYPE floodgate_gate_table_rebuilds_total counter
floodgate_gate_table_rebuilds_total 15
`)
}

func TestALinkAndItsRecorderAreShown(t *testing.T) {
	wantMetrics(t, all(), `
# TYPE floodgate_link_backlog_entries gauge
floodgate_link_backlog_entries 24
# TYPE floodgate_link_canaries_total counter
floodgate_link_canaries_total 23
# TYPE floodgate_link_decisions_total counter
floodgate_link_decisions_total 25
# TYPE floodgate_link_frames_total counter
floodgate_link_frames_total 21
# TYPE floodgate_link_heartbeats_total counter
floodgate_link_heartbeats_total 26
# TYPE floodgate_link_lag_seconds histogram
floodgate_link_lag_seconds_bucket{le="0.001"} 0
floodgate_link_lag_seconds_bucket{le="0.002"} 1
floodgate_link_lag_seconds_bucket{le="0.003"} 2
floodgate_link_lag_seconds_bucket{le="0.005"} 2
floodgate_link_lag_seconds_bucket{le="0.0075"} 2
floodgate_link_lag_seconds_bucket{le="0.01"} 2
floodgate_link_lag_seconds_bucket{le="0.015"} 2
floodgate_link_lag_seconds_bucket{le="0.025"} 8
floodgate_link_lag_seconds_bucket{le="0.05"} 8
floodgate_link_lag_seconds_bucket{le="0.1"} 8
floodgate_link_lag_seconds_bucket{le="0.25"} 8
floodgate_link_lag_seconds_bucket{le="0.5"} 8
floodgate_link_lag_seconds_bucket{le="1"} 8
floodgate_link_lag_seconds_bucket{le="2.5"} 8
floodgate_link_lag_seconds_bucket{le="10"} 8
floodgate_link_lag_seconds_bucket{le="60"} 8
floodgate_link_lag_seconds_bucket{le="+Inf"} 9
floodgate_link_lag_seconds_sum 0.09
floodgate_link_lag_seconds_count 9
# TYPE floodgate_link_partitions gauge
floodgate_link_partitions 4
# TYPE floodgate_link_records_refused_total counter
floodgate_link_records_refused_total{reason="bounds"} 0
floodgate_link_records_refused_total{reason="codec"} 0
floodgate_link_records_refused_total{reason="corrupt"} 0
floodgate_link_records_refused_total{reason="crc"} 28
floodgate_link_records_refused_total{reason="epoch"} 0
floodgate_link_records_refused_total{reason="fenced"} 27
floodgate_link_records_refused_total{reason="malformed"} 0
floodgate_link_records_refused_total{reason="mode"} 0
floodgate_link_records_refused_total{reason="moved"} 0
floodgate_link_records_refused_total{reason="partition"} 0
floodgate_link_records_refused_total{reason="too_large"} 0
floodgate_link_records_refused_total{reason="unknown"} 0
# TYPE floodgate_link_restarts_total counter
floodgate_link_restarts_total 29
# TYPE floodgate_link_retries_total counter
floodgate_link_retries_total 22
# TYPE floodgate_link_up gauge
floodgate_link_up 1
# TYPE floodgate_recorder_requests_accepted_total counter
floodgate_recorder_requests_accepted_total 100
# TYPE floodgate_recorder_requests_acked_total counter
floodgate_recorder_requests_acked_total 70
# TYPE floodgate_recorder_requests_dropped_total counter
floodgate_recorder_requests_dropped_total{reason="backlog"} 3
floodgate_recorder_requests_dropped_total{reason="full"} 7
# TYPE floodgate_recorder_requests_queued gauge
floodgate_recorder_requests_queued 15
# TYPE floodgate_recorder_requests_unknown_total counter
floodgate_recorder_requests_unknown_total 5
`)
}

// What is not known is not shown as 0, which would look as if all were well.
func TestSeriesWithoutAValueAreLeftOut(t *testing.T) {
	shown := func(o gateprom.Options, name string) int {
		return testutil.CollectAndCount(gateprom.New(o), name)
	}
	for _, name := range []string{"floodgate_gate_decision_age_seconds", "floodgate_gate_last_decision_timestamp_seconds"} {
		if n := shown(gateprom.Options{Set: setOf{Cold: 4}}, name); n != 0 {
			t.Errorf("%s while all partitions are cold: got %d series, want none", name, n)
		}
	}
	for _, s := range []setOf{{Fresh: 1}, {Stale: 1}} {
		if n := shown(gateprom.Options{Set: s}, "floodgate_gate_decision_age_seconds"); n != 1 {
			t.Errorf("the age of %+v: got %d series, want 1", s, n)
		}
	}
	o := all()
	o.Partitions = false
	for _, name := range []string{"floodgate_gate_partition_age_seconds", "floodgate_gate_partition_freshness"} {
		if n := shown(o, name); n != 0 {
			t.Errorf("%s: got %d series, want none without Options.Partitions", name, n)
		}
	}
}

func TestARecorderComesBeforeTheLinks(t *testing.T) {
	o := all()
	o.Recorder = recorderOf{Accepted: 1, Acked: 1}
	wantMetrics(t, o, `
# TYPE floodgate_recorder_requests_acked_total counter
floodgate_recorder_requests_acked_total 1
`)
}

func TestNothingToShowPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got a Collector, want a panic")
		}
	}()
	gateprom.New(gateprom.Options{Partitions: true})
}

// A label distinguishes two Sets in one process.
func TestSeveralSetsInOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"public", "internal"} {
		labels := prometheus.Labels{"set": name}
		prometheus.WrapRegistererWith(labels, registry).MustRegister(gateprom.New(all()))
	}
	if n, err := testutil.GatherAndCount(registry, "floodgate_gate_table_bytes"); err != nil || n != 2 {
		t.Errorf("got %d series and %v, want 2", n, err)
	}
}

// Scrapes while everything goes on: what a scrape shows adds up, to the unit.
func TestEachScrapeConserves(t *testing.T) {
	set, rec := gate.New(gate.Options{}), record.New(record.Options{MaxEntries: 64})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: []string{"127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(gateprom.New(gateprom.Options{Set: set, Link: link, Partitions: true}))
	keys := set.Gate("key")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				var c gate.Callers
				c.Add(keys, strings.Repeat("k", 1+i%200))
				rec.Record(&c, set.Check(&c), record.Request{})
			}
		})
	}
	for range 50 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var accepted, settled float64
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch name := f.GetName(); {
				case name == "floodgate_recorder_requests_accepted_total":
					accepted += m.GetCounter().GetValue()
				case strings.HasPrefix(name, "floodgate_recorder_requests_"):
					settled += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
		if accepted != settled {
			t.Fatalf("got %v accepted, but %v acked, dropped, unknown or queued", accepted, settled)
		}
	}
	close(stop)
	wg.Wait()
}
