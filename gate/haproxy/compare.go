package haproxy

import "time"

// comparison says what a comparison does.
type comparison struct {
	prune bool // the table has all that is in force: the map is to have nothing else
	count bool // what differs was changed by somebody else, or a command was lost
}

// compare reads a map, and notes what HAProxy has. What differs then waits to be written. n is the number of entries of all versions of
// the map.
func (w *Writer) compare(s *session, t *table, n int, c comparison) error {
	w.mu.Lock()
	t.keep = !c.prune
	w.mu.Unlock()
	w.each(t, func(e *entry) { e.seen = false })
	lines, twice, differs := 0, false, uint64(0)
	now := w.clock().UnixNano()
	err := s.dump(t.name, func(key, text string) {
		lines++
		w.mu.Lock()
		defer w.mu.Unlock()
		e := t.entries[key]
		switch {
		case e == nil && len(t.entries) >= maxEntries:
			twice = true
			return
		case e == nil:
			e = t.insert(key)
		case e.seen:
			twice = true
			return
		}
		e.seen = true
		if v := parseValue(text); v != e.have {
			differs++
			t.written(e, v, now)
		}
	})
	if err != nil {
		return err
	}
	w.each(t, func(e *entry) {
		switch {
		case !e.seen && e.have != (value{}):
			differs++
			t.written(e, value{}, now)
		case e.id == "":
			t.settle(e, never, now) // it may have been kept
		}
	})
	if c.count {
		w.stats.repaired.Add(differs)
	}
	t.others = n - t.held
	t.stained = c.prune && (twice || n != lines)
	return nil
}

// maxEntries is how many entries a comparison makes a table hold.
const maxEntries = 1 << 21

// wantsRewrite reports whether a new version of a map is better than changes: if it has what commands cannot name, if changes that
// matter now cost more, or if it has many entries that are over.
func (w *Writer) wantsRewrite(t *table) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lazy := t.waits[queueLazy]
	all := len(t.entries)
	return t.stained || time.Duration(t.waits[queueUrgent])*w.perEdit > atOnce+time.Duration(all)*w.perAdd || lazy > 1000+(all-lazy)/2
}

// rewrite fills a new version of a map, and puts it in the place of the current one. Entries that are new meanwhile are added to both.
func (w *Writer) rewrite(s *session, t *table) error {
	version, err := s.prepare(t.name)
	if err != nil {
		return err
	}
	staged := map[*entry]value{}
	if err := w.stage(s, t, version, staged, true); err != nil {
		return err
	}
	if err := w.stage(s, t, version, staged, false); err != nil { // what is new since
		return err
	}
	if err := s.quietly([]byte("commit map @"+version+" "+t.name+"\n"), 1); err != nil {
		return err
	}
	now := w.clock().UnixNano()
	w.each(t, func(e *entry) { t.written(e, staged[e], now) })
	t.others, t.stained = 0, false
	w.stats.rewritten.Add(1)
	return nil
}

// stage adds the entries that HAProxy has to a version of a map, unless they are staged. If adding is set, it also adds what is new to the
// current version.
func (w *Writer) stage(s *session, t *table, version string, staged map[*entry]value, adding bool) error {
	var all []*entry
	w.each(t, func(e *entry) {
		if _, done := staged[e]; !done && e.have != (value{}) {
			all = append(all, e)
		}
	})
	for len(all) > 0 {
		command := []byte("add map @" + version + " " + t.name + " <<\n")
		empty := len(command)
		w.mu.Lock()
		for len(all) > 0 && len(command) < payloadBytes {
			if e := all[0]; e.want != (value{}) {
				staged[e] = e.want
				command = appendEntry(command, e.key, e.want)
			}
			all = all[1:]
		}
		w.mu.Unlock()
		if len(command) == empty {
			continue
		}
		if err := s.quietly(append(command, '\n'), 1); err != nil {
			return err
		}
		if adding {
			if err := w.add(s, t); err != nil {
				return err
			}
		}
	}
	return nil
}
