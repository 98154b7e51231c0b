package analyzerprom_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/schemas"
)

// analyzerOf is an analyzer that a test makes up.
type analyzerOf []analyzer.OwnerStats

func (a analyzerOf) Stats() []analyzer.OwnerStats { return a }

// observed is a histogram of some measurements.
func observed(bounds []float64, values ...float64) histogram.Snapshot {
	h := histogram.New(bounds)
	for _, v := range values {
		h.Observe(v)
	}
	return h.Snapshot()
}

// full is an owner about which there is everything to say, each number another.
func full() analyzer.OwnerStats {
	s := analyzer.OwnerStats{Partition: 3, State: analyzer.Running, Next: 101, Committed: 102, Snapshots: 103, Unshown: 104, Ahead: 106, OtherLogs: 107}
	s.Fold.Frames, s.Fold.Entries, s.Fold.Requests, s.Fold.Duplicate, s.Fold.TooOld, s.Fold.Gaps = 1, 2, 3, 4, 5, 6
	s.Fold.Lost, s.Fold.Late, s.Fold.Displaced, s.Fold.Waiting, s.Fold.Closes, s.Fold.Warnings = 7, 8, 9, 10, 11, 12
	s.Fold.Overshoot, s.Fold.Rows, s.Fold.Senders = 0.125, 14, 15
	s.Fold.Responses = 105
	s.Fold.Rejected = map[string]uint64{"crc": 16, "a\xffb": 17}
	s.Fold.Rules = []fold.RuleStats{
		{
			Rule: "per-ip", Mode: schemas.ModeEnforce, Uncounted: 18, Recovered: 19, Counted: 61, Blocked: 62,
			Enforced: fold.Tally{Closes: 28, Warnings: 29}, Shadowed: fold.Tally{Closes: 30}, WouldBlock: 31,
		},
		{Rule: "per-key", Mode: schemas.ModeShadow, Uncounted: 20, Counted: 63, WouldBlock: 64, Shadowed: fold.Tally{Closes: 32, Warnings: 33}},
	}
	s.Publish.Lags = observed(histogram.Seconds(), 0.07, 0.5, 400)
	s.Fold.Overs = observed(histogram.Ratios(), 0, 0.25)
	s.Commits = observed(histogram.Seconds(), 0.01, 2, 2)
	s.Publish.Epoch, s.Publish.Decisions, s.Publish.Repeats, s.Publish.Retries, s.Publish.InForce = 21, 22, 23, 24, 25
	s.Publish.Kinds = [outbox.Kinds]uint64{outbox.Closed: 37, outbox.Moved: 38, outbox.Opened: 39, outbox.Early: 40, outbox.Share: 41}
	s.Publish.Spared = 42
	s.Publish.ClosedBy = map[outbox.RuleMode]int{{Rule: "per-ip", Mode: schemas.ModeEnforce}: 65, {Rule: "_control", Mode: schemas.ModeEnforce}: 66}
	s.SnapshotAge, s.Restore = 67*time.Second, 68*time.Second
	s.Fold.InForceBy = override.Counts{schemas.ControlClose: 69, schemas.ControlOpen: 70, schemas.ControlLimit: 71, schemas.ControlMode: 72}
	s.Fold.InForce, s.Fold.ControlRefused = 45, map[string]uint64{"full": 46, "over": 47}
	s.Control = analyzer.ControlStats{Next: 48, End: 98, Trouble: errors.New("away"), Again: 49, Later: 51, Unreadable: 52, Lost: 53}
	for i := range s.Control.Applied {
		s.Control.Applied[i] = uint64(54 + i)
	}
	s.Fold.Bounds = observed(histogram.Ratios(), 0.05, 0.5, 20)
	s.Fold.Pools = []fold.PoolStats{{
		Rule: "search", Capacity: 73, Level: pool.Level{Level: 74_500, Asked: 75, Above: 76}, Protected: true, TallyAge: 77_500_000_000,
	}, {Rule: "quiet", Capacity: 78}}
	s.Fold.PoolDropped, s.PoolReplaced = map[string]uint64{fold.PoolOld: 79}, 80
	s.Publish.Lag, s.Publish.GateLag = 26*time.Millisecond, 27*time.Millisecond
	return s
}

// TestMetricsAreThoseThatPeopleQuery: dashboards and alerts know the names, labels, types and helps. All of them, and their
// values, are in testdata; a change there is a change for those people.
func TestMetricsAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := analyzerprom.New(analyzerOf{full(), {Partition: 12, State: analyzer.Idle}}.Stats)
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestAPartitionThatIsGivenAwayIsShownNoMore: its series end, or they would be added to those of its next owner.
func TestAPartitionThatIsGivenAwayIsShownNoMore(t *testing.T) {
	owned := analyzerOf{full(), {Partition: 12}}
	c := analyzerprom.New(func() []analyzer.OwnerStats { return owned })
	before := testutil.CollectAndCount(c, "floodgate_requests_total", "floodgate_partition_state")
	owned = owned[1:]
	after := testutil.CollectAndCount(c, "floodgate_requests_total", "floodgate_partition_state")
	if before != 4 || after != 2 {
		t.Errorf("got %d series and then %d, want 4 and 2", before, after)
	}
}

// TestNoPartitionIsNoSeries: an analyzer that owns nothing shows nothing, and is no error.
func TestNoPartitionIsNoSeries(t *testing.T) {
	if n := testutil.CollectAndCount(analyzerprom.New(analyzerOf{}.Stats)); n != 0 {
		t.Errorf("got %d series, want none", n)
	}
}

// TestEachKindOfDecisionIsShownFromTheStart, so that a rate has something to begin with, and an alert does not wait for the first
// of a kind. Their names are what people read in the help of the metric's label.
func TestEachKindOfDecisionIsShownFromTheStart(t *testing.T) {
	const metric = "floodgate_decisions_by_kind_total"
	want := "# HELP " + metric + " Decisions published, without repeats, by what they do.\n# TYPE " + metric + " counter\n"
	for _, kind := range []string{"closed", "early", "moved", "opened", "share"} {
		want += metric + `{kind="` + kind + `",partition="0"} 0` + "\n"
	}
	if err := testutil.CollectAndCompare(analyzerprom.New(analyzerOf{{}}.Stats), strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
}

// TestEachReasonIsShownFromTheStart: the alert on refusals looks at a rate, which sees nothing of a series that begins with 1.
func TestEachReasonIsShownFromTheStart(t *testing.T) {
	owned := analyzerOf{{}, {Partition: 12}}
	c := analyzerprom.New(func() []analyzer.OwnerStats { return owned })
	for name, want := range map[string]int{"floodgate_rejected_total": 20, "floodgate_control_refused_total": 5} {
		if n := testutil.CollectAndCount(c, name); n != want {
			t.Errorf("%s: got %d series, want one for each of %d reasons", name, n, want)
		}
	}
	for _, err := range []error{
		schemas.ErrFrameShort, schemas.ErrFrameMagic, schemas.ErrFrameVersion, schemas.ErrFrameCRC, schemas.ErrFrameBounds, schemas.ErrFrameEntry,
		schemas.ErrFrameFull, schemas.ErrCallerKind, schemas.ErrCallerID, errors.New("another"),
	} {
		owned[1].Fold.Rejected = map[string]uint64{schemas.Reason(err): 3}
		if n := testutil.CollectAndCount(c, "floodgate_rejected_total"); n != 20 {
			t.Errorf("%v: got %d series, want its reason among the 20", err, n)
		}
	}
}
