//go:build unix

package gate

import "testing"

// BenchmarkParts is what a hit at 1000 closed is made of, part by part: each is what it costs where the next one does not
// wait for it, and the loop is in all of them. "chained" is until the hash is there, for which a hit waits, and after it
// for three loads, one after the other: the marks, the ref and the record.
func BenchmarkParts(b *testing.B) {
	s := closedSet(1000)
	defer keepClock(s)()
	g, t := s.Gate("key"), s.view.Load()
	var ids [512]string
	var hashes [512]uint64
	var records [512]*record
	n := 0
	for _, id := range askers(1000) {
		if n == len(ids) {
			break
		}
		ids[n], hashes[n] = id, g.sum(id)
		records[n] = t.find(hashes[n], g.tag(), id)
		n++
	}
	who := who(g.tag(), ids[0])
	for _, part := range []struct {
		name string
		f    func(i int) bool
	}{
		{"loop", func(i int) bool { return len(ids[i]) == 22 }},
		{"hash", func(i int) bool { return g.sum(ids[i]) != 1 }},
		{"filter", func(i int) bool { return t.mayHold(hashes[i]) }},
		{"marks, ref and record", func(i int) bool {
			g := &t.groups[t.home(hashes[i])]
			return t.recordAt(g, matches(g.marks.Load(), mark(hashes[i]))).who>>16 == 22
		}},
		{"compare", func(i int) bool { return records[i].is(who, ids[i]) }},
		{"clock", func(i int) bool { return s.surelyInForce(records[i]) }},
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
