package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestTopicsOfABrokerBeforeKafka36: it does not know message.timestamp.after.max.ms, so that requests get the broker's time, and
// topics says that and what it costs.
func TestTopicsOfABrokerBeforeKafka36(t *testing.T) {
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Cluster().ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		req := r.(*kmsg.CreateTopicsRequest)
		if !slices.ContainsFunc(req.Topics[0].Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool { return c.Name == kafkaio.SettingAhead }) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		resp.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: req.Topics[0].Topic, ErrorCode: kerr.InvalidConfig.Code}}
		return resp, nil, true
	})
	out, err := runCommand("topics", "--brokers", b.Addr(), "--create", "--partitions", "3")
	const want = "created floodgate.requests with message.timestamp.type=LogAppendTime, since the broker does not know message.timestamp.after.max.ms\n"
	if err != nil || !strings.Contains(out, want) || !strings.Contains(out, "warning") || !strings.Contains(out, "shares would not add up") {
		t.Errorf("got %v,\n%s\nwant which setting, and what it costs", err, out)
	}
}

func TestTopicsAreCreatedOnceAndThenAsTheyShouldBe(t *testing.T) {
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	brokers := []string{"topics", "--brokers", b.Addr()}
	out, err := runCommand(brokers...)
	if err == nil || !strings.Contains(out, "floodgate.requests") {
		t.Errorf("no topics yet: got %v,\n%s\nwant each named as missing, and a failure", err, out)
	}
	out, err = runCommand(append(brokers, "--create", "--partitions", "3")...)
	if err != nil || !strings.Contains(out, "created floodgate.requests with message.timestamp.after.max.ms=2000\n") || !strings.Contains(out, "6 topics, all as they should be") {
		t.Errorf("create: got %v,\n%s\nwant 6 topics created", err, out)
	}
	out, err = runCommand(append(brokers, "--create", "--partitions", "3", "--output", "json")...)
	if err != nil || !strings.Contains(out, `"created":[]`) {
		t.Errorf("create again: got %v,\n%s\nwant nothing created", err, out)
	}
	for _, args := range [][]string{{"--partitions", "4"}, {"--partitions", "4", "--create"}} {
		out, err = runCommand(append(brokers, args...)...)
		if err == nil || !matches(`(?m)^\| error +\| floodgate.requests +\| partitions +\| 3 +\| 4 +\| .*floodgate repartition`, out) || strings.Count(out, "error") != 1 {
			t.Errorf("%q: got %v,\n%s\nwant the 3 that there are found wrong, and what changes that", args, err, out)
		}
	}
	out, err = runCommand(append(brokers, "--partitions", "3", "--outage", (30 * 24 * time.Hour).String())...)
	if err == nil || !strings.Contains(out, "retention.ms") {
		t.Errorf("a month's outage wanted: got %v,\n%s\nwant a week's retention found too short", err, out)
	}
}

// TestTopicsFindsNothingWrongWithWhatDaemonsMade, whatever number of partitions they were told.
func TestTopicsFindsNothingWrongWithWhatDaemonsMade(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte("no line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"ingest":  {"ingest", "--file", log, "--data", t.TempDir(), "--listen", "", "--partitions", "2"},
		"analyze": {"analyze", "--rules", rulesFile(t), "--data", t.TempDir(), "--listen", "", "--partitions", "7"},
		"topics":  {"topics", "--create", "--partitions", "3"},
	} {
		b := serveKafka(t, embedded.Options{MinSession: time.Second})
		begin(t, append(args, "--brokers", b.Addr())...)
		processtest.Eventually(t, 20*time.Second, name+": topics that are as they should be", func() bool {
			out, err := runCommand("topics", "--brokers", b.Addr())
			return err == nil && out == "6 topics, all as they should be\n"
		})
	}
}

// A cluster that is away is an error within seconds, not a wait: topics is run by hand and by scripts.
func TestTopicsWithoutACluster(t *testing.T) {
	t.Parallel()
	for _, create := range []bool{false, true} {
		began := time.Now()
		_, err := runCommand("topics", "--brokers", testenv.FreeAddress(t), "--create="+strconv.FormatBool(create))
		if err == nil || !strings.Contains(err.Error(), "refused") || command.IsUsage(err) {
			t.Errorf("create %v: got %v, want that the connection is refused", create, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("create %v: took %v", create, took)
		}
	}
}

// An analyzer says of each topic what is not as it should be, and counts nevertheless; the number of partitions is the
// topic's own, whatever the flag says.
func TestAnalyzeTakesTheTopicsAsTheyAre(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	if out, err := runCommand("topics", "--brokers", b.Addr(), "--create", "--partitions", "3", "--outage", "1h"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a, url := beginAnalyze(t, b.Addr(), t.TempDir()) // with --partitions 2
	processtest.AwaitReady(t, url, 200, "ok")
	a.WaitFor(`level=WARN msg="topic has a wrong setting" topic=floodgate.requests setting=retention.ms got=\S+ want=`, time.Second)
	if text := a.Text(); strings.Contains(text, "setting=partitions") || !strings.Contains(text, `partitions="[0 1 2]"`) {
		t.Errorf("got\n%s\nwant the 3 partitions that there are, and no word about 2", text)
	}
}

// A topic that takes longer batches than floodgate reads is named by topics, analyze and ingest: such a batch is lost.
func TestTopicsThatTakeBatchesWhichAreNotRead(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	client := kafkaio.New(kafkaio.Config{Brokers: b.Addrs()})
	defer client.Close()
	spec := kafkaio.Specs(schemas.DefaultTopicNames(), 2)[0]
	for i := range spec.Settings {
		if spec.Settings[i].Name == "max.message.bytes" {
			spec.Settings[i].Value = "100000000"
		}
	}
	foreign := kafkaio.TopicSpec{Name: "access", Partitions: 1, Settings: []kafkaio.Setting{{Name: "max.message.bytes", Value: "67108865"}}}
	if _, err := client.EnsureTopics(t.Context(), spec, foreign); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand("topics", "--brokers", b.Addr(), "--create", "--partitions", "2")
	if err != nil || !strings.Contains(out, "warning | floodgate.requests | max.message.bytes | 100000000 | <= 67108864 | a longer batch is not read") {
		t.Errorf("topics: got %v,\n%s\nwant a warning, which is no failure", err, out)
	}
	a, url := beginAnalyze(t, b.Addr(), t.TempDir())
	processtest.AwaitReady(t, url, 200, "ok")
	warning := `level=WARN msg="topic has a wrong setting" topic=%s setting=max.message.bytes got=%s want="<= 67108864"`
	a.WaitFor(fmt.Sprintf(warning, "floodgate.requests", "100000000"), time.Second)
	in := start(t, "ingest", "--brokers", b.Addr(), "--topic", "access", "--format", "combined")
	in.WaitFor(fmt.Sprintf(warning, "access", "67108865"), 10*time.Second)
}

// TestTopicsMakeAPartitionKey that is random, readable by its owner alone, made once, and then used by all.
func TestTopicsMakeAPartitionKey(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	dir := t.TempDir()
	path := filepath.Join(dir, "etc", "floodgate", "partition.key") // in directories that there are not yet
	create := []string{"topics", "--brokers", b.Addr(), "--create", "--partitions", "2", "--partition-key-file", path}
	if out, err := runCommand("topics", "--brokers", b.Addr(), "--partition-key-file", path); err == nil || !strings.Contains(err.Error(), "--create makes it") {
		t.Errorf("without --create: got %v and\n%s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("without --create: got %v, %v, want nothing made", left, err)
	}
	out, err := runCommand(create...)
	if err != nil || !strings.Contains(out, "partition.key: created, fingerprint ") || !strings.Contains(out, "created floodgate.requests") {
		t.Fatalf("got %v and\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	info, serr := os.Stat(path)
	if err != nil || serr != nil || !matches(`^[0-9a-f]{32}\n$`, string(text)) || info.Mode() != 0o600 {
		t.Errorf("got %q, %v, %v, %v, want 32 digits that the owner alone reads", text, info.Mode(), err, serr)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want the key alone", left, err)
	}
	if strings.Contains(out, strings.TrimSpace(string(text))) {
		t.Errorf("got\n%s\nwhich shows the key", out)
	}
	out, err = runCommand(append(create, "--output", "json")...)
	again, rerr := os.ReadFile(path)
	if err != nil || rerr != nil || string(again) != string(text) || !strings.Contains(out, `"created":false`) || !strings.Contains(out, `"type":"partition_key"`) {
		t.Errorf("a second time: got %v and\n%s\nand %q, want %q kept", err, out, again, text)
	}

	log := filepath.Join(dir, "access.log")
	line := `192.0.2.1 - - [` + time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700") + `] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"
	if err := os.WriteFile(log, []byte(strings.Repeat(line, 7)), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules: [{name: r, callers: ip, limit: 5, window: 1h}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	counts := []string{"--rules", rules, "--data", filepath.Join(dir, "counts")}
	keyed := []string{"--brokers", b.Addr(), "--partition-key-file", path}
	a := begin(t, append(append([]string{"analyze", "--listen", "127.0.0.1:0", "--session-timeout", "2s"}, keyed...), counts...)...)
	url := "http://" + a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	for _, args := range [][]string{keyed, {"--brokers", b.Addr()}} { // the second one has no key, and is refused
		ingest := append([]string{"ingest", "--once", "--listen", "", "--file", log, "--data", filepath.Join(dir, strconv.Itoa(len(args)))}, args...)
		if out, err := runCommand(ingest...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	processtest.Eventually(t, 20*time.Second, "seven lines counted, and a frame refused", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") == 7 && // and not once more for their responses
			processtest.MetricSum(metrics, "floodgate_responses_total") == 7 &&
			processtest.MetricSum(metrics, "floodgate_rejected_total") > 0
	})
	if _, err := a.End(); err != nil {
		t.Fatal(err)
	}
	if out, err := runCommand(append(append([]string{"audit"}, keyed...), counts...)...); err != nil || !strings.Contains(out, " 7 requests and 7 responses in 14 entries") {
		t.Errorf("audit: got %v and\n%s", err, out)
	}
}

// TestABadPartitionKeyIsRefused, and nothing is made in its place.
func TestABadPartitionKeyIsRefused(t *testing.T) {
	b := serveKafka(t, embedded.Options{})
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":    {"", "got 0 characters, want 32"},
		"short":    {"00112233", "got 8 characters, want 32"},
		"long":     {strings.Repeat("ab", 17), "got 34 characters, want 32"},
		"no hex":   {strings.Repeat("gh", 16), "want 32 hexadecimal"},
		"zeros":    {strings.Repeat("00", 16), "got zeros only"},
		"public":   {hex.EncodeToString([]byte("floodgate-public")), "got the public key, want a random one"},
		"endless":  {strings.Repeat(" ", 1<<20), "want 32 hexadecimal"},
		"dangling": {"", "read partition key: "},
		"file/key": {"", "read partition key: "}, // a file is in the way
	} {
		path := filepath.Join(dir, name)
		switch name {
		case "dangling":
		case "file/key":
			if err := os.WriteFile(filepath.Dir(path), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := runCommand("topics", "--brokers", b.Addr(), "--create", "--partition-key-file", path)
		if err == nil || !strings.Contains(err.Error(), test.want) || command.IsUsage(err) || out != "" {
			t.Errorf("%s: got %v and %q, want %q", name, err, out, test.want)
		}
		if test.text != "" {
			if text, err := os.ReadFile(path); err != nil || string(text) != test.text {
				t.Errorf("%s: got %.40q, %v, want it as it was", name, text, err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left behind", left, err)
	}
	if _, err := runCommand("topics", "--brokers", b.Addr()); err == nil || !strings.Contains(err.Error(), "wrong setting") {
		t.Errorf("got %v, want that no topic was created beside a bad key", err)
	}
}

// TestAKeyIsMadeOnce by many at the same time: all of them get the same one.
func TestAKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partition.key")
	var g errgroup.Group
	keys, made := make([]schemas.PartitionKey, 16), atomic.Int64{}
	for i := range keys {
		g.Go(func() error {
			key, first, err := (&option.Key{Path: path}).Secret(true)
			if first {
				made.Add(1)
			}
			keys[i] = key
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(slices.Compact(keys)) != 1 || made.Load() != 1 || keys[0] == (schemas.PartitionKey{}) {
		t.Errorf("got %d keys, %d of them made, want one", len(slices.Compact(keys)), made.Load())
	}
	other, _, err := (&option.Key{Path: path + "2"}).Secret(true)
	if err != nil || other == keys[0] {
		t.Errorf("another file: got the same key, %v", err)
	}
}
