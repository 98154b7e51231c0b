package notifyprom_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
)

// made is a notifier that a test makes up.
type made notify.Stats

func (m made) Stats() notify.Stats { return notify.Stats(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return now }

// TestMetricsAreThoseThatPeopleQuery: dashboards and alerts know the names, labels, types and helps. All of them, and their
// values, are in testdata; a change there is a change for those people.
func TestMetricsAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := notifyprom.New(clock)
	c.Show(made{Refused: true, Endpoints: []notify.EndpointStats{
		{
			Name: "chat", Delivered: 1, Digests: 2, Dropped: map[string]uint64{notify.DroppedExpired: 3, notify.DroppedTemplate: 4}, Pending: 5,
			Oldest: now.Add(-6 * time.Second), Disabled: true, Unreadable: 7, Unknown: 8, Lost: 9,
		},
		{Name: "ops", Oldest: now.Add(time.Hour)},
	}}.Stats)
	for n, result := range notify.Results() {
		c.Observe(notify.Attempt{Endpoint: "chat", Took: time.Duration(n) * time.Second, Result: result})
	}
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
}

// TestSeriesAreThereFromTheStart, so that an alert on a rate has something to begin with; before there is a notifier there are none.
func TestSeriesAreThereFromTheStart(t *testing.T) {
	c := notifyprom.New(clock)
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("got %d series of nothing, want none", n)
	}
	c.Show(made{Endpoints: []notify.EndpointStats{{Name: "ops"}}}.Stats)
	for name, want := range map[string]int{
		"floodgate_webhook_requests_total": 1, "floodgate_webhook_errors_total": 3, "floodgate_webhook_delivered_events_total": 1,
		"floodgate_webhook_disabled": 1, "floodgate_webhook_oldest_seconds": 1, "floodgate_notify_settings_refused": 1,
	} {
		if n := testutil.CollectAndCount(c, name); n != want {
			t.Errorf("%s: got %d series, want %d", name, n, want)
		}
	}
}

// TestAlertsNameMetricsThatAreThere: an alert on a metric that is not there is never raised.
func TestAlertsNameMetricsThatAreThere(t *testing.T) {
	c := notifyprom.New(clock)
	c.Show(made{Endpoints: []notify.EndpointStats{{Name: "ops", Dropped: map[string]uint64{notify.DroppedExpired: 0}}}}.Stats)
	alerts, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`floodgate_(?:webhook|notify)_\w+`).FindAllString(string(alerts), -1)
	if len(names) == 0 {
		t.Fatal("got no alert about webhooks, want some")
	}
	for _, name := range names {
		if testutil.CollectAndCount(c, name) == 0 {
			t.Errorf("got an alert on %s, which there is not", name)
		}
	}
}

func TestTheOldestEventIsNeverFromTheFuture(t *testing.T) {
	c := notifyprom.New(clock)
	for oldest, want := range map[time.Time]string{{}: "0", now.Add(-time.Minute): "60", now.Add(time.Minute): "0"} {
		c.Show(made{Endpoints: []notify.EndpointStats{{Name: "ops", Oldest: oldest}}}.Stats)
		text := fmt.Sprintf("# HELP floodgate_webhook_oldest_seconds Age of the oldest of them; 0: there is none.\n"+
			"# TYPE floodgate_webhook_oldest_seconds gauge\nfloodgate_webhook_oldest_seconds{endpoint=\"ops\"} %s\n", want)
		if err := testutil.CollectAndCompare(c, strings.NewReader(text), "floodgate_webhook_oldest_seconds"); err != nil {
			t.Error(err)
		}
	}
}

// TestAnEndpointThatIsRemovedIsShownNoMore as pending or disabled; what was counted stays, as counters do.
func TestAnEndpointThatIsRemovedIsShownNoMore(t *testing.T) {
	c := notifyprom.New(clock)
	c.Show(made{Endpoints: []notify.EndpointStats{{Name: "chat", Disabled: true}, {Name: "ops"}}}.Stats)
	c.Observe(notify.Attempt{Endpoint: "chat", Result: notify.ResultGone})
	before := testutil.CollectAndCount(c, "floodgate_webhook_disabled", "floodgate_webhook_oldest_seconds")
	c.Show(made{Endpoints: []notify.EndpointStats{{Name: "ops"}}}.Stats)
	after := testutil.CollectAndCount(c, "floodgate_webhook_disabled", "floodgate_webhook_oldest_seconds")
	if before != 4 || after != 2 {
		t.Errorf("got %d series and then %d, want 4 and 2", before, after)
	}
	if n := testutil.CollectAndCount(c, "floodgate_webhook_requests_total"); n != 2 {
		t.Errorf("got %d counters, want that of each endpoint there was", n)
	}
}

// TestNoLabelIsChosenByCallers: all are names of the settings, or one of few words.
func TestNoLabelIsChosenByCallers(t *testing.T) {
	c := notifyprom.New(clock)
	c.Show(made{Endpoints: []notify.EndpointStats{{Name: "ops", Dropped: map[string]uint64{notify.DroppedExpired: 1}}}}.Stats)
	for _, result := range notify.Results() {
		for range 100 {
			c.Observe(notify.Attempt{Endpoint: "ops", Took: time.Second, Result: result})
		}
	}
	if n := testutil.CollectAndCount(c); n != 15 {
		t.Errorf("got %d series of one endpoint, want 15 however many attempts there are", n)
	}
}

// TestItCanBeRegistered, beside itself not.
func TestItCanBeRegistered(t *testing.T) {
	r := prometheus.NewRegistry()
	if err := r.Register(notifyprom.New(clock)); err != nil {
		t.Error(err)
	}
	if err := r.Register(notifyprom.New(clock)); err == nil {
		t.Error("got it registered twice, want an error: its metrics are the same")
	}
}
