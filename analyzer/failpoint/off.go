//go:build !failpoint

package failpoint

// Enabled reports whether this program was built with -tags failpoint.
const Enabled = false

// Here does nothing in a program built without -tags failpoint.
func Here(Point) {}
