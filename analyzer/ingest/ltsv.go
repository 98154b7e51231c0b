package ingest

import "strings"

// ltsv reads labeled tab-separated values: label:value, with a tab between them. A time may stand in brackets. Of equal labels the
// first counts.
type ltsv struct{ *freeNames }

func newLTSV(Mapping) (fieldNames, func() decoder, error) {
	names := newFreeNames()
	return names, func() decoder { return ltsv{names} }, nil
}

// decode implements decoder.
func (f ltsv) decode(s string, values []string, _ *Line) Reason {
	if strings.IndexByte(s, '\t') < 0 {
		return BadFormat // one label would be a prefix of any text with a colon
	}
	for more := true; more; {
		var part string
		part, s, more = strings.Cut(s, "\t")
		label, value, found := strings.Cut(part, ":")
		if !found && part != "" || found && strings.Trim(label, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-") != "" {
			clear(values)
			return BadFormat
		}
		slot, wanted := f.slots[label]
		if !wanted || values[slot] != "" {
			continue
		}
		if n := len(value); n > 2 && value[0] == '[' && value[n-1] == ']' && n == clfLen+2 {
			value = value[1 : n-1]
		}
		values[slot] = value
	}
	return MissingField
}
