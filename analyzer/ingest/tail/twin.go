package tail

// followTwin passes over what the twin has, too. It reports whether there is nothing else.
func (r *reader) followTwin(size int64) (equal bool, err error) {
	if r.twin != nil && r.twin.file == nil {
		err = r.leaveTwin(size)
	}
	if err != nil || r.twin == nil {
		return false, err
	}
	if intact, err := r.intact(); err != nil || !intact {
		return false, err
	}
	has, err := r.twin.content()
	if err != nil {
		return false, err
	}
	end := min(size, has.size)
	if end > r.offset {
		if equal, err = has.begins(content{r.file, size}); err != nil {
			return false, err
		}
		if !equal {
			r.twin = nil
			return false, nil
		}
		return r.passOver(end)
	}
	return size >= r.offset, nil
}

// leaveTwin passes over what a twin that has no file any more had read. Another log that has more of the same is the next twin.
func (r *reader) leaveTwin(size int64) error {
	last := r.twin.log
	r.twin = nil
	for _, l := range r.f.Positions.of(r.f.Path) {
		end := l.Read.End
		agreed, err := content{r.file, size}.agreement(r.f.Positions.places(l))
		if err != nil {
			return err
		}
		other := r.f.readerOf(l)
		switch {
		case agreed <= 0 || end <= r.offset:
		case l == last && agreed == end:
			if intact, err := r.passOver(end); err != nil || !intact {
				return err
			}
		case other != nil && other.file != nil && other.has(content{r.file, min(size, end)}):
			r.twin = other
		}
	}
	return nil
}

// passOver goes on at end, unless the file has been written anew: then what stands there was not read by the twin.
func (r *reader) passOver(end int64) (intact bool, err error) {
	then := *r
	if err := then.seek(end); err != nil {
		return true, err
	}
	if intact, err := r.intact(); err != nil || !intact {
		return intact, err
	}
	r.offset, r.before = then.offset, then.before
	return true, nil
}
