package tail

// followTwin passes over what the twin has, too. It reports whether there is nothing else.
func (r *reader) followTwin(size int64) (equal bool, err error) {
	if r.twin == nil {
		return false, nil
	}
	if r.twin.file == nil {
		return false, r.leaveTwin(size)
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

// leaveTwin passes over what a twin that has no file any more had read.
func (r *reader) leaveTwin(size int64) error {
	log := r.twin.log
	r.twin = nil
	if log == nil {
		return nil
	}
	var places []place
	var end int64
	r.f.Positions.change(func() { places, end = log.places(), log.Read.End })
	if end <= r.offset {
		return nil
	}
	if agreed, err := (content{r.file, size}).agreement(places); err != nil || agreed < end {
		return err
	}
	_, err := r.passOver(end)
	return err
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
