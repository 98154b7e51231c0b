//go:build !failpoint

package failpoint

// Enabled reports whether this program crashes where it is told to.
const Enabled = false

// Here does nothing in a program built without -tags failpoint.
func Here(Point) {}
