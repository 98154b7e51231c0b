package simulate

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
)

// Picture is one panel of a drawing: one caller under one rule.
type Picture struct {
	Title string
	Series
}

// Measures of a panel, in pixels.
const (
	panelWidth  = 900
	panelHeight = 260
	plotLeft    = 70
	plotTop     = 40
	plotWidth   = panelWidth - plotLeft - 20
	plotHeight  = 150
)

// Colours: of the plain ones that most people tell apart (Okabe and Ito, 2008).
const (
	colourAdmitted = "#0072b2"
	colourOver     = "#d55e00"
	colourLimit    = "#000000"
	colourClosed   = "#999999"
	colourSync     = "#009e73"
)

// Draw writes an SVG image of the panels, one below the other: for each window what was admitted, against the limit, what the
// synchronous limiter admits, and when the caller was closed at the first server.
func Draw(out io.Writer, panels []Picture) error {
	w := bufio.NewWriter(out)
	height := panelHeight * max(1, len(panels))
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		panelWidth, height, panelWidth, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", panelWidth, height)
	for i := range panels {
		fmt.Fprintf(w, `<g transform="translate(0 %d)">`+"\n", i*panelHeight)
		panels[i].draw(w)
		fmt.Fprintln(w, "</g>")
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// scale maps seconds and requests to pixels.
type scale struct{ seconds, requests float64 }

func (s scale) x(at float64) float64 {
	return plotLeft + min(max(at/s.seconds, 0), 1)*plotWidth
}

func (s scale) y(n float64) float64 {
	return plotTop + plotHeight*(1-n/s.requests)
}

// draw writes one panel.
func (p *Picture) draw(w io.Writer) {
	fmt.Fprintf(w, `<text x="%d" y="22" font-size="14">%s</text>`+"\n", plotLeft, html.EscapeString(p.Title))
	s := scale{seconds: max(p.Length, 1e-3), requests: 1.2 * float64(max(1, p.Limit))}
	for i := range p.Periods {
		at := &p.Periods[i]
		s.seconds = max(s.seconds, at.At+p.Length)
		s.requests = max(s.requests, 1.05*float64(max(at.Peak, at.Admitted)))
	}
	p.axes(w, s)
	p.bars(w, s)
	y := s.y(float64(p.Limit))
	fmt.Fprintf(w, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s" stroke-dasharray="6 3"/>`+"\n", plotLeft, y, plotLeft+plotWidth, y, colourLimit)
	p.closures(w, s)
	p.legend(w)
}

// bars writes what was admitted: up to the limit in one colour, and what is over it in another.
func (p *Picture) bars(w io.Writer, s scale) {
	for i := range p.Periods {
		at := &p.Periods[i]
		left := s.x(at.At)
		width := max(0.5, (s.x(at.At+p.Length)-left)*0.9)
		bar := func(from, to int64, colour string) {
			if to > from {
				fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
					left, s.y(float64(to)), width, s.y(float64(from))-s.y(float64(to)), colour)
			}
		}
		bar(0, min(at.Admitted, p.Limit), colourAdmitted)
		bar(p.Limit, at.Admitted, colourOver)
		y := s.y(float64(at.Sync))
		fmt.Fprintf(w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/>`+"\n", left, y, left+width, y, colourSync)
	}
}

// closures writes when the caller was closed.
func (p *Picture) closures(w io.Writer, s scale) {
	for _, c := range p.Closed {
		left, right := s.x(c[0]), s.x(c[1])
		if right > left {
			fmt.Fprintf(w, `<rect x="%.1f" y="%d" width="%.1f" height="8" fill="%s"/>`+"\n", left, plotTop+plotHeight+4, right-left, colourClosed)
		}
	}
}

// axes writes both axes with their numbers.
func (p *Picture) axes(w io.Writer, s scale) {
	bottom := plotTop + plotHeight
	for n, by := 0.0, step(s.requests); n <= s.requests; n += by {
		fmt.Fprintf(w, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n",
			plotLeft, s.y(n), plotLeft+plotWidth, s.y(n), plotLeft-6, s.y(n)+4, n)
	}
	for at, by := 0.0, step(s.seconds); at <= s.seconds; at += by {
		fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle">%g s</text>`+"\n", s.x(at), bottom+28, at)
	}
}

// step returns a round distance of some five marks on an axis of this length.
func step(length float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(length/5)))
	for _, n := range []float64{1, 2, 5} {
		if length/(n*unit) <= 6 {
			return n * unit
		}
	}
	return 10 * unit
}

// legend says what the colours mean.
func (p *Picture) legend(w io.Writer) {
	x := plotLeft
	for _, e := range []struct{ colour, text string }{
		{colourAdmitted, "admitted, in each " + fmt.Sprintf("%g s", p.Length)}, {colourOver, "over the limit"}, {colourLimit, fmt.Sprintf("limit %d", p.Limit)},
		{colourSync, "synchronous limiter"}, {colourClosed, "closed at the first server"},
	} {
		y := plotTop + plotHeight + 50
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y-9, e.colour, x+14, y, e.text)
		x += 30 + 7*len(e.text)
	}
}
