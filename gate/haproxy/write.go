package haproxy

import (
	"context"
	"fmt"
	"time"
)

// atOnce is about how long HAProxy is kept busy by what is sent at once.
const atOnce = 5 * time.Millisecond

// write writes to HAProxy until ctx ends.
func (w *Writer) write(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		if wait := gatherFor - time.Since(w.wrote); wait > 0 {
			timer.Reset(wait)
			continue
		}
		now := w.clock()
		next := w.advance(now)
		if w.failed.IsZero() || time.Since(w.failed) >= pollEvery {
			w.report(ctx, w.round(ctx))
			w.wrote = time.Now()
		}
		timer.Reset(max(0, min(next.Sub(now), pollEvery)))
	}
}

// report keeps the result of a round, and logs when it is another one than before.
func (w *Writer) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.failed = time.Time{}
	default:
		if w.failed.IsZero() {
			w.options.Logger.Warn("HAProxy's maps cannot be written: what they have holds to its end", "socket", w.options.Socket, "error", err)
		}
		w.failed, w.compared = time.Now(), time.Time{}
		w.stats.failures.Add(1)
		w.stats.connected.Store(false)
	}
}

// round connects to HAProxy and writes what waits, if something waits that is not lazy or if it is time to ask for the state.
func (w *Writer) round(ctx context.Context) error {
	poll := time.Since(w.polled) >= pollEvery || w.compared.IsZero()
	if !poll && !w.isPressing() {
		return nil
	}
	s, err := openSession(ctx, w.dial)
	if err != nil {
		return err
	}
	defer s.close()
	if poll {
		if err := w.poll(s); err != nil {
			return err
		}
	}
	for _, t := range w.tables {
		if t.missing {
			continue
		}
		if err := w.writeTable(s, t, poll); err != nil {
			return fmt.Errorf("map %s: %w", t.name, err)
		}
	}
	return nil
}

// isPressing reports whether something waits that is not lazy.
func (w *Writer) isPressing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tables {
		if t.waits[queueAdd]+t.waits[queueUrgent] > 0 {
			return true
		}
	}
	return false
}

// poll asks HAProxy for its state, and compares the maps if it is another one than expected, or if it is time.
func (w *Writer) poll(s *session) error {
	st, err := s.state()
	if err != nil {
		return err
	}
	now := time.Now()
	w.polled = now
	ready := w.isReady()
	same := st.pid == w.known.pid && st.started == w.known.started
	missing := false
	all := !same || now.Sub(w.compared) >= compareEvery || w.compared.IsZero() || ready && !w.pruned
	for _, t := range w.tables {
		n, found := st.entries[t.name]
		if !found && !t.missing {
			w.options.Logger.Warn("HAProxy's configuration has no such map: it refuses no caller of this kind", "map", t.name, "kind", t.kind)
		}
		missing = missing || !found
		if t.missing = !found; t.missing || !all && n == t.held+t.others {
			continue
		}
		if err := w.compare(s, t, n, comparison{prune: ready, count: same}); err != nil {
			return fmt.Errorf("map %s: %w", t.name, err)
		}
	}
	if all {
		w.compared, w.pruned = now, ready
	}
	if w.known = st; !same {
		w.stats.fills.Add(1)
		w.options.Logger.Info("filling HAProxy's maps", "socket", w.options.Socket, "pid", st.pid)
	} else if !w.stats.connected.Load() && !missing {
		w.options.Logger.Info("HAProxy's maps can be written again", "socket", w.options.Socket)
	}
	w.stats.connected.Store(!missing)
	return nil
}

// writeTable writes what waits: new entries first, and lazy changes only if there is a poll.
func (w *Writer) writeTable(s *session, t *table, poll bool) error {
	if err := w.add(s, t); err != nil {
		return err
	}
	if w.wantsRewrite(t) {
		if err := w.rewrite(s, t); err != nil {
			return err
		}
	}
	for more := true; more; {
		var err error
		if more, err = w.edit(s, t, queueUrgent); err == nil {
			err = w.add(s, t)
		}
		if err != nil {
			return err
		}
	}
	if !poll {
		return nil
	}
	_, err := w.edit(s, t, queueLazy)
	return err
}

// add adds the entries that wait for it.
func (w *Writer) add(s *session, t *table) error {
	for {
		var batch []*entry
		var values []value
		command := append([]byte(nil), "add map "+t.name+" <<\n"...)
		w.mu.Lock()
		for len(command) < payloadBytes {
			e := t.take(queueAdd)
			if e == nil {
				break
			}
			batch, values = append(batch, e), append(values, e.want)
			command = appendEntry(command, e.key, e.want)
		}
		w.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		begun := time.Now()
		err := s.quietly(append(command, '\n'), 1)
		w.perAdd = smooth(w.perAdd, time.Since(begun), len(batch))
		w.finish(t, batch, values, err)
		if err != nil {
			return err
		}
		w.stats.added.Add(uint64(len(batch)))
	}
}

func appendEntry(b []byte, key string, v value) []byte {
	return append(v.append(append(append(b, key...), ' ')), '\n')
}

// finish notes that a batch was written, or that nobody knows.
func (w *Writer) finish(t *table, batch []*entry, values []value, err error) {
	now := w.clock().UnixNano()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range batch {
		v := values[i]
		if err != nil {
			v = e.have // until the maps are compared
		}
		t.written(e, v, now)
	}
}

// smooth returns what one of n costs, of which all took d, and before it cost per.
func smooth(per, d time.Duration, n int) time.Duration { return (3*per + d/time.Duration(n)) / 4 }

// edit changes and removes entries that wait in a queue: as many as keep HAProxy busy for the time atOnce. It reports whether more wait.
func (w *Writer) edit(s *session, t *table, q queue) (more bool, err error) {
	var batch []*entry
	var values []value
	var commands []byte
	removed := 0
	w.mu.Lock()
	for len(commands) < pipelineBytes && time.Duration(len(batch))*w.perEdit < atOnce {
		e := t.take(q)
		if e == nil {
			break
		}
		batch, values = append(batch, e), append(values, e.want)
		if e.want == (value{}) {
			commands = append(append(commands, "del map "+t.name+" "+e.key...), '\n')
			removed++
		} else {
			commands = appendEntry(append(commands, "set map "+t.name+" "...), e.key, e.want)
		}
	}
	more = t.waits[q] > 0
	w.mu.Unlock()
	if len(batch) == 0 {
		return false, nil
	}
	begun := time.Now()
	err = s.quietly(commands, len(batch))
	w.perEdit = smooth(w.perEdit, time.Since(begun), len(batch))
	w.finish(t, batch, values, err)
	if err != nil {
		return false, err
	}
	w.stats.removed.Add(uint64(removed))
	w.stats.changed.Add(uint64(len(batch) - removed))
	return more, nil
}
