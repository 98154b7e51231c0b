package ingestprom_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
)

// feedOf is a feed that a test makes up.
type feedOf feed.Stats

func (f feedOf) Stats() feed.Stats { return feed.Stats(f) }

// TestMetricsAreThoseThatPeopleQuery: dashboards and alerts know the names, labels, types and helps. All of them, and their
// values, are in testdata; a change there is a change for those people.
func TestMetricsAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := ingestprom.New(feedOf{
		Lines: 1, Entries: 2, Frames: 3, Bytes: 4, Retries: 5, Queued: 6, Dropped: 7, Lost: 8,
		Rejected: map[string]uint64{"time": 9, "a\xffb": 10}, Skipped: map[string]uint64{"crc": 11},
		Sources: []feed.SourceStats{{Name: "/var/log/a\xff.log", Acked: 12, Lag: 13}, {Name: "kafka:access/0", Acked: 14}},
		Topics:  []feed.TopicStats{{Name: "access", Partitions: 16}, {Name: "later"}},
	}.Stats, func() uint64 { return 15 }, func() uint64 { return 17 })
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
}

// TestZerosAreShown, so that an alert on its rate has something to begin with.
func TestZerosAreShown(t *testing.T) {
	c := ingestprom.New(feedOf{}.Stats, func() uint64 { return 0 }, func() uint64 { return 0 })
	want := "# HELP floodgate_ingest_lines_total Lines read.\n# TYPE floodgate_ingest_lines_total counter\nfloodgate_ingest_lines_total 0\n"
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "floodgate_ingest_lines_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(c); n != 10+9+5 {
		t.Errorf("got %d series, want one for each of 10 numbers, 9 reasons of lines and 5 of records, and none by source", n)
	}
}

// TestASourceThatEndedIsShownNoMore: a file that was rotated away has no position that people could still wait for.
func TestASourceThatEndedIsShownNoMore(t *testing.T) {
	f := feedOf{Sources: []feed.SourceStats{{Name: "file:a", Acked: 1}, {Name: "file:b", Acked: 2}}}
	c := ingestprom.New(func() feed.Stats { return feed.Stats(f) }, func() uint64 { return 0 }, func() uint64 { return 0 })
	before := testutil.CollectAndCount(c, "floodgate_ingest_position", "floodgate_ingest_lag")
	f.Sources = f.Sources[1:]
	after := testutil.CollectAndCount(c, "floodgate_ingest_position", "floodgate_ingest_lag")
	if before != 4 || after != 2 {
		t.Errorf("got %d series and then %d, want 4 and 2", before, after)
	}
}

// TestLostLogsAreThoseOfNow, at each scrape.
func TestLostLogsAreThoseOfNow(t *testing.T) {
	var lost uint64
	c := ingestprom.New(feedOf{}.Stats, func() uint64 { return lost }, func() uint64 { return 0 })
	for lost = range uint64(3) {
		want := fmt.Sprintf("# HELP floodgate_ingest_lost_logs_total Logs of which lines may be missing: gone, truncated without a copy, or unreadable.\n"+
			"# TYPE floodgate_ingest_lost_logs_total counter\nfloodgate_ingest_lost_logs_total %d\n", lost)
		if err := testutil.CollectAndCompare(c, strings.NewReader(want), "floodgate_ingest_lost_logs_total"); err != nil {
			t.Error(err)
		}
	}
}

// TestAlertsNameMetricsThatAreThere: an alert on a metric that is not there is never raised.
func TestAlertsNameMetricsThatAreThere(t *testing.T) {
	rules, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := ingestprom.New(feedOf{Sources: []feed.SourceStats{{Name: "a"}}, Topics: []feed.TopicStats{{Name: "b"}}}.Stats, func() uint64 { return 0 }, func() uint64 { return 0 })
	used := regexp.MustCompile(`floodgate_ingest_\w+`).FindAllString(string(rules), -1)
	if len(used) < 2 {
		t.Fatalf("got %v, want the metrics of two alerts or more", used)
	}
	for _, name := range used {
		if testutil.CollectAndCount(c, name) == 0 {
			t.Errorf("alerts.yaml uses %s, which is no metric of ingestprom", name)
		}
	}
}

// TestEachReasonForWhichALineIsRejectedIsKnown: none of them adds a series when it comes for the first time.
func TestEachReasonForWhichALineIsRejectedIsKnown(t *testing.T) {
	f := feedOf{Rejected: make(map[string]uint64)}
	c := ingestprom.New(func() feed.Stats { return feed.Stats(f) }, func() uint64 { return 0 }, func() uint64 { return 0 })
	before := testutil.CollectAndCount(c)
	for r := range ingest.Reasons {
		if r.Rejected() {
			f.Rejected[r.String()]++
		}
	}
	if after := testutil.CollectAndCount(c); len(f.Rejected) != 9 || after != before {
		t.Errorf("got %d reasons, %d series and then %d, want 9 and no more series", len(f.Rejected), before, after)
	}
}
