package ingest

// scan reads lines of a format and maps them. It is used by one goroutine.
type scan struct {
	m       *mapper
	decoder decoder
	clock   clock
	values  []string   // of the line at hand: "" where it has no such field
	client  lineClient // of the line at hand
	path    string     // of the line at hand, before it is made to fit a template
	route   string     // the resource of the line at hand, with its method, all of its bytes
}

// Scan implements Scanner.
func (s *scan) Scan(line []byte, l *Line) Reason {
	m := s.m
	l.reset(len(m.callers))
	clear(s.values)
	missing := s.decoder.decode(view(line[:min(len(line), MaxLine)]), s.values, l)
	if m.path.what != refNone {
		s.findResource(l)
	}
	s.client = lineClient{}
	reason, found := missing, false
	for i := range m.callers {
		if r := s.caller(i, &m.callers[i], l); r != OK && missing != BadFormat && missing != Ambiguous {
			reason = r
		}
		found = found || l.IDs[i] != ""
	}
	if !found {
		return reason
	}
	if r := s.numbers(l, missing); r != OK {
		return r
	}
	l.Blocked = m.blocked.has(l.Status)
	if len(m.drop) > 0 && s.dropped(l) {
		return Dropped
	}
	if l.End = l.Time; m.arrivals.said {
		s.arrival(l)
	}
	return OK
}

// numbers reads the time, the status and the cost, as far as the decoder did not.
func (s *scan) numbers(l *Line, missing Reason) Reason {
	m := s.m
	if m.time.what == refNone {
		if l.Time == noTime {
			return missing
		}
	} else {
		text := s.first(&m.time)
		if text == "" {
			return missing
		}
		var ok bool
		if l.Time, ok = s.clock.parse(text); !ok {
			return BadTime
		}
	}
	if m.status.what != refNone {
		if n := whole(s.first(&m.status)); n <= 999 {
			l.Status = uint16(n)
		}
	}
	if m.cost.what != refNone {
		l.Cost = scaled(s.first(&m.cost), m.scale)
	}
	return OK
}

// first returns the value of a field of the log, "" if there is none.
func (s *scan) first(r *ref) string {
	for _, slot := range r.slots {
		if v := s.values[slot]; v != "" && (v != "-" || !s.m.dash) {
			return v
		}
	}
	return ""
}

// value returns the value of a ref, "" if there is none.
func (s *scan) value(r *ref, l *Line) string {
	switch r.what {
	case refClient:
		return s.clientID(l)
	case refNet:
		return s.m.network(s.clientAddr(l), l)
	case refASN:
		return s.m.system(s.clientAddr(l))
	case refResource:
		return s.route
	case refPath:
		return s.path
	}
	return s.first(r)
}
