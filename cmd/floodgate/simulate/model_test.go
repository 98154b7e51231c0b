package simulate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestModelsDrawWhatTheySay: means, the spread of the cost, whether it grows with the duration, and what is declared.
func TestModelsDrawWhatTheySay(t *testing.T) {
	independent, spread, dear := chat(), chat(), chat()
	spread.durationCV = 0.9
	independent.independent = true
	dear.factor = func(since time.Duration) float64 { return since.Minutes() }
	correlation := func(durationCV float64) float64 { return math.Sqrt(math.Log1p(durationCV*durationCV) / math.Log1p(1)) }
	for name, tt := range map[string]struct {
		model       model
		cost        float64
		correlation float64 // of the logarithms of cost and duration
		declared    float64 // mean, by what the request costs
	}{
		"chat": {chat(), 1000, correlation(0.6), 0}, "independent": {independent, 1000, 0, 0}, "spread": {spread, 1000, correlation(0.9), 0},
		"declared": {declaredChat(4), 1000, correlation(0.6), 2.5}, "dear": {dear, 5000, correlation(0.6), 0},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		const n = 200_000
		var cost, squares, seconds, declared, x, y, xx, yy, xy float64
		for range n {
			r := Request{At: start + int64(5*time.Minute)}
			tt.model.draw(random, &r)
			c, d := float64(r.Cost), r.Duration.Seconds()
			cost, squares, seconds, declared = cost+c/n, squares+c*c/n, seconds+d/n, declared+float64(r.Declared)/c/n
			lc, ld := math.Log(c), math.Log(d)
			x, y, xx, yy, xy = x+lc/n, y+ld/n, xx+lc*lc/n, yy+ld*ld/n, xy+lc*ld/n
			if tt.declared > 0 && (r.Declared < r.Cost || float64(r.Declared) > 4*c+1) || tt.declared == 0 && r.Declared != 0 {
				t.Fatalf("%s: got a cost of %d declared as %d", name, r.Cost, r.Declared)
			}
		}
		if math.Abs(cost/tt.cost-1) > 0.02 || math.Abs(seconds/14-1) > 0.02 || math.Abs(declared-tt.declared) > 0.02 {
			t.Errorf("%s: got means of %.0f, %.2f s and %.3f declared, want %.0f, 14 s and %.1f", name, cost, seconds, declared, tt.cost, tt.declared)
		}
		if cv := math.Sqrt(squares/cost/cost - 1); math.Abs(cv-1) > 0.05 {
			t.Errorf("%s: got a coefficient of variation of %.3f, want 1", name, cv)
		}
		if got := (xy - x*y) / math.Sqrt((xx-x*x)*(yy-y*y)); math.Abs(got-tt.correlation) > 0.01 {
			t.Errorf("%s: got a correlation of %.3f, want %.3f", name, got, tt.correlation)
		}
	}
}

// TestEachModelGetsItsPart of the requests, under its own resource, and the arrivals are those of the generator alone.
func TestEachModelGetsItsPart(t *testing.T) {
	big := chat()
	big.resource = "big"
	list := take(newLasting(1, newGenerator(1, 2, nil, one(100)()...), []model{chat(), big}), time.Minute)
	plain := take(newGenerator(1, 2, nil, one(100)()...), time.Minute)
	bigs := 0
	for i := range list {
		if list[i].At != plain[i].At || list[i].Server != plain[i].Server {
			t.Fatalf("request %d: got %+v, want the arrival %+v", i, list[i], plain[i])
		}
		if list[i].Resource == "big" {
			bigs++
		}
	}
	if len(list) != len(plain) || !near(bigs, 3000) {
		t.Errorf("got %d requests, %d of them big; want %d, and half of them big", len(list), bigs, len(plain))
	}
}
