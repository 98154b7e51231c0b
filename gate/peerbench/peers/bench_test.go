package peers

import (
	"testing"
)

// BenchmarkAsk is each subject alone, asked about a thousand callers who may pass: for a look at one library. Figures to
// compare are the command's.
func BenchmarkAsk(b *testing.B) {
	keys := names(0, 1000)
	ask := func(name string, s Subject) {
		b.Run(name, func(b *testing.B) {
			s.Ask(keys)
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(keys) {
				if s.Ask(keys[:min(len(keys), b.N-i)]) > 0 {
					b.Fatal("got somebody refused")
				}
			}
		})
	}
	g := NewGate(names(1000, 2000))
	defer g.Close()
	ask("floodgate", g)
	for _, l := range Limiters() {
		ask(l.Name, l.New(Generous()))
	}
	for _, f := range Flags() {
		ask(f.Name, f.New(names(1000, 2000)))
	}
}

// BenchmarkRefuse is the same for callers who may not pass.
func BenchmarkRefuse(b *testing.B) {
	keys := names(0, 1000)
	ask := func(name string, s Subject) {
		b.Run(name, func(b *testing.B) {
			s.Ask(keys)
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(keys) {
				if n := min(len(keys), b.N-i); s.Ask(keys[:n]) != n {
					b.Fatal("got somebody allowed")
				}
			}
		})
	}
	g := NewGate(keys)
	defer g.Close()
	ask("floodgate", g)
	for _, l := range Limiters() {
		if !l.Blocks {
			ask(l.Name, l.New(Spent()))
		}
	}
	for _, f := range Flags() {
		ask(f.Name, f.New(keys))
	}
}
