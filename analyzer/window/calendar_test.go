package window

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t interface {
	Helper()
	Fatal(args ...any)
}, name string,
) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// at reads a time such as 2026-03-29T00:00:00+01:00.
func at(t *testing.T, text string) int64 {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v.UnixNano()
}

func TestCalendarWindows(t *testing.T) {
	tests := []struct {
		why    string
		unit   Unit
		zone   string
		anchor int
		time   string
		start  string
		end    string
	}{
		{"a day", Day, "Europe/Berlin", 0, "2026-05-01T12:34:56+02:00", "2026-05-01T00:00:00+02:00", "2026-05-02T00:00:00+02:00"},
		{"the clock goes forward: 23 hours", Day, "Europe/Berlin", 0, "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"the clock goes back: 25 hours", Day, "Europe/Berlin", 0, "2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"midnight is skipped", Day, "America/Sao_Paulo", 0, "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"and the day before ends there", Day, "America/Sao_Paulo", 0, "2018-11-03T23:59:59-03:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"the hour before midnight comes twice", Day, "America/Sao_Paulo", 0, "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"midnight comes twice: the first counts", Day, "America/Havana", 0, "2025-11-02T00:30:00-05:00", "2025-11-02T00:00:00-04:00", "2025-11-03T00:00:00-05:00"},
		{"a minute of the new day, then the old one again", Day, "America/St_Johns", 0, "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"a date that a zone skipped", Day, "Pacific/Apia", 0, "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"the date after it", Day, "Pacific/Apia", 0, "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"far west of UTC", Day, "Pacific/Pago_Pago", 0, "2026-05-01T23:00:00-11:00", "2026-05-01T00:00:00-11:00", "2026-05-02T00:00:00-11:00"},
		{"a week begins on Monday", Week, "UTC", 0, "2026-05-03T23:59:59Z", "2026-04-27T00:00:00Z", "2026-05-04T00:00:00Z"},
		{"Monday itself", Week, "UTC", 0, "2026-05-04T00:00:00Z", "2026-05-04T00:00:00Z", "2026-05-11T00:00:00Z"},
		{"a week of 167 hours", Week, "Europe/Berlin", 0, "2026-03-28T00:00:00+01:00", "2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"a month", Month, "UTC", 1, "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"a leap month", Month, "UTC", 1, "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"before the billing day", Month, "UTC", 15, "2026-03-14T23:59:59Z", "2026-02-15T00:00:00Z", "2026-03-15T00:00:00Z"},
		{"on the billing day", Month, "UTC", 15, "2026-03-15T00:00:00Z", "2026-03-15T00:00:00Z", "2026-04-15T00:00:00Z"},
		{"billed on the last day of January", Month, "UTC", 31, "2026-02-01T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"billed on the last day of February", Month, "UTC", 31, "2026-02-28T12:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"billed on the last day of a leap February", Month, "UTC", 30, "2028-03-01T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-30T00:00:00Z"},
		{"billed on the last day of April", Month, "UTC", 31, "2026-04-30T12:00:00Z", "2026-04-30T00:00:00Z", "2026-05-31T00:00:00Z"},
		{"over the new year", Month, "UTC", 15, "2026-01-01T00:00:00Z", "2025-12-15T00:00:00Z", "2026-01-15T00:00:00Z"},
		{"a month in a zone", Month, "Europe/Berlin", 15, "2026-03-30T00:00:00+02:00", "2026-03-15T00:00:00+01:00", "2026-04-15T00:00:00+02:00"},
		{"a year", Year, "Europe/Berlin", 0, "2026-05-01T00:00:00+02:00", "2026-01-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"},
		{"an hour", Hour, "Europe/Berlin", 0, "2026-05-01T12:34:56+02:00", "2026-05-01T12:00:00+02:00", "2026-05-01T13:00:00+02:00"},
		{"an hour on a clock 45 minutes off", Hour, "Asia/Kathmandu", 0, "2026-05-01T12:34:56+05:45", "2026-05-01T12:00:00+05:45", "2026-05-01T13:00:00+05:45"},
		{"the hour that comes twice, first", Hour, "Europe/Berlin", 0, "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"the hour that comes twice, again", Hour, "Europe/Berlin", 0, "2026-10-25T02:30:00+01:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		{"the clock goes forward half an hour", Hour, "Australia/Lord_Howe", 0, "2026-10-04T02:45:00+11:00", "2026-10-04T02:30:00+11:00", "2026-10-04T03:00:00+11:00"},
		{"the clock goes back half an hour", Hour, "Australia/Lord_Howe", 0, "2026-04-05T01:45:00+10:30", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30"},
		{"before 1970", Day, "UTC", 0, "1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"a month before 1970", Month, "UTC", 31, "1968-03-01T00:00:00Z", "1968-02-29T00:00:00Z", "1968-03-31T00:00:00Z"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			a := NewCalendar(test.unit, zone(t, test.zone), max(test.anchor, 1))
			start, end := at(t, test.start), at(t, test.end)
			_, c := a.Add(nil, 1, at(t, test.time), 1)
			if c.Start != start || c.Until != end {
				t.Errorf("got %s to %s", clock(c.Start, test.zone), clock(c.Until, test.zone))
			}
			if got := a.Length(at(t, test.time)); got != end-start {
				t.Errorf("got length %v, want %v", time.Duration(got), time.Duration(end-start))
			}
			for _, edge := range []int64{start, end - 1} {
				if c := a.View(nil, 1, edge); c.Start != start {
					t.Errorf("%s is in the window from %s", clock(edge, test.zone), clock(c.Start, test.zone))
				}
			}
			if c := a.View(nil, 1, end); c.Start != end {
				t.Errorf("the next window starts at %s", clock(c.Start, test.zone))
			}
		})
	}
}

func clock(t int64, zone string) string {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return err.Error()
	}
	return time.Unix(0, t).In(loc).Format(time.RFC3339Nano)
}

// envoyproxy/ratelimit: its month is 30 days and its year 365.
func TestMonthIsNot30Days(t *testing.T) {
	a := NewCalendar(Month, time.UTC, 1)
	var s State
	s, _ = a.Add(s, 10, at(t, "2026-01-01T00:00:00Z"), 9)
	s, c := a.Add(s, 10, at(t, "2026-01-31T12:00:00Z"), 1) // day 31
	if c.Total != 10 || c.Until != at(t, "2026-02-01T00:00:00Z") {
		t.Errorf("got %+v on January 31, want 10 until February", c)
	}
	_, c = a.Add(s, 10, at(t, "2026-02-01T00:00:00Z"), 1)
	if c.Total != 1 {
		t.Errorf("got %+v on February 1, want a new month", c)
	}
	if got := NewCalendar(Year, time.UTC, 1).Length(at(t, "2028-07-01T00:00:00Z")); got != int64(366*day) {
		t.Errorf("got a leap year of %v", time.Duration(got))
	}
}

func TestCalendarStories(t *testing.T) {
	berlin := NewCalendar(Day, zone(t, "Europe/Berlin"), 0)
	noon := time.Duration(at(t, "2026-03-29T12:00:00+02:00"))
	end := time.Duration(at(t, "2026-03-30T00:00:00+02:00"))
	s := story(t, berlin, 2,
		step{at: noon, weight: 1, total: 1, until: open},
		step{at: noon - hr, weight: 1, total: 2, until: end},
		step{at: noon - 12*hr, weight: 1, total: 2, until: end, late: true}, // 23:00 of the day before: 23 h since midnight
		step{at: end - 1, weight: 0, total: 2, until: end},
		step{at: end, weight: 0, total: 0, until: open},
		step{at: end - 1, weight: 1, total: 3, until: end},
		step{at: end, weight: 2, total: 2, until: end + day},
	)
	if got := berlin.Expiry(s); got != int64(end+day+2*sec) {
		t.Errorf("got expiry %s", clock(got, "Europe/Berlin"))
	}
}

// TestWhatComesJustAfterABoundaryCountsBeforeIt: the server whose clock is ahead sends the first entry of a new window, and the others
// still send those of the window before, which is that of the rule's own calendar.
func TestWhatComesJustAfterABoundaryCountsBeforeIt(t *testing.T) {
	for name, test := range map[string]struct {
		a             Algorithm
		before, begin string // when the window before begins, and when it ends
	}{
		"an hour":                              {NewCalendar(Hour, time.UTC, 1), "2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z"},
		"a day in Berlin":                      {NewCalendar(Day, zone(t, "Europe/Berlin"), 1), "2026-05-01T00:00:00+02:00", "2026-05-02T00:00:00+02:00"},
		"a day of 23 hours":                    {NewCalendar(Day, zone(t, "Europe/Berlin"), 1), "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		"a day before one that a zone skipped": {NewCalendar(Day, zone(t, "Pacific/Apia"), 1), "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		"a week":                               {NewCalendar(Week, time.UTC, 1), "2026-04-27T00:00:00Z", "2026-05-04T00:00:00Z"},
		"a month billed on the 15th":           {NewCalendar(Month, zone(t, "Europe/Berlin"), 15), "2026-03-15T00:00:00+01:00", "2026-04-15T00:00:00+02:00"},
		"a month billed on its last day":       {NewCalendar(Month, zone(t, "Asia/Kathmandu"), 31), "2026-01-31T00:00:00+05:45", "2026-02-28T00:00:00+05:45"},
		"a year":                               {NewCalendar(Year, time.UTC, 1), "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			early, begin := time.Duration(at(t, test.before)), time.Duration(at(t, test.begin))
			next := begin + time.Duration(test.a.Length(int64(begin)))
			story(t, test.a, 110,
				step{at: early, weight: 9, total: 9, until: open},
				step{at: begin + 5*ms, weight: 1, total: 1, until: open},
				step{at: begin - 1, weight: 100, total: 109, until: open, past: true},
				step{at: early - 1, weight: 100, total: 1, until: open, late: true}, // of the window before that
				step{at: begin - 5*ms, weight: 1, total: 110, until: begin, past: true},
				step{at: begin + 2*sec - 1, weight: 1, total: 2, until: open},
				step{at: early, weight: 1, total: 111, until: begin, past: true},
				step{at: begin + 2*sec, weight: 1, total: 3, until: open},
				step{at: begin - 1, weight: 1, total: 3, until: open, late: true},
				step{at: next - 1, weight: 107, total: 110, until: next},
				step{at: next + 1, weight: 1, total: 1, until: open},
				step{at: next - 1, weight: 1, total: 111, until: next, past: true},
				step{at: begin - 1, weight: 1, total: 1, until: open, late: true},
			)
		})
	}
}

// TestALateEntryOfTheFirstMomentOfADay counts in it; one of the moment before counts in the day before.
func TestALateEntryOfTheFirstMomentOfADay(t *testing.T) {
	day := NewCalendar(Day, time.UTC, 1)
	const midnight = 20_000 * 24 * 3600 * second
	s, _ := day.Add(nil, 10, midnight+second, 1)
	s, c := day.Add(s, 10, midnight, 1)
	if c.Total != 2 || c.Place != Newest {
		t.Errorf("at midnight: got %+v, want it counted", c)
	}
	if _, c = day.Add(s, 10, midnight-1, 1); c.Total != 1 || c.Place != Past {
		t.Errorf("before midnight: got %+v, want it counted in the day before", c)
	}
}

func TestCalendarAtTheEndsOfTime(t *testing.T) {
	for unit := Hour; unit <= Year; unit++ {
		for _, name := range []string{"UTC", "Pacific/Apia", "America/St_Johns"} {
			a := NewCalendar(unit, zone(t, name), 31)
			s, c := a.Add(nil, 1, math.MinInt64, math.MaxInt64)
			if c.Start != math.MinInt64 || c.Until <= c.Start || c.Total != math.MaxInt64 {
				t.Errorf("%s at the beginning of time: got %+v", a.Shape(), c)
			}
			if _, c = a.Add(s, 1, math.MaxInt64-1, 1); c.Until != math.MaxInt64 || c.Start >= math.MaxInt64-1 || c.Total != 1 {
				t.Errorf("%s at the end of time: got %+v", a.Shape(), c)
			}
			s, _ = a.Add(nil, 9, math.MaxInt64, 1)
			if _, c = a.Add(s, 9, math.MaxInt64, 1); c.Total != 2 {
				t.Errorf("%s at the end of time: got %+v, want both in one window", a.Shape(), c)
			}
		}
	}
}

// Whatever the zone, windows follow each other without a gap, hold the time they are asked for, and each day begins at
// the first minute at which the local clock shows its date or a later one, as a naive search finds.
func TestDaysAreWhatTheClockOnTheWallSays(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu",
		"Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tehran", "Pacific/Kwajalein", "Antarctica/Troll", "America/Asuncion"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		loc := zone(t, name)
		now := rapid.Int64Range(200_000_000, 4_000_000_000).Draw(t, "seconds")*int64(sec) + rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")
		a := NewCalendar(Day, loc, 0)
		c := a.View(nil, 1, now)
		if c.Start > now || c.Start+a.Length(now) <= now {
			t.Fatalf("%s: %s is not in the window from %s", name, clock(now, name), clock(c.Start, name))
		}
		if next := a.View(nil, 1, c.Start+a.Length(now)); next.Start != c.Start+a.Length(now) {
			t.Fatalf("%s: a gap between %s and %s", name, clock(c.Start, name), clock(next.Start, name))
		}
		if got, want := c.Start, firstMinute(time.Unix(0, c.Start).In(loc)); got != want {
			t.Fatalf("%s: got the day from %s, want %s", name, clock(got, name), clock(want, name))
		}
	})
}

// firstMinute returns the first minute of the two days before t at which the local date is at least t's.
func firstMinute(t time.Time) int64 {
	want := t.Format(time.DateOnly)
	for m := t.Add(-50 * time.Hour).Truncate(time.Minute); ; m = m.Add(time.Minute) {
		if m.Format(time.DateOnly) >= want {
			return m.UnixNano()
		}
	}
}

func TestCalendarUnits(t *testing.T) {
	for unit := Hour; unit <= Year; unit++ {
		if got := ParseUnit(unit.String()); got != unit {
			t.Errorf("got unit %d from %q, want %d", got, unit, unit)
		}
	}
	if ParseUnit("") != 0 || ParseUnit("fortnight") != 0 || Unit(0).String() != "" || Unit(9).String() != "" {
		t.Error("got a unit from nothing")
	}
}
