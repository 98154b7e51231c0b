package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// TestBars prints the figures beside what is wanted of two cores. It compares nothing: a slow machine is no mistake of the page.
func TestBars(t *testing.T) {
	b := newBrowser(t)
	t.Run("paint", func(t *testing.T) { paint(t, b) })
	t.Run("close", func(t *testing.T) { closeOnScreen(t, b) })
	t.Run("many", func(t *testing.T) { many(t, b) })
}

// paint opens the page again and again, as somebody does who has never seen it, and prints when it is painted and live.
func paint(t *testing.T, b *browser) {
	c := newCluster(t, 1)
	c.closeByHand("somebody")
	var painted, live []float64
	for range 9 {
		v := visit(t, b, c.page("read", "/"), view{})
		v.sees(`performance.getEntriesByName("floodgate-live").length > 0 && performance.getEntriesByName("first-contentful-paint").length > 0`)
		times, err := value[[2]float64](v.tab, `["first-contentful-paint", "floodgate-live"].map((name) => performance.getEntriesByName(name)[0].startTime)`)
		v.check(err)
		painted, live = append(painted, times[0]), append(live, times[1])
		v.close()
	}
	t.Logf("first contentful paint: median %.0f ms, slowest %.0f ms; want 400 ms", middle(painted), slices.Max(painted))
	t.Logf("live data:              median %.0f ms, slowest %.0f ms; want 1000 ms", middle(live), slices.Max(live))
}

// closeOnScreen closes callers one after the other, and prints how long each took from the request to the API until its line stood
// in the page.
func closeOnScreen(t *testing.T, b *browser) {
	const closes = 200
	c := newCluster(t, 1)
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	_, err := value[bool](v.tab, `(window.seen = {}, new MutationObserver(() => {
		const at = Date.now();
		for (const e of document.querySelectorAll("[data-panel=closed] bdi")) window.seen[e.textContent] ??= at;
	}).observe(document.querySelector("[data-panel=closed]"), {subtree: true, childList: true, characterData: true}), true)`)
	v.check(err)
	asked := make(map[string]int64)
	pace := time.NewTicker(20 * time.Millisecond) // of faster closes, some come and go between two frames: the panel has few lines
	defer pace.Stop()
	for i := range closes {
		<-pace.C
		key := fmt.Sprintf("bar-%03d", i)
		asked["key:"+key] = time.Now().UnixMilli()
		c.closeByHand(key)
	}
	v.sees(row(fmt.Sprintf("bar-%03d", closes-1)))
	seen, err := value[map[string]int64](v.tab, `window.seen`)
	v.check(err)
	var took []float64
	for name, at := range asked {
		if when, ok := seen[name]; ok {
			took = append(took, float64(when-at))
		}
	}
	slices.Sort(took)
	if len(took) < closes*9/10 {
		t.Fatalf("got %d of %d closes on the screen", len(took), closes)
	}
	t.Logf("a close on the screen, of %d: median %.0f ms, p99 %.0f ms; want 300 ms", len(took), middle(took), took[len(took)*99/100])
}

// many prints how busy the page's thread is with 100,000 closures and 500 changes in each second, and that the list scrolls.
func many(t *testing.T, b *browser) {
	const closures = 100_000
	f := &fake{closures: closures, every: 2 * time.Millisecond}
	v := visit(t, b, f.serve(t)+"/ui/", view{})
	began := time.Now()
	v.live()
	t.Logf("%d closures: all of them known after %v", closures, time.Since(began).Round(time.Millisecond))
	v.sees(`Number(document.querySelector("[data-count=closed]").textContent.replaceAll(/\D/g, "")) >= 99000`)
	v.is(`document.querySelectorAll("[data-panel=closed] .sizer .row").length < 60`, "elements only for lines that can be seen")
	_, err := value[bool](v.tab, `new Promise((idle) => requestIdleCallback(() => idle(true)))`) // what the start has left to do is done
	v.check(err)
	busy, at := v.busy()
	time.Sleep(10 * time.Second) // the span that is measured
	busyEnd, end := v.busy()
	t.Logf("%d closures, 500 changes a second: main thread busy %.1f %%; want 30 %%", closures, 100*(busyEnd-busy)/(end-at))
	_, err = value[bool](v.tab, `(document.querySelector("[data-panel=closed] .scroller").scrollTop = 1e6, true)`)
	v.check(err)
	v.sees(`[...document.querySelectorAll("[data-panel=closed] .sizer .row")].filter((r) => !r.hidden && r.getBoundingClientRect().height > 0).length > 5`)
}

// busy returns for how long the page's thread has worked, and the time, both in seconds.
func (v *visitor) busy() (seconds, at float64) {
	v.t.Helper()
	v.check(v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, performance.Enable, performance.EnableParams{}); err != nil {
			return err
		}
		result, err := cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
		for _, m := range result.Metrics {
			switch m.Name {
			case "TaskDuration":
				seconds = m.Value
			case "Timestamp":
				at = m.Value
			}
		}
		return err
	})))
	return seconds, at
}

// middle returns the median.
func middle(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
