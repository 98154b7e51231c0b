package filelog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

// point is a recovery point: where a partition ended when it was last synced.
type point struct {
	end     int64 // the offset behind the last record
	segment int64 // the offset that the name of the last segment has
	bytes   int64 // how long that segment was
}

// unknown is the recovery point of a partition that the file does not name: the log was closed in the middle of EnsureTopics, or somebody has
// removed the file.
var unknown = point{end: -1} //nolint:gochecknoglobals // a constant

// The file of recovery points has a line for each partition, NAME END SEGMENT BYTES, between a first line with the version of the format and
// a last line with the CRC-32C of all lines before.
const (
	pointsName    = "recovery-points"
	pointsVersion = "floodgate recovery points 1\n"
	checksumLine  = "checksum %08x\n"
)

// ErrPoints says that the file of recovery points is damaged, or that another version has written it. No further try of Open mends it.
var ErrPoints = errors.New("open the log with the version that has written it; if it is damaged, remove the file: all segments are read then, and " +
	"the log ends where the first one is damaged")

func formatPoints(points map[string]point) []byte {
	b := bytes.NewBufferString(pointsVersion)
	for _, name := range slices.Sorted(maps.Keys(points)) {
		p := points[name]
		fmt.Fprintln(b, name, p.end, p.segment, p.bytes)
	}
	fmt.Fprintf(b, checksumLine, checksum(b.Bytes()))
	return b.Bytes()
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// parsePoints reads what formatPoints has written; nothing, if there is no file yet.
func parsePoints(data []byte) (map[string]point, error) {
	points := make(map[string]point)
	if data == nil {
		return points, nil
	}
	text, ok := strings.CutPrefix(string(data), pointsVersion)
	if !ok {
		return nil, fmt.Errorf("got %.40q, want it to begin with %q: %w", data, pointsVersion, ErrPoints)
	}
	end := strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1 // of the last line but one
	if want := fmt.Sprintf(checksumLine, checksum([]byte(pointsVersion+text[:end]))); text[end:] != want {
		return nil, fmt.Errorf("got a last line %.40q, want %q: %w", text[end:], want, ErrPoints)
	}
	for line := range strings.Lines(text[:end]) {
		var name string
		var p point
		if _, err := fmt.Sscanf(line, "%s %d %d %d\n", &name, &p.end, &p.segment, &p.bytes); err != nil {
			return nil, fmt.Errorf("got the line %.80q, want a name and three numbers: %w", line, ErrPoints)
		}
		points[name] = p
	}
	return points, nil
}
