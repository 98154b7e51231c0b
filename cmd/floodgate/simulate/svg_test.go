package simulate

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// elements returns the elements of an SVG image with their attributes, and its texts. It fails if the image is not well-formed, or
// if a number in it is none.
func elements(t *testing.T, image string) (list []xml.StartElement, texts string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(image))
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return list, texts
		case err != nil:
			t.Fatalf("got %v in\n%.2000s", err, image)
		}
		switch e := token.(type) {
		case xml.CharData:
			texts += string(e) + "\n"
		case xml.StartElement:
			list = append(list, e.Copy())
			for _, a := range e.Attr {
				if f, err := strconv.ParseFloat(a.Value, 64); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
					t.Errorf("got %s=%q in <%s>", a.Name.Local, a.Value, e.Name.Local)
				}
			}
		}
	}
}

// attribute returns a number of an element.
func attribute(e *xml.StartElement, name string) float64 {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			f, _ := strconv.ParseFloat(a.Value, 64)
			return f
		}
	}
	return math.NaN()
}

// filled returns the rectangles of a colour, without the one of the legend.
func filled(list []xml.StartElement, colour string) (out []xml.StartElement) {
	for _, e := range list {
		for _, a := range e.Attr {
			if e.Name.Local == "rect" && a.Name.Local == "fill" && a.Value == colour && attribute(&e, "width") != 10 {
				out = append(out, e)
			}
		}
	}
	return out
}

// draw returns the image of some panels.
func draw(t *testing.T, panels ...Picture) string {
	t.Helper()
	var b strings.Builder
	if err := Draw(&b, panels); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAPictureShowsWhatWasAdmitted: a bar for each window, what is over the limit in another colour and above it, and closures
// below, each in its place.
func TestAPictureShowsWhatWasAdmitted(t *testing.T) {
	list, texts := elements(t, draw(t, Picture{Title: "a title", Series: Series{
		Caller: "key:c", Limit: 100, Length: 1,
		Periods: []SeriesPoint{{At: 0, Admitted: 50, Sync: 50}, {At: 1, Admitted: 140, Sync: 100, Peak: 140}, {At: 2, Admitted: 100, Sync: 100}},
		Closed:  [][2]float64{{1.5, 2}, {2.7, 3}},
	}}))
	admitted, over, closed := filled(list, colourAdmitted), filled(list, colourOver), filled(list, colourClosed)
	if len(admitted) != 3 || len(over) != 1 || len(closed) != 2 {
		t.Fatalf("got %d bars, %d of them over the limit, and %d closures; want 3, 1 and 2", len(admitted), len(over), len(closed))
	}
	if half, whole := attribute(&admitted[0], "height"), attribute(&admitted[2], "height"); math.Abs(2*half-whole) > 0.2 {
		t.Errorf("got heights %v of 50 and %v of 100", half, whole)
	}
	if top, bottom := attribute(&over[0], "y"), attribute(&over[0], "y")+attribute(&over[0], "height"); math.Abs(bottom-attribute(&admitted[1], "y")) > 0.2 || top >= bottom {
		t.Errorf("got what is over the limit from %v to %v, want it on top of %v", bottom, top, attribute(&admitted[1], "y"))
	}
	if x := attribute(&closed[0], "x"); math.Abs(x-(plotLeft+plotWidth/2)) > 0.2 {
		t.Errorf("got the closure at 1.5 of 3 s at %v, want it in the middle", x)
	}
	for _, want := range []string{"a title", "limit 100", "admitted, in each 1 s", "synchronous limiter", "closed at the first server"} {
		if !strings.Contains(texts, want) {
			t.Errorf("got no text %q", want)
		}
	}
}

// TestAPictureOfAnything is well-formed: of nothing, of no time, of a limit of 0, of hostile ids and of very large numbers.
func TestAPictureOfAnything(t *testing.T) {
	for name, p := range map[string]Picture{
		"nothing":     {},
		"no periods":  {Series: Series{Limit: 5, Length: 60}},
		"hostile":     {Title: `</text><script>alert("1")</script>&amp;` + "\x1b[2J", Series: Series{Caller: "<svg", Limit: 1, Length: 1}},
		"no limit":    {Series: Series{Length: 1, Periods: []SeriesPoint{{Admitted: 5}}}},
		"large":       {Series: Series{Limit: 1 << 52, Length: 1e9, Periods: []SeriesPoint{{At: 1e9, Admitted: 1 << 53, Peak: 1 << 53}}}},
		"before zero": {Series: Series{Limit: 5, Length: 1, Periods: []SeriesPoint{{At: -1, Admitted: 5}}, Closed: [][2]float64{{-5, -4}, {-1, 0.5}, {5, 4}}}},
	} {
		image := draw(t, p)
		list, _ := elements(t, strings.ReplaceAll(image, "\x1b", ""))
		for _, e := range list {
			if e.Name.Local == "script" {
				t.Errorf("%s: got a script", name)
			}
		}
		if !strings.HasPrefix(image, "<svg ") || !strings.HasSuffix(image, "</svg>\n") {
			t.Errorf("%s: got %.100q", name, image)
		}
	}
	if list, _ := elements(t, draw(t)); attribute(&list[0], "height") != panelHeight {
		t.Errorf("got a height of %v without panels", attribute(&list[0], "height"))
	}
}

// TestPanelsAreOneBelowTheOther.
func TestPanelsAreOneBelowTheOther(t *testing.T) {
	image := draw(t, Picture{Title: "first"}, Picture{Title: "second"})
	list, texts := elements(t, image)
	if attribute(&list[0], "height") != 2*panelHeight || strings.Index(texts, "first") > strings.Index(texts, "second") ||
		!strings.Contains(image, "translate(0 260)") {
		t.Errorf("got %.300s", image)
	}
}

// TestARunCanBeDrawn: what simulate prints is what it has measured.
func TestARunCanBeDrawn(t *testing.T) {
	r := run(t, "A", Options{Duration: 10 * time.Second}, 1)
	list, _ := elements(t, draw(t, Picture{Series: r.Rules[0].Series}))
	if over, closed := filled(list, colourOver), filled(list, colourClosed); len(over) < 9 || len(closed) < 9 {
		t.Errorf("got %d windows over the limit and %d closures of 10", len(over), len(closed))
	}
}

// TestMarksAreRound: some five of them on any axis.
func TestMarksAreRound(t *testing.T) {
	for _, length := range []float64{0.001, 0.7, 1, 3, 65, 100, 1234, 9.9e9} {
		by := step(length)
		if n := length / by; n < 2 || n > 6.01 {
			t.Errorf("step(%v): got %v, which is %.1f marks", length, by, n)
		}
		digit := by / math.Pow(10, math.Floor(math.Log10(by)+1e-9))
		if math.Abs(digit-1) > 1e-6 && math.Abs(digit-2) > 1e-6 && math.Abs(digit-5) > 1e-6 && math.Abs(digit-10) > 1e-6 {
			t.Errorf("step(%v): got %v, want 1, 2 or 5 times a power of ten", length, by)
		}
	}
}
