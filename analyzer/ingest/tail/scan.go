package tail

import (
	"cmp"
	"os"
	"slices"
	"time"
)

// scan is one look at the files of a path: it says which log each of them is.
type scan struct {
	f       *Follower
	now     time.Time
	known   []*logFile              // the newest first
	found   []*candidate            // the one at the path last
	at      *candidate              // the one at the path, or nil
	moving  bool                    // names changed during the look: files may have been missed
	settled unchanging              // those of before that are still there
	since   time.Time               // compressed files that were last changed earlier are of no interest
	claims  map[*logFile]*candidate // what continues a log that has no file
	parts   map[*logFile]*candidate // a copy of such a log that ends before the place up to which its lines may be in Kafka
	copied  map[*logFile]bool       // a copy of such a log is there, and it ends before the place up to which the log was read
	opened  bool                    // there are new readers
}

// search looks whether there is another file at the path, and looks at all files if so, or now and then. It reports whether there are new
// readers.
func (f *Follower) search() (opened bool, err error) {
	now := f.Now()
	info, err := f.disk.stat(f.Path)
	there := err == nil
	var current *reader
	for _, r := range f.readers {
		if r.file == nil || r.ending {
			continue
		}
		rotated := !there || !f.disk.same(onlyFile(r.id), info)
		if rotated && !r.rotated {
			r.since = now
		}
		if r.rotated = rotated; !rotated {
			current = r
		}
	}
	if current != nil && current.log != nil && f.complete() && current.info != nil && current.info.ModTime().After(f.newest) {
		f.newest = current.info.ModTime()
		f.Positions.change(func() { current.log.Modified = f.newest })
	}
	since := now.Sub(f.scanned)
	again := f.scanned.IsZero() || f.renamed.Swap(false) || since >= scanEvery ||
		since >= lostAfter && (f.confirm || f.waiting) || since >= look && f.lacks()
	if current == nil && there || again {
		return f.scan(now, there)
	}
	return false, nil
}

// complete reports whether each log that was at the path until now has a record, or was read: the records say what was seen last at the path.
func (f *Follower) complete() bool {
	if f.confirm || f.waiting {
		return false
	}
	return !slices.ContainsFunc(f.readers, func(r *reader) bool { return r.rotated && r.log == nil && !r.ending })
}

// lacks reports whether a log has no file that should have one.
func (f *Follower) lacks() bool {
	return len(f.missing) > 0 || slices.ContainsFunc(f.readers, func(r *reader) bool { return r.file == nil && !r.ending })
}

// readerOf returns the reader of a log, or nil.
func (f *Follower) readerOf(l *logFile) *reader {
	for _, r := range f.readers {
		if r.log == l && !r.ending {
			return r
		}
	}
	return nil
}

// scan looks at all files. there says whether there is one at the path.
func (f *Follower) scan(now time.Time, there bool) (opened bool, err error) {
	s := &scan{
		f: f, now: now, known: f.Positions.of(f.Path), settled: make(unchanging), since: f.newest,
		claims: make(map[*logFile]*candidate), parts: make(map[*logFile]*candidate), copied: make(map[*logFile]bool),
	}
	slices.Reverse(s.known)
	first := f.scanned.IsZero()
	f.scanned, f.waiting = now, false
	lacks := f.lacks()
	for _, l := range s.known {
		if r := f.readerOf(l); !l.Finished && r == nil || r != nil && r.file == nil {
			lacks = true
			if l.Modified.Before(s.since) {
				s.since = l.Modified
			}
		}
	}
	s.candidates(lacks)
	defer s.close()
	if first && len(s.known) == 0 {
		if err := s.begin(); err != nil {
			f.Logger.Error("cannot begin with a log, trying again", "path", f.Path, "error", err)
			f.scanned = time.Time{}
			return false, nil
		}
	}
	for _, c := range s.found {
		s.claim(c)
	}
	for _, c := range s.found {
		if err := s.give(c); err != nil && f.Once {
			return false, err
		} else if err != nil {
			f.Logger.Error("cannot read a log, looking for it again", "path", c.path, "error", err)
		}
	}
	s.giveUp(there)
	return s.opened, nil
}

// close closes the files that no reader has taken.
func (s *scan) close() {
	for _, c := range s.found {
		if !c.taken {
			_ = c.file.Close()
		}
	}
}

// begin is for the first look of all: what was rotated before is not read, and with FromEnd neither is what is in the log.
func (s *scan) begin() error {
	for _, c := range s.found {
		s.f.newest = later(s.f.newest, c.info.ModTime())
		if !c.current {
			c.known = true
			s.settle(c)
		}
	}
	if !s.f.FromEnd {
		return nil
	}
	l, err := s.ended()
	if err != nil || !s.f.Positions.skip(s.f.Path, l) {
		return err
	}
	if l != nil {
		s.known = append(s.known, l)
	}
	return s.f.Positions.Save() // after a crash, what comes from now on counts
}

// settle takes note that a file needs no look unless it changes.
func (s *scan) settle(c *candidate) {
	if !c.current {
		s.settled.add(onlyFile(c.info))
	}
}

// kin is a log that a file agrees with.
type kin struct {
	log    *logFile
	agreed int64 // bytes from the start
}

// kin returns the logs that a file agrees with: those with most bytes in common first, and of several the newest. Without enough in common,
// the file must have been changed since the log was last seen at the path.
func (s *scan) kin(c *candidate) (all []kin, err error) {
	for _, l := range s.known {
		agreed, err := c.agreement(s.f.Positions.places(l))
		if err != nil {
			return nil, err
		}
		if agreed >= l.Own || agreed > 0 && (c.current || !c.info.ModTime().Before(l.Modified)) {
			all = append(all, kin{l, agreed})
		}
	}
	slices.SortStableFunc(all, func(a, b kin) int { return cmp.Compare(b.agreed, a.agreed) })
	return all, nil
}

// claim decides which log a file is.
func (s *scan) claim(c *candidate) {
	info, err := c.file.Stat() // again: a copy of it that was opened later may have more than it had
	if err != nil {
		s.unopened(c, onlyFile(c.info), err)
		return
	}
	c.size = info.Size()
	all, err := s.kin(c)
	for _, k := range all {
		var decided bool
		switch r := s.f.readerOf(k.log); {
		case r != nil && r.file != nil:
			decided, err = s.beside(c, r, k.agreed)
		case c.size >= k.log.Read.End:
			decided, err = s.continues(c, k.log)
		default:
			decided = s.part(c, k.log, r, k.agreed)
		}
		if decided {
			return
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		s.unopened(c, onlyFile(c.info), err)
		return
	}
	s.own(c)
}

// beside decides about a file that agrees with a log which is read from another file. That file is another log if the two differ, or if it
// is at the path and the other one was renamed. Otherwise it is a copy. If the other one has no name any more, the copy takes its place:
// it may be the same log, under another device number.
func (s *scan) beside(c *candidate, r *reader, agreed int64) (decided bool, err error) {
	before, err := r.file.Stat()
	if err != nil {
		return false, err
	}
	has := content{r.file, before.Size()}
	info, err := c.file.Stat() // after the other one: if both are one file, this size is not the smaller one
	if err != nil {
		return false, err
	}
	is := content{c.file, info.Size()}
	equal, err := is.begins(has)
	if err != nil {
		return false, err
	}
	if intact, err := r.intact(); err != nil {
		return false, err
	} else if !intact { // it has been truncated: the next turn finds that, and looks for a copy
		s.f.waiting = true
		return true, nil
	}
	agreed = max(agreed, min(is.size, has.size))
	switch {
	case !equal:
		return false, nil
	case !c.current && is.size <= has.size: // or it has only the header so far
		same := agreed >= r.log.Own || is.size == has.size && info.ModTime().Equal(before.ModTime())
		if same {
			s.copy(c, r.log)
		}
		return same, nil
	case c.current && r.named && agreed < r.log.Own:
		return false, nil
	case is.size >= has.size:
		return true, s.replace(r, c)
	case agreed >= r.log.Own:
		s.wentBack(c, r.log)
		return true, nil
	}
	return false, nil
}

// continues decides about a file that has all that was read of a log without a file. Of two such files one may be a copy of the other: then
// the longer one is read. Otherwise the one that was changed earlier is the log.
func (s *scan) continues(c *candidate, l *logFile) (decided bool, err error) {
	other := s.claims[l]
	if other == nil {
		s.claims[l] = c
		return true, nil
	}
	if equal, err := c.begins(other.content); err != nil || !equal {
		return false, err
	}
	switch {
	case c.size >= other.size:
		s.claims[l] = c
		s.copy(other, l)
		return true, nil
	case c.current: // what was renamed is the log, and this one begins in the same way
		return false, nil
	}
	s.copy(c, l)
	return true, nil
}

// part decides about a file that agrees with a log without a file and ends before the place up to which its lines may be in Kafka.
// r is its reader, or nil. The file may be another log that has the same header.
func (s *scan) part(c *candidate, l *logFile, r *reader, agreed int64) (decided bool) {
	if agreed < l.Own {
		return false
	}
	if c.current {
		s.wentBack(c, l)
		return true
	}
	if longest := s.parts[l]; r == nil && c.size > l.Acked.End && (longest == nil || c.size > longest.size) {
		s.parts[l] = c
		return true
	}
	s.copied[l] = true
	s.copy(c, l)
	return true
}

// copy takes note that a file is a copy of a log, as far as it goes.
func (s *scan) copy(c *candidate, l *logFile) {
	if !c.known && c.size > 0 {
		s.f.Logger.Info("file is a copy of a log, or begins as it does: its lines count once", "path", c.path, "log", string(l.Name), "bytes", c.size)
	}
	s.settle(c)
}

// own decides that a file is a log of its own, if it was rotated since the path was looked at last.
func (s *scan) own(c *candidate) {
	if !c.current && (c.known || c.info.ModTime().Before(s.f.newest)) {
		s.settle(c)
		return
	}
	c.own = true
}

// add makes a reader for a file, at its start.
func (s *scan) add(c *candidate, l *logFile) *reader {
	r := &reader{
		f: s.f, file: c.file, id: c.info, name: c.path, named: true, packed: c.packed, rotated: !c.current, log: l, since: s.now,
	}
	c.taken, s.opened, s.f.confirm = true, true, s.f.confirm || c.current
	s.f.readers = append(s.f.readers, r)
	return r
}

// give makes the reader for a file, if it is to be read.
func (s *scan) give(c *candidate) error {
	if c.own {
		if !c.current {
			s.f.Logger.Info("reading a log that was rotated meanwhile", "path", c.path)
		}
		r := s.add(c, nil)
		if r.found = c.began != nil; r.found {
			return r.fork(c.began, c.size)
		}
		return nil
	}
	for _, l := range s.known {
		if s.claims[l] == c || s.parts[l] == c && s.claims[l] == nil {
			return s.goOn(c, l)
		}
	}
	return nil
}

// goOn lets a known log go on in a file.
func (s *scan) goOn(c *candidate, l *logFile) error {
	if r := s.f.readerOf(l); r != nil {
		return s.move(r, c)
	}
	if slices.ContainsFunc(s.f.readers, func(r *reader) bool { return r.log == l }) {
		s.f.waiting = true // until all that its reader has read is in Kafka
		return nil
	}
	if !c.current && l.Finished && c.size <= l.Acked.End {
		s.settle(c)
		return nil
	}
	r := s.add(c, l)
	r.found = true
	r.rename(s.f.realName(c.path))
	err := r.seek(l.Acked.End)
	if err == nil {
		err = r.unchanged()
	}
	if err == nil {
		err = r.open()
	}
	if err != nil { // its sink is not open: the next look begins again
		r.log = nil
		r.lose()
	}
	return err
}

// move gives a reader another file with the same content.
func (s *scan) move(r *reader, c *candidate) error {
	r.file, r.id, r.info, r.packed, r.rotated, r.since = c.file, c.info, nil, c.packed, !c.current, s.now
	c.taken, s.opened = true, true
	s.f.confirm = s.f.confirm || c.current
	r.rename(s.f.realName(c.path))
	if err := r.unchanged(); err != nil {
		r.lose()
		return err
	}
	r.lost = time.Time{}
	s.f.Logger.Info("a log goes on in another file", "path", c.path, "position", r.offset)
	return nil
}

// replace lets a reader go on in a file with the same content. Lines that still come to its file count as those of a log of its own.
func (s *scan) replace(r *reader, c *candidate) error {
	old := &reader{f: s.f, file: r.file, id: r.id, name: r.name, packed: r.packed, rotated: true, since: s.now, twin: r, found: true}
	has, err := r.content()
	if err == nil {
		err = old.fork(r.log, has.size)
	}
	if err != nil {
		old.letGo()
	} else {
		s.f.readers = append([]*reader{old}, s.f.readers...)
	}
	return s.move(r, c)
}

// wentBack decides to read a file from its end on that has lost the end of what was read of it.
func (s *scan) wentBack(c *candidate, l *logFile) {
	s.f.Logger.Warn("log ends before the place up to which it was read, and has what was read before: only lines that are added count",
		"path", c.path, "bytes", c.size, "position", l.Read.End)
	c.own, c.began = true, l
}

// giveUp reports the logs that have had no file for too long. Files that are renamed one after the other may be missed once.
func (s *scan) giveUp(there bool) {
	f := s.f
	overdue := func(since time.Time) bool { return f.Once || there && !s.moving && s.now.Sub(since) >= lostAfter }
	for _, r := range f.readers {
		switch {
		case r.file != nil || r.ending:
		case s.copied[r.log]:
			r.ending = true
		case overdue(r.lost):
			f.Logger.Error("a log was truncated or deleted, and no copy of it is found: lines that it got since may be missing", "path", r.name, "position", r.offset)
			f.report(r.offset)
			r.ending = true
		}
	}
	missing := make(map[*logFile]time.Time)
	for _, l := range s.known {
		if l.Finished || slices.ContainsFunc(f.readers, func(r *reader) bool { return r.log == l }) {
			continue
		}
		since, noted := f.missing[l]
		if !noted {
			since = s.now
		}
		if !overdue(since) {
			missing[l] = since
			continue
		}
		f.Logger.Error("a log is gone that was not read to its end", "path", string(l.Name), "position", l.Acked.End)
		f.report(l.Acked.End)
		f.Positions.change(func() { l.Finished = true })
	}
	f.missing = missing
}

// realName returns a path without symbolic links, if there is a file.
func (f *Follower) realName(path string) string { return cmp.Or(f.disk.real(path), path) }

// report counts a log of which lines may be missing.
func (f *Follower) report(offset int64) {
	if f.Lost != nil {
		f.Lost(offset)
	}
}

// partial is a compressed file that is not whole.
type partial struct {
	size  int64
	since time.Time
}

// growing reports whether a compressed file that is not whole was changed within the last minute.
func (f *Follower) growing(path string, info os.FileInfo, now time.Time) bool {
	p, noted := f.partials[path]
	if !noted || p.size != info.Size() {
		p = partial{info.Size(), now}
		f.partials[path] = p
	}
	return now.Sub(p.since) < partly
}
