package kafkaio

import (
	"errors"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestOldestKafka starts brokers that speak what old releases spoke.
func TestOldestKafka(t *testing.T) {
	for _, c := range []struct {
		release string
		speaks  *kversion.Versions
		lacks   string // part of the error; empty is none
	}{
		{"1.1", kversion.V1_1_0(), "CreateTopics up to version 2, want 4"},
		{"2.3", kversion.V2_3_0(), "CreateTopics up to version 3, want 4"},
		{oldestKafka, kversion.V2_4_0(), ""},
		{"3.6", kversion.V3_6_0(), ""},
		{"4.1", kversion.V4_1_0(), ""},
	} {
		t.Run(c.release, func(t *testing.T) {
			b := startBroker(t, embedded.Options{Cluster: []kfake.Opt{kfake.MaxVersions(c.speaks)}})
			client := startClient(t, Config{Brokers: b.Addrs()})
			err := client.CheckBrokers(t.Context())
			if c.lacks == "" {
				if err != nil {
					t.Fatalf("got %v, want all that is needed", err)
				}
				makeTopic(t, client, "t", 2) // and what is said to be enough is
				produce(t, client, "t", 1, "a")
				if got := fetchAll(t, client, "t", 1, 0); len(got) != 1 {
					t.Errorf("got %d records, want 1", len(got))
				}
				return
			}
			if !errors.Is(err, ErrVersion) || Temporary(err) || !strings.Contains(err.Error(), c.lacks) || !strings.Contains(err.Error(), b.Addr()) {
				t.Errorf("got %v, want %q of %s, and not temporary", err, c.lacks, b.Addr())
			}
		})
	}
}

func TestWhatBrokersLack(t *testing.T) {
	speaks := func(change func(key protocol.ApiKey, v *kafka.ApiVersionsResponseApiKey) bool) (all []kafka.ApiVersionsResponseApiKey) {
		for _, n := range needs() {
			v := kafka.ApiVersionsResponseApiKey{ApiKey: int(n.key), MinVersion: n.minVersion, MaxVersion: n.maxVersion}
			if change(n.key, &v) {
				all = append(all, v)
			}
		}
		return all
	}
	if err := lacking(speaks(func(protocol.ApiKey, *kafka.ApiVersionsResponseApiKey) bool { return true })); err != nil {
		t.Errorf("all there: got %v", err)
	}
	err := lacking(speaks(func(key protocol.ApiKey, v *kafka.ApiVersionsResponseApiKey) bool {
		switch key {
		case protocol.Produce:
			v.MinVersion, v.MaxVersion = 0, 2
		case protocol.Fetch:
			v.MinVersion, v.MaxVersion = 12, 30
		case protocol.JoinGroup:
			return false
		}
		return true
	}))
	for _, want := range []string{"Produce up to version 2, want 3", "Fetch from version 12, want 11", "newer than this floodgate", "got no JoinGroup"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestCheckBrokersWithoutOne(t *testing.T) {
	if err := startClient(t, Config{}).CheckBrokers(t.Context()); !errors.Is(err, ErrNoBrokers) {
		t.Errorf("got %v, want %v", err, ErrNoBrokers)
	}
	away := startClient(t, Config{Brokers: []string{"127.0.0.1:1"}})
	if err := away.CheckBrokers(t.Context()); !Temporary(err) || errors.Is(err, ErrVersion) {
		t.Errorf("nobody there: got %v, want something temporary", err)
	}
}
