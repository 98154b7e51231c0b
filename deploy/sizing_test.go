package deploy

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// What the recipe in README.md counts with.
const (
	sizingRows     = 200_000 // of a partition
	sizingRate     = 200_000 // requests × callers per second of an analyzer
	sizingBase     = 250 << 20
	sizingRow      = 600 // bytes of memory
	sizingLine     = 110 // bytes of the topic of requests, for a line of a log
	sizingRecorded = 60  // bytes of it for a request that a recorder sends
	sizingSnapshot = 80  // bytes of the topic of state, for a row
)

// TestSizingTable: each row of the table is what the recipe above it gives, with the defaults of the flags.
func TestSizingTable(t *testing.T) {
	text := readFile(t, "README.md")
	for _, said := range []string{
		"1 for each 200,000 rows, 4 or more", "1 for each 200,000 × callers/s", "250 MiB, and 600 bytes a row", "110 bytes for each request and caller",
		"send 60 at most", "80 bytes a row", "250,000 by default", "7 days by default, and 20 minutes", "each 10 minutes",
	} {
		if !strings.Contains(text, said) {
			t.Errorf("README.md does not say %q, which the table counts with", said)
		}
	}
	if fold.DefaultMaxRows != 250_000 || kafkaio.DefaultOutage != 7*24*time.Hour || kafkaio.DefaultSnapshotCycle != 10*time.Minute || analyzer.DefaultSnapshot != 10*time.Minute {
		t.Error("defaults have changed: the recipe counts with others")
	}
	keep := (kafkaio.DefaultOutage + 2*kafkaio.DefaultSnapshotCycle).Seconds()
	rows := regexp.MustCompile(`(?m)^\| ([\d,]+) \| ([\d,]+) \| (.+) \|$`).FindAllStringSubmatch(text, -1)
	for _, row := range rows {
		rate, n := figure(t, row[1]), figure(t, row[2])
		want := fmt.Sprintf("%.0f | %.0f | %s MiB | %s GB | %s GB", max(4, math.Ceil(n/sizingRows)), 1+math.Ceil(rate/sizingRate),
			thousands(math.Ceil((sizingBase+sizingRow*n)/(1<<20))), thousands(sizingLine*rate*keep/1e9), thousands(sizingSnapshot*n*keep/600/1e9))
		if row[3] != want {
			t.Errorf("%s requests/s and %s rows: got %s, want %s", row[1], row[2], row[3], want)
		}
	}
	if len(rows) != 4 {
		t.Errorf("got %d rows, want 4", len(rows))
	}
}

func figure(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// thousands writes a number below a million with a comma.
func thousands(f float64) string {
	n := int(math.Round(f))
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// TestSizingBytesAreThoseOfFrames: a line of a log and a recorded request take no more of Kafka than the recipe says, nor half
// of it: a thousand addresses that ask for one of two hundred routes each.
func TestSizingBytesAreThoseOfFrames(t *testing.T) {
	const entries = 1000
	frame := func(source bool) float64 {
		f := schemas.Frame{Producer: schemas.ProducerID{1}, Seq: 1, Partitions: 4}
		if f.Source = source; source {
			f.Seq = 0
		}
		for i := range entries {
			e := schemas.Entry{Kind: "ip", ID: fmt.Sprintf("203.0.%d.%d", 100+i/256, i%256), Resource: fmt.Sprintf("/api/v1/users/%d", i%200), Count: 1}
			f.Entries = append(f.Entries, e)
			if source { // a line is a request and its response
				e.Response, e.Status = true, 200
				f.Entries = append(f.Entries, e)
			}
		}
		value, err := f.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		return float64(len(value)) / entries
	}
	for name, test := range map[string]struct{ got, said float64 }{
		"a line of a log": {frame(true), sizingLine}, "a recorded request": {frame(false), sizingRecorded},
	} {
		if test.got > test.said || test.got < test.said/2 {
			t.Errorf("%s: got %.1f bytes, want at most the %.0f of the recipe, and more than half of them", name, test.got, test.said)
		}
	}
}
