package policy

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// outlook is that of a caller who has sent 2000 a second for ten seconds, of whom so much is in the window at 10.3 s.
func outlook(r *rules.Rule, weight int64, lag Lag) *Outlook {
	var p Pace
	stream(&p, 0, 10_300*ms, 2000, lag.Mean, evenly)
	return &Outlook{Rule: r, Limit: r.Limit, State: held(r, 10_300, weight), Pace: &p, Now: 10_300 * ms, Lag: lag, LagCap: 250 * ms}
}

// TestPredict: a caller at twice a limit of 1000 in each second, 300 ms into one, with a lag of 100 ms. Times are milliseconds.
// lateInTheWindow lets demand go on until 120 ms before the end of the window.
func lateInTheWindow(o *Outlook) {
	stream(o.Pace, 10_300*ms, 10_880*ms, 2_000, o.Lag.Mean, evenly)
	o.Now = 10_880 * ms
}

func TestPredict(t *testing.T) {
	lag := Lag{100 * ms, 5 * ms} // a margin of 20 ms, a hold of 170 ms
	at := func(closeAt, until int64) Announced { return Announced{CloseAt: closeAt * ms, Until: until * ms} }
	for name, test := range map[string]struct {
		weight         int64
		set            func(o *Outlook)
		last           Announced
		closeAt, until int64 // 0 is nothing new
	}{
		"in time":                              {770, func(*Outlook) {}, Announced{}, 10_412, 10_582},
		"too early":                            {700, func(*Outlook) {}, Announced{}, 0, 0},
		"too late, but it helps":               {990, func(*Outlook) {}, Announced{}, 10_302, 10_472},
		"the lag is above the cap":             {770, func(o *Outlook) { o.LagCap = 99 * ms }, Announced{}, 0, 0},
		"the lag is at the cap":                {770, func(o *Outlook) { o.LagCap = 105 * ms }, Announced{}, 10_412, 10_582},
		"announced as it is":                   {770, func(*Outlook) {}, at(10_413, 10_580), 0, 0},
		"announced a little otherwise":         {770, func(*Outlook) {}, at(10_420, 10_590), 0, 0},
		"announced much later":                 {770, func(*Outlook) {}, at(10_440, 10_610), 10_412, 10_582},
		"announced much earlier, and in force": {790, func(*Outlook) {}, at(10_330, 10_500), 10_402, 10_572},
		"in force as long as may be":           {830, func(*Outlook) {}, at(10_330, 10_500), 0, 0},
		"it rests":                             {770, func(*Outlook) {}, Announced{Rest: 10_301 * ms, Demand: 2000_000}, 0, 0},
		"it has rested":                        {770, func(*Outlook) {}, Announced{Rest: 10_300 * ms, Demand: 2000_000}, 10_412, 10_582},
		"it rests, and demand rose":            {770, func(*Outlook) {}, Announced{Rest: 20_000 * ms, Demand: 1500_000}, 10_412, 10_582},
		"it fell short just now":               {100, func(*Outlook) {}, at(10_100, 10_200), 0, 0},
		"the next window, while closed": {1000, func(o *Outlook) {
			o.Closure = Closure{CloseAt: 10_290 * ms, Until: 11_000 * ms, Nth: 1}
			o.Now, o.State = 10_900*ms, nil
			o.Pace = outlook(o.Rule, 0, lag).Pace
			stream(o.Pace, 10_300*ms, 10_900*ms, 20_000, lag.Mean, evenly)
			o.Lag, o.LagCap = Lag{200 * ms, 5 * ms}, 250*ms
		}, Announced{}, 11_050, 11_370},
		"gates may reopen late":                     {0, func(o *Outlook) { o.Closure = Closure{CloseAt: -9_650 * ms, Until: 10_350 * ms, Nth: 1} }, Announced{}, 10_850, 11_000},
		"full before the window ends":               {783, lateInTheWindow, Announced{}, 10_986, 11_000},
		"chance decides whether it is full in time": {763, lateInTheWindow, Announced{}, 0, 0}, // ± 7 ms of the 100 to come
		"the next window is far":                    {1000, func(o *Outlook) { o.Closure = Closure{CloseAt: 10_290 * ms, Until: 11_000 * ms, Nth: 1} }, Announced{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := outlook(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), test.weight, lag)
			test.set(o)
			got, news := o.Predict(test.last)
			if news != (test.closeAt != 0) {
				t.Fatalf("got news %v, %+v, want %v", news, got, test.closeAt != 0)
			}
			near := func(got, want int64) bool { return got >= (want-2)*ms && got <= (want+2)*ms }
			if news && (!near(got.CloseAt, test.closeAt) || !near(got.Until, test.until) || got.Demand < 1990_000) {
				t.Errorf("got %d to %d ms at %d a second, want %d to %d", got.CloseAt/ms, got.Until/ms, got.Demand/1000, test.closeAt, test.until)
			}
		})
	}
}

// TestDemandMustRiseByMoreThanAQuarter: before that, nothing is predicted of a caller that rests.
func TestDemandMustRiseByMoreThanAQuarter(t *testing.T) {
	o := outlook(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), 770, Lag{100 * ms, 5 * ms})
	demand := o.Pace.Rate() * 4 / 5
	for demand+demand/4 < o.Pace.Rate() {
		demand++
	}
	if demand+demand/4 != o.Pace.Rate() {
		t.Fatalf("got a demand of %d, which is no quarter above a whole number", o.Pace.Rate())
	}
	for rested, want := range map[int64]bool{demand: false, demand - 1: true} {
		if _, news := o.Predict(Announced{Rest: 20_000 * ms, Demand: rested}); news != want {
			t.Errorf("demand rose from %d to %d: got news %v, want %v", rested, o.Pace.Rate(), news, want)
		}
	}
}

// TestHowFarPredictionLooks: as far as a lag and twice its deviation after log time, however late entries come.
func TestHowFarPredictionLooks(t *testing.T) {
	for weight, want := range map[int64]bool{719: true, 711: false} { // full 108 ms and 112 ms after log time
		o := outlook(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), weight, Lag{100 * ms, 5 * ms})
		var late Pace
		for at := int64(0); at < 10_300*ms; at += 5 * ms {
			late.Add(at, 30*ms, 10, 100*ms)
		}
		late.Advance(10_300*ms, 100*ms)
		o.Pace = &late
		if got, news := o.Predict(Announced{}); news != want {
			t.Errorf("%d of 1000: got %+v, news %v, want %v", weight, got, news, want)
		}
	}
}

// TestAJumpThatFillsTheWindowWithinALag: a caller at 10 a second asks for 2000 a second for 25 ms. Its early close is announced at
// once, and lasts for a lag and the margin; a jump that leaves time to measure it better is not.
func TestAJumpThatFillsTheWindowWithinALag(t *testing.T) {
	lag := Lag{100 * ms, 5 * ms}
	jumps := func(weight int64) *Outlook {
		var p Pace
		at := stream(&p, stream(&p, 0, 10_275*ms, 10, lag.Mean, evenly), 10_300*ms, 2000, lag.Mean, evenly)
		r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
		return &Outlook{Rule: r, Limit: 1000, State: held(r, 10_300, weight), Pace: &p, Now: at, Lag: lag, LagCap: 250 * ms}
	}
	for name, test := range map[string]struct {
		weight int64
		set    func(o *Outlook)
		last   Announced
		hold   int64 // ms; 0 is nothing new
		most   int64 // of the demand, in thousandths a second
	}{
		"it fills the window":             {900, func(*Outlook) {}, Announced{}, 120, 2000_000},
		"it does not, by itself":          {800, func(*Outlook) {}, Announced{}, 0, 0},
		"it does, but not within a lag":   {800, func(o *Outlook) { o.Lag.Deviation = 40 * ms }, Announced{}, 0, 0},
		"a close is announced: no jump":   {900, func(*Outlook) {}, Announced{CloseAt: 10_200 * ms, Until: 10_370 * ms}, 170, 900_000},
		"the caller rests":                {900, func(*Outlook) {}, Announced{Rest: 10_400 * ms, Demand: 1_000_000}, 0, 0},
		"a close before it was confirmed": {1000, func(o *Outlook) { o.Closure = Closure{CloseAt: 10_299 * ms, Until: 11_000 * ms, Nth: 1} }, Announced{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := jumps(test.weight)
			test.set(o)
			got, news := o.Predict(test.last)
			if news != (test.hold != 0) {
				t.Fatalf("got news %v, %+v, want %v", news, got, test.hold != 0)
			}
			if news && (got.Until-got.CloseAt != test.hold*ms || got.Demand > test.most) {
				t.Errorf("got an early close of %d ms at %d a second, want %d ms and at most %d", (got.Until-got.CloseAt)/ms, got.Demand/1000, test.hold, test.most/1000)
			}
		})
	}
}

// TestAfterAnEarlyCloseFellShort: the caller rests for twice as long as an early close lasts; if the window is all but full, it does not.
func TestAfterAnEarlyCloseFellShort(t *testing.T) {
	r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
	last := Announced{CloseAt: 10_100 * ms, Until: 10_200 * ms, Demand: 2000_000}
	o := outlook(r, 500, Lag{100 * ms, 5 * ms})
	if got, _ := o.Predict(last); got.Until != 0 || got.Rest != 10_200*ms+2*170*ms {
		t.Errorf("got %+v, want a rest of 340 ms", got)
	}
	o = outlook(r, 980, Lag{100 * ms, 5 * ms})
	if got, news := o.Predict(last); got.Rest != 0 || !news {
		t.Errorf("got %+v, news %v, want the next close and no rest: what is missing is chance", got, news)
	}
}

// TestAnEarlyCloseEndsWhenItsWindowIsComplete: at that moment, and not a nanosecond before, it is settled.
func TestAnEarlyCloseEndsWhenItsWindowIsComplete(t *testing.T) {
	o := outlook(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), 500, Lag{100 * ms, 5 * ms})
	for until, want := range map[int64]bool{o.asOf() + 1: true, o.asOf(): false} {
		last := Announced{CloseAt: until - 100*ms, Until: until, Demand: 2000_000}
		if got, _ := o.Predict(last); (got.Until == until) != want {
			t.Errorf("an early close until %d ns after that: got %+v, want it as it was: %v", until-o.asOf(), got, want)
		}
	}
}

// TestWhatIsNews: an announced close has moved by more than 0.5 % of the limit, and gates hear of it before the later of both times.
func TestWhatIsNews(t *testing.T) {
	o := outlook(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), 500, Lag{})
	const rate = 1000_000 // one in each millisecond
	for name, test := range map[string]struct {
		before, now, inForce int64
		want                 bool
	}{
		"later":                     {100 * ms, 106 * ms, 105 * ms, true},
		"earlier":                   {106 * ms, 100 * ms, 105 * ms, true},
		"by 0.5 %":                  {100 * ms, 105 * ms, 50 * ms, false},
		"gates hear of it then":     {100 * ms, 106 * ms, 106 * ms, false},
		"gates hear of it too late": {100 * ms, 106 * ms, 107 * ms, false},
	} {
		if got := o.news(test.before, test.now, rate, test.inForce); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	o.Lag.Mean = 100 * ms // 10 ± 3.16 requests come in a lag at 100 a second: a move must be by twice 3.16
	for moved, want := range map[int64]bool{63: false, 64: true} {
		if got := o.news(1000*ms, (1000+moved)*ms, 100_000, 0); got != want {
			t.Errorf("a move by %d ms at 100 a second: got %v, want %v", moved, got, want)
		}
	}
}

// TestAnEarlyCloseHolds: until it ends.
func TestAnEarlyCloseHolds(t *testing.T) {
	for at, want := range map[int64]bool{5: true, 19: true, 20: false, 30: false} {
		if a := (Announced{CloseAt: 10, Until: 20}); a.Holds(at) != want {
			t.Errorf("at %d: got %v, want %v", at, !want, want)
		}
	}
}

// TestReopensLate: the longest jitter of schemas/DECISIONS.md.
func TestReopensLate(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		0: 0, 10*time.Second - 1: 0, 10 * time.Second: time.Second, 50 * time.Second: 5 * time.Second, 100 * time.Second: 10 * time.Second,
		time.Hour: 10 * time.Second, -1: 10 * time.Second, // it overflowed
	} {
		if got := time.Duration(reopensLate(Closure{CloseAt: 7, Until: 7 + int64(length)})); got != want {
			t.Errorf("a closure of %v: got %v, want %v", length, got, want)
		}
	}
}

func TestHoldsAndMargins(t *testing.T) {
	for name, test := range map[string]struct {
		lag          Lag
		window       int64
		margin, hold int64 // ms
	}{
		"200 ms":            {Lag{200 * ms, 10 * ms}, 60_000 * ms, 30, 330},
		"half a window":     {Lag{200 * ms, 10 * ms}, 500 * ms, 30, 250},
		"two seconds":       {Lag{10_000 * ms, 0}, 60_000 * ms, 10, 2000},
		"nothing":           {Lag{}, 60_000 * ms, 10, 10},
		"an unsteady lag":   {Lag{100 * ms, 100 * ms}, 60_000 * ms, 210, 360},
		"no window at all":  {Lag{100 * ms, 0}, 0, 10, 0},
		"the longest known": {Lag{3600_000 * ms, 3600_000 * ms}, 1 << 62, 7200_010, 2000},
	} {
		if m, h := test.lag.Margin()/ms, test.lag.Hold(test.window)/ms; m != test.margin || h != test.hold {
			t.Errorf("%s: got margin %d and hold %d ms, want %d and %d", name, m, h, test.margin, test.hold)
		}
	}
}

// TestBounds: by hand, for a limit of 1000.
func TestBounds(t *testing.T) {
	lag := Lag{200 * ms, 10 * ms}
	for name, test := range map[string]struct {
		rule            string
		rate            int64
		by              Mechanism
		expected, bound float64
	}{
		"reactive":                 {"limit: 1000, window: 1s, algorithm: fixed", 2000, Reactive, 0.4, 0.481},    // 400; 420 + 3·20 + 1
		"early":                    {"limit: 1000, window: 1s, algorithm: fixed", 2000, Predicted, 0.008, 0.111}, // 0.4·20; 3·20 + 2000·25 ms + 1
		"slots shorter than lags":  {"limit: 1000, window: 1s, slots: 20", 2000, Predicted, 0.4, 0.481},          // as reactive
		"slots that are longer":    {"limit: 1000, window: 10s, slots: 20", 2000, Predicted, 0.008, 0.111},       // as fixed
		"slots of two lags":        {"limit: 1000, window: 8s, slots: 20", 2000, Predicted, 0.008, 0.111},        // gates learn of each in time
		"a log":                    {"limit: 1000, window: 10s, algorithm: log", 2000, Predicted, 0.4, 0.481},    // has no slots
		"nobody":                   {"limit: 1000, window: 1s, algorithm: fixed", 0, Reactive, 0, 0},
		"relative to the capacity": {"limit: 1000, window: 1s, algorithm: gcra, burst: 100", 2000, Reactive, 4, 4.81},
	} {
		got := BoundOf(rule(t, test.rule), 1000, test.rate*1000, lag, test.by)
		if d := got.Expected - test.expected; d > 1e-9 || d < -1e-9 || got.Bound-test.bound > 1e-9 || test.bound-got.Bound > 1e-9 {
			t.Errorf("%s: got %+v, want %v and %v", name, got, test.expected, test.bound)
		}
	}
}

// TestWorth: with a lag of 200 ms a caller is predicted from 10/s on, and from 5/s on once it was; and with a limit of 1000 from a
// hundredth and half of that.
func TestWorth(t *testing.T) {
	for name, test := range map[string]struct {
		limit, rate int64
		known       bool
		want        bool
	}{
		"one and a half requests":              {100, 7500, false, false},
		"two requests":                         {100, 10_000, false, true},
		"less than one, of who was predicted":  {100, 4900, true, false},
		"one, of who was predicted":            {100, 5000, true, true},
		"below a hundredth":                    {1000, 49_000, false, false},
		"a hundredth":                          {1000, 50_000, false, true},
		"below half a hundredth, known before": {1000, 24_000, true, false},
		"half a hundredth, known before":       {1000, 25_000, true, true},
	} {
		o := Outlook{Rule: rule(t, "limit: 1000, window: 1m, algorithm: fixed"), Limit: test.limit, Lag: Lag{Mean: 200 * ms}}
		var last Announced
		if test.known {
			last.Demand = test.rate
		}
		if got := o.worth(test.rate, last); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

// TestStepDemand: a close by demand is a close like any other: of the same length, one more in a row, at the time of its entry. An entry
// before the end of the last close makes none.
func TestStepDemand(t *testing.T) {
	r := rule(t, "limit: 10, window: 1m, algorithm: fixed, close_for: 30s, escalate: {factor: 2, max: 10m, forget: 5m}")
	prev := Closure{CloseAt: int64(10 * sec), Until: int64(60 * sec), Nth: 1, Peak: 12}
	c := Crossing{CloseAt: int64(70 * sec), Until: int64(2 * minu)}
	got, change := StepDemand(r, prev, nil, 10, c)
	want := Closure{CloseAt: int64(70 * sec), Until: int64(130 * sec), Nth: 2, Peak: 10}
	if change != Closed || got != want {
		t.Errorf("got %v %+v, want %+v", change, got, want)
	}
	c.CloseAt = int64(60*sec - time.Nanosecond)
	if got, change := StepDemand(r, prev, nil, 10, c); change != Same || got != prev {
		t.Errorf("before the end: got %v %+v, want nothing new", change, got)
	}
}

// TestARaisedCapOfTheLagLiftsTheLengthOfEarlyCloses: at a lag of 5 s a close of 2 s would be over before it can be confirmed.
func TestARaisedCapOfTheLagLiftsTheLengthOfEarlyCloses(t *testing.T) {
	r := rule(t, "limit: 1000, window: 60s, algorithm: fixed")
	for name, test := range map[string]struct{ lag, lagCap, want int64 }{ // in ms
		"as it is":                {5_000, 15_000, 2_000},
		"half of the window":      {5_000, 30_000, 7_510},
		"a lag of half of it":     {30_000, 30_000, 45_010},
		"no longer than two caps": {60_000, 31_000, 62_000},
	} {
		o := outlook(r, 500, Lag{test.lag * ms, 0})
		o.LagCap = test.lagCap * ms
		if got := o.hold(60_000*ms) / ms; got != test.want {
			t.Errorf("%s: got %d ms, want %d", name, got, test.want)
		}
	}
}
