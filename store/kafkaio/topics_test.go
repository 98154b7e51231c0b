package kafkaio

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestEachFindingIsProvoked breaks one setting of one topic at a time.
func TestEachFindingIsProvoked(t *testing.T) {
	names := schemas.DefaultTopicNames()
	specs := make(map[string]TopicSpec)
	for _, s := range Specs(names, 8) {
		specs[s.Name] = s
		if found := s.Check(s.Partitions, s.Config()); len(found) != 0 {
			t.Errorf("%s as it is created: got %v, want nothing", s.Name, found)
		}
	}
	const absent = "(gone)"
	for _, c := range []struct {
		topic, setting, value string
		want                  string // "" is fine
	}{
		{names.Requests, "cleanup.policy", "compact", "error, want delete"},
		{names.Requests, "cleanup.policy", "compact,delete", "error, want delete"},
		{names.Requests, "message.timestamp.type", "LogAppendTime", "warning, want CreateTime"},
		{names.Decisions, "message.timestamp.type", "LogAppendTime", "error, want CreateTime"},
		{names.Control, "message.timestamp.type", "LogAppendTime", "error, want CreateTime"},
		{names.Requests, "message.timestamp.after.max.ms", "9223372036854775807", "error, want <= 2000"},
		{names.Requests, "message.timestamp.after.max.ms", "1000", ""},
		{names.Requests, "message.timestamp.after.max.ms", absent, "error, want <= 2000"},
		{names.Requests, "retention.ms", "3600000", "error, want >= 606000000"},
		{names.Requests, "retention.ms", "604800000", "error, want >= 606000000"}, // Kafka's default: 7 days, and nothing for the cycles
		{names.Requests, "retention.ms", "-1", ""},
		{names.Requests, "retention.ms", "99999999999", ""},
		{names.Requests, "retention.ms", "soon", "error, want >= 606000000"},
		{names.Requests, "retention.bytes", "1073741824", "error, want -1"},
		{names.Requests, "max.message.bytes", "65536", "error, want >= 1048588"},
		{names.Requests, "max.message.bytes", "10485760", ""},
		{names.Decisions, "segment.ms", "604800000", "warning, want <= 3600000"},
		{names.Decisions, "segment.ms", "60000", ""},
		{names.State, "segment.ms", "604800000", "warning, want <= 3600000"},
		{names.State, "retention.ms", "86400000", "error, want >= 606000000"},
		{names.Rejects, "retention.ms", "1000", "error, want >= 86400000"},
		{names.Rejects, "cleanup.policy", "compact", "error, want delete"},
		{names.Control, "cleanup.policy", "compact", "error, want delete"},
		{names.Control, "retention.ms", "606000000", "error, want -1"},
		{names.Events, "retention.ms", "604800000", "error, want >= 2592000000"},
		{names.Events, "cleanup.policy", "compact", "error, want delete"},
	} {
		s := specs[c.topic]
		config := maps.Clone(s.Config())
		got := c.value
		if config[c.setting] = c.value; c.value == absent {
			delete(config, c.setting)
			got = "not known to the broker"
		}
		found := s.Check(s.Partitions, config)
		if c.want == "" {
			if len(found) != 0 {
				t.Errorf("%s, %s=%s: got %v, want nothing", c.topic, c.setting, c.value, found)
			}
			continue
		}
		if len(found) != 1 {
			t.Errorf("%s, %s=%s: got %v, want one", c.topic, c.setting, c.value, found)
			continue
		}
		f := found[0]
		if f.Topic != c.topic || f.Setting != c.setting || f.Got != got || f.Severity.String()+", want "+f.Want != c.want || f.Why == "" {
			t.Errorf("%s, %s=%s: got %v, want %s", c.topic, c.setting, c.value, f, c.want)
		}
	}
	found := specs[names.State].Check(4, specs[names.State].Config())
	if len(found) != 1 || found[0].String() != "error: floodgate.state: partitions: got 4, want 8: producers spread callers over another number: counts would split" {
		t.Errorf("got %v, want the number of partitions", found)
	}
}

// TestLayout makes retention follow the outage that must be survived.
func TestLayout(t *testing.T) {
	l := Layout{Names: schemas.DefaultTopicNames(), Partitions: 3, Replicas: 2, Outage: 24 * 3600e9, SnapshotCycle: 3600e9}
	for _, s := range l.Specs() {
		wantP, wantKeep := 3, "93600000" // a day and two cycles
		switch s.Name {
		case l.Names.Rejects:
			wantP, wantKeep = 1, "86400000"
		case l.Names.Control:
			wantP, wantKeep = 1, "-1"
		case l.Names.Events:
			wantKeep = "2592000000" // 30 days
		}
		if s.Partitions != wantP || s.Replicas != 2 || s.Config()["retention.ms"] != wantKeep {
			t.Errorf("%s: got %d partitions, %d replicas, kept %s, want %d, 2, %s", s.Name, s.Partitions, s.Replicas, s.Config()["retention.ms"], wantP, wantKeep)
		}
	}
}

// TestCheckTopicsOnABroker finds what was changed after the topics were made.
func TestCheckTopicsOnABroker(t *testing.T) {
	t.Parallel()
	b := startBroker(t, embedded.Options{})
	c := startClient(t, Config{Brokers: b.Addrs()})
	specs := Specs(schemas.DefaultTopicNames(), 2)
	if _, err := c.EnsureTopics(t.Context(), specs[:3]...); err != nil {
		t.Fatal(err)
	}
	r, err := c.admin.IncrementalAlterConfigs(t.Context(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: specs[1].Name,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "segment.ms", Value: "604800000", ConfigOperation: kafka.ConfigOperationSet},
				{Name: "cleanup.policy", Value: "compact", ConfigOperation: kafka.ConfigOperationSet},
			},
		}},
	})
	if err != nil || r.Resources[0].Error != nil {
		t.Fatal(err, r.Resources)
	}
	specs[0].Partitions = 5
	found, err := c.CheckTopics(t.Context(), specs...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.Topic+" "+f.Setting+" "+f.Got+" "+f.Severity.String())
	}
	want := []string{
		"floodgate.control topic missing, or hidden by ACLs error",
		"floodgate.decisions cleanup.policy compact error",
		"floodgate.decisions segment.ms 604800000 warning",
		"floodgate.events topic missing, or hidden by ACLs error",
		"floodgate.rejects topic missing, or hidden by ACLs error",
		"floodgate.requests partitions 2 error",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEitherSettingKeepsTheFutureOut: the topic of requests needs one of the two.
func TestEitherSettingKeepsTheFutureOut(t *testing.T) {
	const times, ahead, unbounded = "message.timestamp.type", "message.timestamp.after.max.ms", "9223372036854775807"
	spec := TopicSpec{Name: "requests", Settings: RequestTimes()}
	for _, c := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{times: "CreateTime", ahead: "2000"}, ""},
		{map[string]string{times: "LogAppendTime", ahead: unbounded}, "warning " + times},
		{map[string]string{times: "LogAppendTime"}, "warning " + times}, // before Kafka 3.6
		{map[string]string{times: "CreateTime", ahead: unbounded}, "error " + ahead},
		{map[string]string{times: "CreateTime"}, "error " + ahead},
	} {
		var got []string
		for _, f := range spec.Check(1, c.settings) {
			got = append(got, f.Severity.String()+" "+f.Setting)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%v: got %q, want %q", c.settings, got, c.want)
		}
	}
}

// TestEnsureTopicsOnAnOldBroker makes the topic of requests with the broker's time, where it is older than Kafka 3.6.
func TestEnsureTopicsOnAnOldBroker(t *testing.T) {
	b := startBroker(t, embedded.Options{})
	b.Cluster().ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		req := r.(*kmsg.CreateTopicsRequest)
		for _, config := range req.Topics[0].Configs {
			if config.Name == "message.timestamp.after.max.ms" {
				resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
				topic := kmsg.NewCreateTopicsResponseTopic()
				topic.Topic, topic.ErrorCode = req.Topics[0].Topic, kerr.InvalidConfig.Code
				resp.Topics = append(resp.Topics, topic)
				return resp, nil, true
			}
		}
		return nil, nil, false
	})
	c := startClient(t, Config{Brokers: b.Addrs()})
	specs := Specs(schemas.DefaultTopicNames(), 1)
	created, err := c.EnsureTopics(t.Context(), specs...)
	if err != nil || len(created) != 6 {
		t.Fatalf("got %v and %v, want all", created, err)
	}
	found, err := c.CheckTopics(t.Context(), specs...)
	if err != nil || len(found) != 1 || found[0].Setting != SettingTimes || found[0].Got != AppendTime || found[0].Severity != Warning {
		t.Errorf("got %v and %v, want that the times are the broker's", found, err)
	}
}

// TestEnsureTopicsTogether starts many processes at once.
func TestEnsureTopicsTogether(t *testing.T) {
	b := startBroker(t, embedded.Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := make(map[string]int)
	for range 6 {
		c := startClient(t, Config{Brokers: b.Addrs()})
		wg.Go(func() {
			created, err := c.EnsureTopics(t.Context(), Specs(schemas.DefaultTopicNames(), 2)...)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, name := range created {
				made[name]++
			}
		})
	}
	wg.Wait()
	for _, s := range Specs(schemas.DefaultTopicNames(), 2) {
		if made[s.Name] != 1 {
			t.Errorf("%s: got made %d times, want 1", s.Name, made[s.Name])
		}
	}
}

func TestEnsureTopicsRefused(t *testing.T) {
	b := startBroker(t, embedded.Options{})
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	c := startClient(t, Config{Brokers: b.Addrs()})
	created, err := c.EnsureTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1})
	if created != nil || err == nil || Temporary(err) || !strings.Contains(err.Error(), "create topic t") {
		t.Errorf("got %v and %v, want a refusal that says what was refused", created, err)
	}
}

// TestCheckSaysWhichBatchesAreNotRead tells of topics that take batches over maxBatch, floodgate's own and others'.
func TestCheckSaysWhichBatchesAreNotRead(t *testing.T) {
	specs := append(Specs(schemas.DefaultTopicNames(), 2), ForeignSpec("access"))
	for _, s := range specs {
		for value, want := range map[string]string{
			strconv.Itoa(maxBatch): "", strconv.Itoa(maxBatch + 1): "<= 67108864", "2147483647": "<= 67108864", "1048588": "",
		} {
			settings := s.Config()
			settings["max.message.bytes"] = value
			found := s.Check(s.Partitions, settings)
			if want == "" && len(found) != 0 || want != "" && (len(found) != 1 || found[0].Want != want || found[0].Severity != Warning) {
				t.Errorf("%s, %s: got %v, want %q", s.Name, value, found, want)
			}
		}
		if found := s.Check(s.Partitions, s.Config()); len(found) != 0 {
			t.Errorf("%s as it is made: got %v", s.Name, found)
		}
	}
	foreign := specs[len(specs)-1]
	if found := foreign.Check(17, map[string]string{}); len(found) != 0 {
		t.Errorf("a broker that does not say: got %v, want nothing", found)
	}
	c := startClient(t, Config{Brokers: startBroker(t, embedded.Options{}).Addrs()})
	roomyTopic(t, c, "access")
	found, err := c.CheckTopics(t.Context(), foreign, ForeignSpec("missing"))
	if err != nil || len(found) != 2 || found[0].Setting != "max.message.bytes" || found[0].Got != "100000000" ||
		found[1].Want != "a topic of any number of partitions" {
		t.Errorf("got %v and %v, want the size of its batches, and the missing one", found, err)
	}
}

// TestEnsureTopicsMakesWhatAnotherHasDeleted a moment ago, although this client's metadata still has the topic.
func TestEnsureTopicsMakesWhatAnotherHasDeleted(t *testing.T) {
	t.Parallel()
	b, c := withTopic(t, 1, Config{})
	produce(t, c, "t", 0, "one")
	other := startClient(t, Config{Brokers: b.Addrs()})
	if r, err := other.admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"t"}}); err != nil || r.Errors["t"] != nil {
		t.Fatal(err, r.Errors)
	}
	created, err := c.EnsureTopics(t.Context(), TopicSpec{Name: "t", Partitions: 2})
	if n, _ := c.Partitions(t.Context(), "t"); err != nil || !slices.Equal(created, []string{"t"}) || n != 2 {
		t.Errorf("got %q, %v and %d partitions, want the topic made anew with 2", created, err, n)
	}
}
