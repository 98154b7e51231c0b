package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

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
	if err != nil || !strings.Contains(out, "created floodgate.requests") || !strings.Contains(out, "5 topics, all as they should be") {
		t.Errorf("create: got %v,\n%s\nwant 5 topics created", err, out)
	}
	out, err = runCommand(append(brokers, "--create", "--partitions", "3", "--output", "json")...)
	if err != nil || !strings.Contains(out, `"created":[]`) {
		t.Errorf("create again: got %v,\n%s\nwant nothing created", err, out)
	}
	out, err = runCommand(append(brokers, "--partitions", "4")...)
	if err == nil || !strings.Contains(out, "partitions") {
		t.Errorf("4 partitions wanted: got %v,\n%s\nwant the 3 that there are found wrong", err, out)
	}
	out, err = runCommand(append(brokers, "--partitions", "3", "--outage", (30 * 24 * time.Hour).String())...)
	if err == nil || !strings.Contains(out, "retention.ms") {
		t.Errorf("a month's outage wanted: got %v,\n%s\nwant a week's retention found too short", err, out)
	}
}

// What is wrong is printed one finding a line, with what was found, what is wanted and why; only errors fail.
func TestTopicsFindings(t *testing.T) {
	finding := kafkaio.Finding{Topic: "floodgate.requests", Setting: "cleanup.policy", Got: "compact", Want: "delete", Severity: kafkaio.Error, Why: "counts would be lost"}
	warning := kafkaio.Finding{Topic: "floodgate.state", Setting: "segment.ms", Got: "7d", Want: "≤ 10m", Severity: kafkaio.Warning, Why: "old cycles stay long"}
	specs := kafkaio.Specs(kafkaio.DefaultTopicNames(), 4)
	tests := []struct {
		name     string
		findings []kafkaio.Finding
		created  []string
		err      string // empty is none
		table    []string
		json     []string
	}{
		{"nothing wrong", nil, []string{}, "", []string{"5 topics, all as they should be"}, []string{`{"created":[],"findings":0,"topics":5,"type":"summary"}`}},
		{
			"created", nil, []string{"floodgate.requests"}, "", []string{"created floodgate.requests\n5 topics"},
			[]string{`{"created":["floodgate.requests"],"findings":0,"topics":5,"type":"summary"}`},
		},
		{
			"a warning is no failure", []kafkaio.Finding{warning}, []string{}, "",
			[]string{"| warning | floodgate.state | segment.ms | 7d  | ≤ 10m | old cycles stay long |"},
			[]string{`"severity":"warning"`, `"want":"≤ 10m"`, `"findings":1`},
		},
		{
			"an error is one", []kafkaio.Finding{finding, warning}, []string{}, "topics: 1 settings are wrong",
			[]string{"|   error | floodgate.requests | cleanup.policy | compact | delete | counts would be lost |"},
			[]string{`{"got":"compact","setting":"cleanup.policy","severity":"error","topic":"floodgate.requests","type":"finding","want":"delete","why":"counts would be lost"}`, `"findings":2`},
		},
	}
	for _, test := range tests {
		for _, asJSON := range []bool{false, true} {
			var out strings.Builder
			err := printTopics(inside(&out, nil), asJSON, specs, test.created, test.findings)
			if test.err == "" && err != nil || test.err != "" && (err == nil || err.Error() != test.err) {
				t.Errorf("%s: got %v, want %q", test.name, err, test.err)
			}
			want := test.table
			if asJSON {
				want = test.json
			}
			for _, text := range want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%s: want %s in\n%s", test.name, text, &out)
				}
			}
		}
	}
}

// A cluster that is away is an error within seconds, not a wait: topics is run by hand and by scripts.
func TestTopicsWithoutACluster(t *testing.T) {
	t.Parallel()
	for _, create := range []bool{false, true} {
		began := time.Now()
		_, err := runCommand("topics", "--brokers", freeAddress(t), "--create="+strconv.FormatBool(create))
		if err == nil || !strings.Contains(err.Error(), "refused") || isUsage(err) {
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
	awaitReady(t, url, 200, "ok")
	a.waitFor(`level=WARN msg="topic is not as it should be" topic=floodgate.requests setting=retention.ms got=\S+ want=`, time.Second)
	if text := a.text(); strings.Contains(text, "setting=partitions") || !strings.Contains(text, `partitions="[0 1 2]"`) {
		t.Errorf("got\n%s\nwant the 3 partitions that there are, and no word about 2", text)
	}
}
