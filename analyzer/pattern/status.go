package pattern

// StatusRange is a range of HTTP statuses, both ends included: 401 to 401, or 500 to 599.
type StatusRange struct{ From, To uint16 }

// Contains reports whether the range contains a status.
func (r StatusRange) Contains(status uint16) bool { return r.From <= status && status <= r.To }

// AnyStatus reports whether one of the ranges contains a status.
func AnyStatus(ranges []StatusRange, status uint16) bool {
	for _, r := range ranges {
		if r.Contains(status) {
			return true
		}
	}
	return false
}
