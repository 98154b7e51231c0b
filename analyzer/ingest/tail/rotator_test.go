package tail

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rotator is how logs are rotated.
type rotator struct {
	numbers, dates, apart, copies, zips bool
}

// rotate renames the log, or copies it and truncates it. It plans the steps of that.
func (h *history) rotate() {
	h.rotated++
	to := logPath + ".1"
	dir := "/logs/"
	if h.kind.apart {
		dir = "/logs/old/"
		to = "/logs/old/access.log.1"
	}
	if h.kind.dates {
		to = dir + fmt.Sprintf("access.log-202401%05d", h.rotated)
		if h.seed%2 == 0 {
			to = dir + fmt.Sprintf("access-202401%05d.log", h.rotated)
		}
	} else {
		for i := h.rotated; i > 0; i-- {
			for _, ending := range []string{"", ".gz"} {
				from, to := fmt.Sprintf("%saccess.log.%d%s", dir, i, ending), fmt.Sprintf("%saccess.log.%d%s", dir, i+1, ending)
				h.plan(func() {
					if h.disk.names[from] != nil {
						h.note("rename %s to %s", from, to)
						h.disk.rename(from, to)
					}
				})
			}
		}
	}
	h.plan(func() { h.note("rotate to %s, %d bytes, copy %v", to, len(h.disk.names[logPath].data), h.kind.copies) })
	if h.kind.copies {
		h.plan(h.disk.copying(logPath, to, h.rnd.IntN(2) == 0)...)
		h.plan(func() { h.truncate(len(h.disk.names[to].data)) })
		if h.rnd.IntN(2) == 0 {
			h.plan(h.header)
		}
	} else {
		h.plan(func() { h.note("rename it"); h.disk.rename(logPath, to) }, h.reopen, h.header)
	}
	if h.rnd.IntN(3) == 0 {
		h.plan(func() { h.lines(h.server, h.amount()) })
	}
}

func (h *history) plan(steps ...func()) { h.todo = append(h.todo, steps...) }

// next takes the next step of the rotator.
func (h *history) next() {
	inside := h.inside
	h.inside = false
	step := h.todo[0]
	h.todo = h.todo[1:]
	step()
	h.clock = h.clock.Add(time.Duration(h.rnd.IntN(2)) * time.Millisecond)
	h.inside = inside
}

// zip compresses a rotated log that nobody writes to.
func (h *history) zip() {
	var names []string
	for name, f := range h.disk.names {
		if name != logPath && f.writers == 0 && !strings.HasSuffix(name, ".gz") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		name := names[h.rnd.IntN(len(names))]
		h.note("gzip %s", name)
		h.plan(h.disk.zipping(name)...)
	}
}

// delete deletes a rotated log, or truncates the log without a copy.
func (h *history) delete() {
	var names []string
	for name := range h.disk.names {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[h.rnd.IntN(len(names))]
	h.note("delete %s, file %d", name, h.disk.names[name].number)
	f := h.disk.names[name]
	if name == logPath {
		text := f.data
		f.truncate(0)
		h.excuse(text)
		return
	}
	h.excuseLate(f)
	h.disk.remove(name)
	h.deleted = append(h.deleted, f)
	h.excuseDeleted()
}
