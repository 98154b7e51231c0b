package main

import (
	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// walked is an assumption: how many bytes of other data a busy server touches between two lookups. It displaces the first
// level of cache and most of the second.
const walked = 1 << 20

// cold measures a case's lookups one at a time.
func (b *bench) cold(l lookup, cs []*contender, grid *report.Grid) {
	walker := meter.NewWalker(walked)
	took := make([]float64, len(cs))
	for i, c := range cs {
		if c.subject == nil {
			continue
		}
		id := make([]byte, 0, idBytes)
		one := make([]string, 1)
		stride := len(l.asked)/b.settings.cold | 1
		took[i] = walker.Cold(b.settings.cold, func(n int) {
			// The key is in the cache, as in a server that has just read it from the network.
			id = append(id[:0], l.asked[n*stride%len(l.asked)]...)
			one[0] = string(id)
		}, func(int) { c.subject.Ask(one) })
	}
	fill(grid, l, cs, func(i int) []float64 { return []float64{max(0, took[i]-took[0])} })
}
