package ingest

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCLFClockReadsWhatTimeReads(t *testing.T) {
	const layout = "02/Jan/2006:15:04:05 -0700"
	var c clfClock // one for all, so that what it remembers of the last is put to the test
	rapid.Check(t, func(t *rapid.T) {
		sec := rapid.Int64Range(86400, maxSecond-86400).Draw(t, "sec")
		zone := rapid.Int64Range(-14*60, 14*60).Draw(t, "zone")
		for step := range int64(3) {
			at := time.Unix(sec+step*29, 0).In(time.FixedZone("", int(zone*60)))
			text := at.Format(layout)
			if got, ok := c.parse(text); !ok || got != at.UnixNano() {
				t.Fatalf("%s: got %d, %v, want %d", text, got, ok, at.UnixNano())
			}
		}
	})
}

func TestISOClockReadsWhatTimeReads(t *testing.T) {
	var c isoClock
	rapid.Check(t, func(t *rapid.T) {
		nanos := rapid.Int64Range(86400*second, (maxSecond-86400)*second).Draw(t, "nanos")
		zone := rapid.Int64Range(-14*60, 14*60).Draw(t, "zone")
		layout := rapid.SampledFrom([]string{
			time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04:05.000-0700", "2006-01-02 15:04:05.000000Z07:00", "2006-01-02T15:04:05,000Z0700",
		}).Draw(t, "layout")
		text := time.Unix(0, nanos).In(time.FixedZone("", int(zone*60))).Format(layout)
		want, err := time.Parse(layout, text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := c.parse(text); !ok || got != want.UnixNano() {
			t.Fatalf("%s: got %d, %v, want %d", text, got, ok, want.UnixNano())
		}
	})
}

func TestClocksRefuse(t *testing.T) {
	for _, text := range []string{
		"17/May/1969:10:05:03 +0000", "01/Jan/2262:00:00:00 +0000", "31/Dec/2261:23:59:60 +0000", "30/Feb/2015:10:05:03 +0000",
		"00/May/2015:10:05:03 +0000", "32/May/2015:10:05:03 +0000", "17/Mai/2015:10:05:03 +0000", "17/may/2015:10:05:03 +0000",
		"17-May-2015:10:05:03 +0000", "17/May/2015 10:05:03 +0000", "17/May/2015:24:05:03 +0000", "17/May/2015:10:60:03 +0000",
		"17/May/2015:10:05:61 +0000", "17/May/2015:10:05:03 00000", "17/May/2015:10:05:03 +2400", "17/May/2015:10:05:03 +0060",
		"17/May/2015:1a:05:03 +0000", "17/May/2015:10:05: 3 +0000", "17/May/2015:10:05:03-+0000", "17/May/2015:10:05:03T+0000",
		"01/Jan/1970:00:00:00 +0100", "17/May/2015:10.05.03 +0000", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0000\x00\x00\x00\x00\x00\x00",
	} {
		var c clfClock
		if got, ok := c.parse(text); ok {
			t.Errorf("%s: got %d", text, got)
		}
	}
	for _, text := range []string{
		"", "2015", "2015-05-17T10:05:03", "2015-05-17", "2015-05-17T10:05Z", "2015-05-17T10:05:03.Z", "2015-05-17T10:05:03.123",
		"2015-13-17T10:05:03Z", "2015-00-17T10:05:03Z", "2015-02-29T10:05:03Z", "2015-05-17T10:05:60Z", "2015-05-17T10:05:03+1",
		"2015-05-17T10:05:03Zx", "2015/05/17T10:05:03Z", "2015-05-17x10:05:03Z", "2015-05-17T10:05:03 UTC", "1969-12-31T23:59:59Z",
		"2262-01-01T00:00:00Z", "2015-05-17T10-05-03Z", "2015-05-17T10:05-03Z", "2015-05-17T10:05:3aZ", "2015-05-17T10:05:03+00:0",
	} {
		var c isoClock
		if got, ok := c.parse(text); ok {
			t.Errorf("%s: got %d", text, got)
		}
	}
}

func TestARefusedTimeIsNotRemembered(t *testing.T) {
	var c clfClock
	good, bad := "17/May/2015:10:05:03 +0000", "17/May/2015:99:05:03 +0000"
	for i, text := range []string{good, bad, bad, good} {
		if _, ok := c.parse(text); ok != (text == good) {
			t.Errorf("step %d, %s: got %v", i, text, ok)
		}
	}
}

func TestTimeLayouts(t *testing.T) {
	const want = 1431857103_123000000
	for _, c := range []struct {
		layout, text string
		want         int64
	}{
		{"auto", "2015-05-17T10:05:03.123Z", want},
		{"auto", "17/May/2015:10:05:03 +0000", 1431857103 * second},
		{"auto", "1431857103", 1431857103 * second},
		{"auto", "1431857103.123", want},
		{"auto", "1431857103.1239999999999", want + 999_999},
		{"auto", "1431857103123", want},
		{"auto", "1431857103123000", want},
		{"auto", "1431857103123000000", want},
		{"auto", "1.4318571e9", 1431857100 * second},
		{"auto", "0", 0},
		{"unix", "1431857103123", -1},
		{"unix", "1431857103.1", 1431857103_100000000},
		{"unix_ms", "1431857103123", want},
		{"unix_ms", "1431857103123.5", want + 500_000},
		{"unix_us", "1431857103123000", want},
		{"unix_ns", "1431857103123000000", want},
		{"unix_ns", "1431857103123000000.9", want},
		{"unix_ns", "99999999999999999999", -1},
		{"rfc3339", "1431857103", -1},
		{"clf", "2015-05-17T10:05:03.123Z", -1},
		{"auto", "-1", -1}, {"auto", "", -1}, {"auto", "yesterday", -1}, {"auto", "1e400", -1}, {"auto", "nan", -1}, {"auto", "1.2.3", -1},
		{"auto", ".5", -1}, {"auto", "true", -1},
	} {
		layout, err := ParseTimeLayout(c.layout)
		if err != nil || layout.String() != c.layout {
			t.Fatalf("layout %s: got %v, %v", c.layout, layout, err)
		}
		cl := clock{layout: layout}
		got, ok := cl.parse(c.text)
		if ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s %q: got %d, %v, want %d", c.layout, c.text, got, ok, c.want)
		}
	}
	if _, err := ParseTimeLayout("epoch"); err == nil {
		t.Error("got no error for an unknown layout")
	}
	if got := TimeLayout(99).String(); got != "unknown" {
		t.Errorf("got %q", got)
	}
}

func FuzzClock(f *testing.F) {
	for _, s := range []string{"17/May/2015:10:05:03 +0000", "2015-05-17T10:05:03.123+02:00", "1431857103.123", "1e9", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for layout := range timeLayouts {
			c := clock{layout: layout}
			got, ok := c.parse(s)
			if ok && (got < 0 || got > maxSecond*second+second-1) {
				t.Errorf("%v %q: %d is out of range", layout, s, got)
			}
			if again, okAgain := c.parse(s); ok != okAgain || again != got {
				t.Errorf("%v %q: got %d, %v, then %d, %v", layout, s, got, ok, again, okAgain)
			}
			want, err := time.Parse(map[TimeLayout]string{TimeRFC3339: time.RFC3339, TimeCLF: "02/Jan/2006:15:04:05 -0700"}[layout], s)
			if ok && err == nil && layout <= TimeCLF && layout > TimeAuto && want.UnixNano() != got {
				t.Errorf("%v %q: got %d, want %d", layout, s, got, want.UnixNano())
			}
		}
	})
}
