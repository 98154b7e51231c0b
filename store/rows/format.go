package rows

import (
	"errors"
	"fmt"
)

// Format is how this program writes counts: the keys and values of rows, the checkpoint of a store, and the records of a snapshot. A change
// that the program before it would misunderstand or refuse gets the next number. A program reads this format and the one before.
const Format = 1

// Since is the first release that reads Format.
const Since = "v0.1.0"

// ErrNewer says that counts or frames were written by a newer version of floodgate. They are not damaged: nobody may move them aside or
// delete them. Test with errors.Is.
var ErrNewer = errors.New("written by a newer version of floodgate")

// Check returns an ErrNewer if this program cannot read counts in a format. since is the first release that can, as the counts say.
func Check(format uint32, since string) error {
	if format <= Format {
		return nil
	}
	return fmt.Errorf("%w: got format %d, want %d or lower; %.32q and later can read it", ErrNewer, format, Format, since)
}
