package main

import (
	"strings"
	"testing"
	"time"

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
