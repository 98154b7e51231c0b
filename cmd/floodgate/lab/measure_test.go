//go:build lab

package lab

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// rig is a broker and an analyzer, each in a process of its own, whose work is measured. The broker is that of
// FLOODGATE_KAFKA or an embedded one.
type rig struct {
	t          testing.TB
	dir        string
	kafka      string // which Kafka, for people
	broker     string
	suffix     string // of topics and group
	rules      string // their path
	partitions int
	lives      int // of analyzers so far
	analyzer   *processtest.Program
	url        string
	client     *kafkaio.Client
}

func newRig(t testing.TB, rules string, partitions int) *rig {
	t.Helper()
	r := &rig{
		t: t, dir: t.TempDir(), kafka: "Apache Kafka", broker: os.Getenv("FLOODGATE_KAFKA"),
		suffix: fmt.Sprintf(".measure-%x", rand.Uint64()), partitions: partitions,
	}
	if r.broker == "" {
		r.kafka = "the embedded broker"
		r.broker = start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(r.dir, "log")).
			WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	}
	r.rules = filepath.Join(r.dir, "rules.yaml")
	if err := os.WriteFile(r.rules, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	r.client = kafkaio.New(kafkaio.Config{Brokers: strings.Split(r.broker, ",")})
	t.Cleanup(r.client.Close)
	return r
}

func (r *rig) topic(name string) string { return "floodgate." + name + r.suffix }

func (r *rig) data() string { return filepath.Join(r.dir, "counts") }

// analyze starts an analyzer and waits until it decides for all partitions. Each life has a group of its own, so that it
// need not wait until the session of the one before has run out. It returns how long opening took: from the first word of
// an owner to the last one's.
func (r *rig) analyze(flags ...string) (opened time.Duration) {
	r.t.Helper()
	r.lives++
	args := []string{
		"analyze", "--brokers", r.broker, "--rules", r.rules, "--data", r.data(), "--listen", "127.0.0.1:0",
		"--partitions", strconv.Itoa(r.partitions), "--group", fmt.Sprint("floodgate", r.suffix, ".", r.lives),
	}
	for _, topic := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
		args = append(args, "--topic-name", topic+"="+r.topic(topic))
	}
	r.analyzer = start(r.t, append(args, flags...)...)
	r.url = "http://" + r.analyzer.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	from := r.stamp(r.analyzer.WaitFor(`^time=(\S+) .*msg=owner.* state=opening`, time.Minute))
	processtest.Eventually(r.t, 5*time.Minute, "analyzer decides", func() bool {
		metrics, _ := processtest.Get(r.t.Context(), r.url+"/metrics")
		return strings.Count(metrics, `",state="running"} 1`) == r.partitions
	})
	to := from
	for line := range strings.Lines(r.analyzer.Text()) {
		if strings.Contains(line, "msg=owner") && strings.Contains(line, "state=running") {
			to = r.stamp(strings.TrimPrefix(strings.Fields(line)[0], "time="))
		}
	}
	return to.Sub(from)
}

func (r *rig) stamp(s string) time.Time {
	r.t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.999Z07:00", s)
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

// metric returns one of the analyzer's metrics, summed over its partitions.
func (r *rig) metric(name string) float64 {
	metrics, _ := processtest.Get(r.t.Context(), r.url+"/metrics")
	return processtest.MetricSum(metrics, name)
}

// catchUp waits until one of the analyzer's offsets is the log's end.
func (r *rig) catchUp(offset string, within time.Duration) {
	r.t.Helper()
	processtest.Eventually(r.t, within, "analyzer at the log's end", func() bool {
		at := r.metric(offset)
		return at == float64(r.end()) // of now: canaries come all the time
	})
}

// awaitSnapshots waits until so many snapshots of each partition are in the topic of state.
func (r *rig) awaitSnapshots(n int, within time.Duration) {
	r.t.Helper()
	processtest.Eventually(r.t, within, "snapshots of all partitions", func() bool {
		metrics, _ := processtest.Get(r.t.Context(), r.url+"/metrics")
		done := 0
		for line := range strings.Lines(metrics) {
			if strings.HasPrefix(line, "floodgate_snapshots_total{") && processtest.MetricSum(line, "floodgate_snapshots_total") >= float64(n) {
				done++
			}
		}
		return done == r.partitions
	})
}

// end is how many frames the log holds.
func (r *rig) end() (sum int64) {
	r.t.Helper()
	for p := range r.partitions {
		_, end, err := r.client.Range(r.t.Context(), r.topic("requests"), p)
		if err != nil {
			r.t.Fatal(err)
		}
		sum += end
	}
	return sum
}

func (r *rig) resident() (now, peak, own int64) { return resident(r.analyzer) }

// resident returns the memory that a process has now and had at most, in bytes, and how much of what it has now is its
// own: the rest is files that the system can drop. They are zeros where there is no /proc.
func resident(p *processtest.Program) (now, peak, own int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		return 0, 0, 0
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64) // no number: not one of ours
		switch f[0] {
		case "VmRSS:":
			now = n << 10
		case "VmHWM:":
			peak = n << 10
		case "RssAnon:":
			own = n << 10
		}
	}
	return now, peak, own
}

// cpu returns the processor time that the analyzer has taken, or 0 where there is no /proc.
func (r *rig) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.analyzer.Cmd.Process.Pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // a tick is 10 ms wherever Go runs on Linux
}

// onDisk returns the size of all files below a directory.
func onDisk(t testing.TB, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// quantile returns the q-quantile of sorted durations by the nearest-rank method; 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// histogram draws how long things took.
func histogram(took []time.Duration) string {
	sorted := slices.Sorted(slices.Values(took))
	bounds := []float64{1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000, math.Inf(1)} // ms
	var b strings.Builder
	fmt.Fprintf(&b, "p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, p99.9 %.1f ms, most %.1f ms, of %d\n",
		millis(quantile(sorted, 0.5)), millis(quantile(sorted, 0.9)), millis(quantile(sorted, 0.99)),
		millis(quantile(sorted, 0.999)), millis(quantile(sorted, 1)), len(sorted))
	last := 0
	for i, bound := range bounds {
		n := 0
		for ; n < len(sorted) && millis(sorted[n]) <= bound; n++ {
		}
		if n > 0 || (last > 0 && len(sorted) > 0) {
			label := fmt.Sprintf("≤ %4.0f ms", bound)
			if i == len(bounds)-1 {
				label = "  longer "
			}
			fmt.Fprintf(&b, "  %s %7d %s\n", label, n, strings.Repeat("#", (n*60+len(took)-1)/len(took)))
		}
		last, sorted = last+n, sorted[n:]
	}
	return b.String()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func TestHistogram(t *testing.T) {
	const ms = time.Millisecond
	got := histogram([]time.Duration{6 * ms, 2 * ms, 2 * ms, 2 * ms})
	want := "p50 2.0 ms, p90 6.0 ms, p99 6.0 ms, p99.9 6.0 ms, most 6.0 ms, of 4\n" +
		"  ≤    2 ms       3 " + strings.Repeat("#", 45) + "\n" +
		"  ≤    3 ms       0 \n  ≤    4 ms       0 \n  ≤    5 ms       0 \n" +
		"  ≤    6 ms       1 " + strings.Repeat("#", 15) + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := histogram(nil); !strings.HasSuffix(got, "of 0\n") {
		t.Errorf("of nothing: got %q", got)
	}
}
