package replay

import "github.com/509da70d/floodgate/schemas"

// closures knows until when callers are closed, in Unix nanoseconds, if closures are in force as soon as they are counted. Its time
// never goes back. A caller is closed until the last of its closures ends, under any rule. The zero value has no closed caller. One
// goroutine uses it.
type closures struct {
	until   map[schemas.Caller]int64
	sweepAt int // number of callers at which closures that have ended are dropped
}

// close closes a caller from now on.
func (c *closures) close(caller schemas.Caller, now, until int64) {
	if now >= until {
		return
	}
	if c.until == nil {
		c.until = make(map[schemas.Caller]int64)
	}
	if c.until[caller] = max(c.until[caller], until); len(c.until) >= c.sweepAt {
		c.sweep(now)
	}
}

// open opens a caller.
func (c *closures) open(caller schemas.Caller) { delete(c.until, caller) }

// sweep drops the closures that have ended.
func (c *closures) sweep(now int64) {
	for caller := range c.until {
		c.closed(caller, now)
	}
	c.sweepAt = 2*len(c.until) + 1024
}

// closed reports whether a caller is closed now.
func (c *closures) closed(caller schemas.Caller, now int64) bool {
	if len(c.until) == 0 {
		return false
	}
	until, ok := c.until[caller]
	if ok && until <= now {
		delete(c.until, caller)
		return false
	}
	return ok
}
