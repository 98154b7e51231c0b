package demo

import (
	"fmt"
	"io"
	"time"
)

// Fair is the result of a demo in which all callers share a capacity, in the windows after the level had time to be found.
type Fair struct {
	Capacity int64   `json:"capacity"` // requests of all callers in a window
	Asked    float64 `json:"asked"`    // as a share of the capacity
	Admitted float64 `json:"admitted"` // likewise
}

// capacity is half as much again as the quiet callers ask for in a window.
func (c *Config) capacity() int64 {
	return max(int64(1.5*float64(c.Quiet)*c.QuietRate*c.Window.Seconds()), 1)
}

// quietTime is how long the noisy callers of a fair demo wait before they come: before that, nobody is closed.
func (c *Config) quietTime() time.Duration { return c.Duration / 4 }

// settled is the number of windows from when the noisy callers come until the demo measures.
const settled = 2

// fair measures what passed, from the requests that were sent in a demo that began at a time.
func (d *installation) fair(began time.Time) *Fair {
	from, to := began.Add(d.config.quietTime()+settled*d.config.Window), began.Add(d.config.Duration)
	windows := to.Sub(from).Seconds() / d.config.Window.Seconds()
	if windows < 1 {
		return nil
	}
	f := &Fair{Capacity: d.config.capacity()}
	for _, c := range d.load.callers {
		c.mu.Lock()
		for _, at := range c.admitted {
			if !at.Before(from) && at.Before(to) {
				f.Admitted++
			}
		}
		c.mu.Unlock()
		f.Asked += c.rate * to.Sub(from).Seconds()
	}
	all := windows * float64(f.Capacity)
	f.Asked, f.Admitted = f.Asked/all, f.Admitted/all
	return f
}

func (f *Fair) show(out io.Writer) {
	fmt.Fprintf(out, "capacity of all callers: %d in a window; they asked for %.2f of it, and %.2f was admitted\n", f.Capacity, f.Asked, f.Admitted)
}
