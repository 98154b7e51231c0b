//go:build unix

package gate

import "testing"

// BenchmarkParts measures the parts of a hit at 1000 closed callers. Each figure is of a part for which the next one does not
// wait, and contains the loop. "chained" is the time until the hash is there. A hit waits for it, and then for three loads,
// one after the other: the marks, the ref and the closed caller.
func BenchmarkParts(b *testing.B) {
	s := closedSet(1000)
	defer keepClock(s)()
	g, t := s.Gate("key"), s.view.Load()
	var ids [512]string
	var hashes [512]uint64
	var callers [512]*closedCaller
	n := 0
	for _, id := range askers(1000) {
		if n == len(ids) {
			break
		}
		ids[n], hashes[n] = id, g.sum(id)
		callers[n] = t.find(hashes[n], g.tag(), id)
		n++
	}
	word := tagAndLen(g.tag(), ids[0])
	for _, part := range []struct {
		name string
		f    func(i int) bool
	}{
		{"loop", func(i int) bool { return len(ids[i]) == 22 }},
		{"hash", func(i int) bool { return g.sum(ids[i]) != 1 }},
		{"filter", func(i int) bool { return t.mayHold(hashes[i]) }},
		{"marks, ref and closed caller", func(i int) bool {
			g := &t.groups[t.home(hashes[i])]
			return t.callerAt(g, matches(g.marks.Load(), mark(hashes[i]))).tagAndLen>>16 == 22
		}},
		{"compare", func(i int) bool { return callers[i].belongsTo(word, ids[i]) }},
		{"clock", func(i int) bool { return s.inForceFast(callers[i]) }},
		{"all", func(i int) bool { return g.Closed(ids[i]) }},
	} {
		b.Run(part.name, func(b *testing.B) {
			cpu(b, func(n int) {
				for i := range n {
					if !part.f(i & 511) {
						b.Fatal("got no, want yes")
					}
				}
			})
		})
	}
	b.Run("hash, chained", func(b *testing.B) {
		cpu(b, func(n int) {
			at := 0
			for i := range n {
				at = (i + int(g.sum(ids[at])&1)) & 511
			}
		})
	})
}
