package kafkaprom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// TestAnOutageHasItsBeginning: an alert can say since when no broker answers.
func TestAnOutageHasItsBeginning(t *testing.T) {
	var outage kafkaio.Outage
	var away bool
	c := kafkaprom.NewOutage(func(time.Time) (kafkaio.Outage, bool) { return outage, away })
	want := func(reachable, since string) {
		t.Helper()
		text := `# HELP floodgate_kafka_reachable 0 while no broker has answered any call for three seconds or more, else 1.
# TYPE floodgate_kafka_reachable gauge
floodgate_kafka_reachable ` + reachable + `
# HELP floodgate_kafka_unreachable_since_seconds Unix time since which no broker answers; 0 while brokers answer.
# TYPE floodgate_kafka_unreachable_since_seconds gauge
floodgate_kafka_unreachable_since_seconds ` + since + "\n"
		if err := testutil.CollectAndCompare(c, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	outage = kafkaio.Outage{Since: time.Unix(1000, 5e8)}
	want("1", "0") // it has lasted less than three seconds
	away = true
	want("0", "1000.5")
}
