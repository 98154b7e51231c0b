package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// chart is an expression that is a card, by its id.
func chart(id string) string { return fmt.Sprintf(`document.querySelector("[data-chart=%s]")`, id) }

// inked is an expression that is whether anything is drawn in a chart, so many seconds before its newest one, in its upper or lower half.
func inked(id string, before int, half string) string {
	return fmt.Sprintf(`(() => {
		const canvas = %s.querySelector("canvas");
		const x = Math.round((899 - %d) / 899 * (canvas.width - 1));
		const from = %q === "upper" ? 0 : canvas.height - (canvas.height >> 1);
		return canvas.getContext("2d").getImageData(x, from, 1, canvas.height >> 1).data.some((v) => v > 0);
	})()`, chart(id), before, half)
}

// TestChartsShowOneSecond: value, peak and line are of one second each. So the newest value is never above the peak, and a peak of one
// second keeps its height. A scale is written beside the line; the peak does not press everything else flat.
func TestChartsShowOneSecond(t *testing.T) {
	b := newBrowser(t)
	f := &fake{series: func(v *apiv1.Series) {
		n := len(v.Requests)
		for i := range n {
			v.LagNS[i], v.Closes[i] = 53e6, int64(i%3)
		}
		v.LagNS[n-1] = 238e6
		v.Requests[n-450] = 460_000
	}}
	v := visit(t, b, f.serve(t)+"/ui/", view{})
	v.sees(chart("requests") + `.querySelector(".note").textContent === "peak 460,000"`)
	v.is(chart("requests")+`.querySelector(".figure").textContent === "5,000/s"`, "the newest second")
	v.is(chart("requests")+`.querySelector(".scale").textContent === "0 – 10,000/s, higher is cut off"`, "a scale that the peak does not decide")
	v.is(inked("requests", 450-1, "upper")+" && !"+inked("requests", 100, "upper")+" && "+inked("requests", 100, "lower"), "a peak above a line of half its height")
	v.is(chart("closes")+`.querySelector(".scale").textContent === "0 – 2/s"`, "a scale of what there is")
	v.sees(chart("lag") + `.querySelector(".figure").textContent === "238 ms" && ` + chart("lag") + `.querySelector(".note").textContent === "peak 238 ms"`)
}

// TestChartsHaveGaps where no analyzer has counted, also in what is measured now and then. A second that some analyzers have not counted
// yet is not shown as if they had counted nothing.
func TestChartsHaveGaps(t *testing.T) {
	b := newBrowser(t)
	f := &fake{series: func(v *apiv1.Series) {
		v.Partitions = 4
		n := len(v.Requests)
		none := func(i int) {
			v.Covered[i], v.Requests[i], v.Blocked[i], v.WouldBlock[i], v.Closes[i], v.LagNS[i], v.Ended[i], v.Overshoot[i] = 0, 0, 0, 0, 0, 0, 0, 0
		}
		for i := range n {
			v.Covered[i] = 4
			if i >= n-500 && i < n-300 {
				none(i)
			}
			if i%20 > 0 {
				v.Ended[i], v.Overshoot[i] = 0, 0
			}
		}
		v.Covered[n-1], v.Requests[n-1] = 2, 17 // another analyzer's clock is behind
		v.Covered[n-200], v.Requests[n-200] = 3, 4000
	}}
	v := visit(t, b, f.serve(t)+"/ui/", view{})
	v.sees(chart("requests") + `.querySelector(".figure").textContent === "5,000/s"`)
	for _, id := range []string{"requests", "would_block", "lag", "overshoot"} {
		v.is("!"+inked(id, 400, "lower")+" && "+inked(id, 600, "lower")+" && "+inked(id, 100, "lower"), "a gap in "+id)
	}
	text, err := value[string](v.tab, `import("/ui/js/samples.js").then(async ({Samples}) => {
		const answer = await (await fetch("/v1/series")).json();
		const samples = new Samples();
		samples.add(answer);
		const { times, covered, values } = samples.columns();
		return JSON.stringify([times.length, times.at(-1) - Date.parse(answer.from) / 1000, covered.at(-199), values("requests").at(-400), values("requests").at(-1)]);
	})`)
	v.check(err)
	if want := "[900,898,3,null,5000]"; strings.ReplaceAll(text, "\n", "") != want {
		t.Errorf("got %s, want %s: 900 seconds until the last that all have counted", text, want)
	}
}

// TestTimesNameTheirZone wherever they stand.
func TestTimesNameTheirZone(t *testing.T) {
	b := newBrowser(t)
	v := visit(t, b, new(fake).serve(t)+"/ui/", view{})
	v.live()
	got, err := value[string](v.tab, `import("/ui/js/format.js").then(({time}) => [time(Date.now()), time(Date.now() - 1e9)].join("|"))`)
	v.check(err)
	now := time.Now()
	if zone, _ := now.Zone(); strings.Count(got, zone) != 2 {
		t.Errorf("got %s, want both times in %s", got, zone)
	}
	v.sees(`/in (UTC|[A-Z]{3,5}|GMT[+-]\d+)\./.test(document.querySelector(".charts-block > p").textContent)`)
}
