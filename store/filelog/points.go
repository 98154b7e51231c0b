package filelog

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The file of recovery points has a line for each partition, NAME OFFSET, between a first line with the version of the format and a last
// line with how many there are.
const pointsVersion = "floodgate recovery points 1"

func formatPoints(durable map[string]int64) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, pointsVersion)
	for _, name := range slices.Sorted(maps.Keys(durable)) {
		fmt.Fprintln(&b, name, durable[name])
	}
	fmt.Fprintln(&b, "partitions", len(durable))
	return b.Bytes()
}

// parsePoints reads what formatPoints has written; nothing, if there is no file yet.
func parsePoints(data []byte) (map[string]int64, error) {
	durable := make(map[string]int64)
	if data == nil {
		return durable, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	if !lines.Scan() || lines.Text() != pointsVersion {
		return nil, fmt.Errorf("got %.40q in its first line, want %q", lines.Text(), pointsVersion)
	}
	for line := 2; lines.Scan(); line++ {
		name, number, _ := strings.Cut(lines.Text(), " ")
		offset, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil || offset < 0:
			return nil, fmt.Errorf("line %d: got %.80q, want a name and an offset", line, lines.Text())
		case name == "partitions" && offset == int64(len(durable)):
			return durable, nil
		}
		durable[name] = offset
	}
	return nil, fmt.Errorf("got %d lines, want a last one with the number of partitions", len(durable)+1)
}
