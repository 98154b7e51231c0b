//go:build unix

package record

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
)

// asked is what requests ask for in benchmarks.
const asked = "/v1/search"

// crowd is a server with 1024 callers, by id and by address.
type crowd struct {
	*server
	ids   [1024]string
	addrs [1024]netip.Addr
}

func newCrowd() *crowd {
	c := &crowd{server: newServer(Options{})}
	for i := range c.ids {
		c.ids[i] = fmt.Sprintf("caller-%015d", i)
		c.addrs[i] = netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
	}
	return c
}

// BenchmarkRequest is all that the gate and the Recorder do for a request, part by part: loop is what the benchmark costs
// itself, callers is to hash them, check is that and to ask, the others are all of it. The time is the request's.
func BenchmarkRequest(b *testing.B) {
	s := newCrowd()
	run := func(name string, request func(i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime()
			for i := range b.N {
				request(i & 1023)
			}
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
	run("loop", func(i int) { sink += len(s.ids[i]) })
	run("callers", func(i int) {
		var c gate.Callers
		c.Add(s.keys, s.ids[i])
		sink += c.Len()
	})
	run("check", func(i int) {
		var c gate.Callers
		c.Add(s.keys, s.ids[i])
		if s.set.Check(&c).Closed {
			panic("closed")
		}
	})
	run("one caller", func(i int) {
		var c gate.Callers
		c.Add(s.keys, s.ids[i])
		s.rec.Record(&c, s.set.Check(&c), Request{Resource: asked, At: noon})
	})
	run("one address", func(i int) {
		var c gate.Callers
		c.AddAddr(s.ips, s.addrs[i])
		s.rec.Record(&c, s.set.Check(&c), Request{Resource: asked, At: noon})
	})
	run("two callers", func(i int) { s.two(i, noon) })
	run("two callers, now", func(i int) { s.two(i, time.Time{}) })
}

func (s *crowd) two(i int, at time.Time) {
	var c gate.Callers
	c.AddAddr(s.ips, s.addrs[i])
	c.Add(s.keys, s.ids[i])
	s.rec.Record(&c, s.set.Check(&c), Request{Resource: asked, At: at})
}

var sink int

// BenchmarkRequestsAtOnce is two callers on every processor, by one goroutine on each, or by so many that each request is
// another's, as in a server.
func BenchmarkRequestsAtOnce(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines, " a processor"), func(b *testing.B) {
			s := newCrowd()
			var n atomic.Int64
			b.SetParallelism(goroutines)
			before := processorTime()
			b.RunParallel(func(pb *testing.PB) {
				for i := int(n.Add(37)); pb.Next(); i++ {
					s.two(i&1023, noon)
					if goroutines > 1 {
						runtime.Gosched()
					}
				}
			})
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
